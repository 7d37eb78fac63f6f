"""The evaluation that a head carries in its own config.json, and what hangs on the head's weights.

``eagle.evaluation`` holds the sha256 of the weights it was measured on, one report for each set of
prompt files, and ``check``: τ of a short run that a test repeats, which may not fall by more than 5%.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from eagle import head_files
from eagle.decoder import Pair
from eagle.evaluate.counts import Counts
from eagle.evaluate.questions import Question, read_questions
from eagle.evaluate.runs import ask
from eagle.head_loading import weights_hash
from eagle.settings import PAPER, Settings

CHECK_TOKENS = 48
ALLOWED_DROP = 0.05
REMAKE = "python -m eagle train refresh"


def check_questions(file: Path) -> list[Question]:
    """The first question of each kind in the product's own prompt file."""
    return read_questions([file], limit=1)


def check_tau(pair: Pair, file: Path) -> float:
    """τ at temperature 0 with the paper's tree over the check questions, under a minute on two cores."""
    settings = Settings(temperature=0.0, seed=0, max_new_tokens=CHECK_TOKENS, tree=PAPER)
    counts = Counts()
    for question in check_questions(file):
        counts.add(ask(pair, question, settings))
    assert counts.tau is not None
    return counts.tau


def store(folder: Path, report: dict[str, Any], check: float) -> None:
    """Writes a report into the head's config.json, in place of an earlier one on the same prompts.

    Reports of other weights are dropped.
    """
    from eagle.training.export import write_json

    config = head_files.read_config(folder)
    told = config.get("eagle", {})
    digest = weights_hash(folder)
    before = told.get("evaluation") or {}
    reports = before.get("reports", []) if before.get("head_sha256") == digest else []
    reports = [r for r in reports if r["prompts"] != report["prompts"]] + [report]
    evaluation = {"head_sha256": digest, "check": {"tau": round(check, 4)}, "reports": reports}
    write_json(folder / "config.json", config | {"eagle": told | {"evaluation": evaluation}})


def stored_evaluation(folder: Path) -> dict[str, Any] | None:
    """What ``store`` wrote, None where there is nothing."""
    return head_files.read_config(folder).get("eagle", {}).get("evaluation")


def stale(folder: Path, traces: Iterable[Path] = ()) -> list[str]:
    """A sentence for each thing that hangs on the head and was made with other weights, or is missing."""
    digest = weights_hash(folder)
    found = []
    evaluation = stored_evaluation(folder)
    if not evaluation:
        found.append(f"The head {folder.name} carries no evaluation; make it with: {REMAKE}")
    elif evaluation["head_sha256"] != digest:
        found.append(
            f"The evaluation stored with head {folder.name} is of other weights; make it with: {REMAKE}"
        )
    for trace in traces:
        head = json.loads(trace.read_text(encoding="utf-8"))["pair"].get("head") or {}
        if head.get("hash") not in (None, digest):
            found.append(f"The recorded run {trace.name} is of other weights; make it with: {REMAKE}")
    return found
