"""The evaluation that a head carries in its own config.json, and whether it is of these very weights.

``eagle.evaluation`` holds the sha256 of the weights it was measured on. ``check`` in it is a short run
that a test repeats: τ may not fall by more than 5%.
"""

from __future__ import annotations

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
    """Writes the evaluation into the head's config.json, with the hash of the weights it belongs to."""
    from eagle.training.export import write_json

    config = head_files.read_config(folder)
    evaluation = {"head_sha256": weights_hash(folder), "check": {"tau": round(check, 4)}} | report
    config["eagle"] = config.get("eagle", {}) | {"evaluation": evaluation}
    write_json(folder / "config.json", config)


def stale(folder: Path) -> str | None:
    """One sentence when the stored evaluation is missing or of other weights, else None."""
    evaluation = head_files.read_config(folder).get("eagle", {}).get("evaluation")
    if not evaluation:
        return f"The head {folder.name} carries no evaluation; make one with: python -m eagle eval --store"
    if evaluation["head_sha256"] != weights_hash(folder):
        return (
            f"The evaluation stored with head {folder.name} is of other weights; "
            "make it anew with: python -m eagle eval --store"
        )
    return None
