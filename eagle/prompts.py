"""Question files: JSON lines with ``question_id``, ``category`` and ``turns`` (a list of texts)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path


class PromptFileError(ValueError):
    """A question file that can not be read; the message names the file and the line."""


@dataclass(frozen=True)
class Question:
    """One question; only its first turn is asked."""

    task: str
    category: str
    text: str


def read_questions(path: Path, limit: int | None = None) -> list[Question]:
    """The first ``limit`` questions of a file. Raises PromptFileError."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise PromptFileError(f"The question file {path} can not be read: {error}.") from None
    questions: list[Question] = []
    for number, line in enumerate(lines, start=1):
        if limit is not None and len(questions) >= limit:
            break
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            text = entry["turns"][0]
            category = str(entry.get("category", path.stem))
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            raise PromptFileError(
                f"{path}, line {number}: a JSON object with a list 'turns' of texts is expected."
            ) from None
        questions.append(Question(path.stem, category, str(text)))
    if not questions:
        raise PromptFileError(f"The question file {path} holds no question.")
    return questions
