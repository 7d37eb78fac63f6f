"""Prompt files: one JSON object a line with ``question_id``, ``category`` and ``turns``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from eagle.text import PromptError


@dataclass(frozen=True)
class Question:
    """One question of one task; later turns follow the model's own answers."""

    task: str
    id: str
    turns: tuple[str, ...]


def read_questions(files: Sequence[Path], limit: int | None = None) -> list[Question]:
    """The first ``limit`` questions of each task, in file order.

    Of several files each is a task, named by its stem; in a single file the categories are the
    tasks. Raises PromptError naming the file and line of what is no question.
    """
    found: list[Question] = []
    for file in files:
        for number, line in enumerate(_lines(file), 1):
            if line.strip():
                found.append(_question(file, number, line, by_category=len(files) == 1))
    if not found:
        raise PromptError(f"There is no question in {', '.join(str(file) for file in files)}.")
    seen: dict[str, int] = {}
    kept = []
    for question in found:
        seen[question.task] = seen.get(question.task, 0) + 1
        if limit is None or seen[question.task] <= limit:
            kept.append(question)
    return kept


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise PromptError(f"The prompt file {file} can not be read ({error!s:.80}).") from None


def _question(file: Path, number: int, line: str, by_category: bool) -> Question:
    try:
        record = json.loads(line)
        turns = tuple(record["turns"])
        valid = turns and all(isinstance(turn, str) and turn.strip() for turn in turns)
        task = str(record.get("category") or file.stem) if by_category else file.stem
        question = Question(task, str(record["question_id"]), turns)
    except (ValueError, KeyError, TypeError):
        valid = False
    if not valid:
        raise PromptError(
            f"Line {number} of {file.name} must be a JSON object with question_id and turns, a list of texts."
        )
    return question
