"""A run folder: what a killed training goes on from, and the log of what it did so far.

``checkpoint.pt``  weights, optimisers and counters, replaced in one move;
``run.json``       what the run was asked to do and on what, written once;
``log.jsonl``      one JSON line a report; lines after the checkpoint are dropped on resuming.

Batches and noise are functions of the seed and the step, so no generator's state has to be kept.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from eagle.training.errors import TrainingError

CHECKPOINT, RUN, LOG = "checkpoint.pt", "run.json", "log.jsonl"
VERSION = 1


@dataclass
class Progress:
    """Where a run stands: steps done, its epoch and the batches done in it, tokens read, seconds spent."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    tokens: int = 0
    seconds: float = 0.0
    finished: bool = False


@dataclass(frozen=True)
class RunFolder:
    """The files of one training run."""

    path: Path

    def has_checkpoint(self) -> bool:
        return (self.path / CHECKPOINT).is_file()

    def save(self, module: dict[str, Any], optimizers: list[dict[str, Any]], progress: Progress) -> None:
        """Replaces the checkpoint; a kill at any moment leaves the old one or the new one."""
        content = {
            "version": VERSION,
            "module": module,
            "optimizers": optimizers,
            "progress": vars(progress).copy(),
        }
        unfinished = self.path / f"{CHECKPOINT}.unfinished"
        with unfinished.open("wb") as file:
            torch.save(content, file)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(self.path / CHECKPOINT)

    def load(self) -> tuple[dict[str, Any], list[dict[str, Any]], Progress]:
        """Weights, optimisers and progress. Raises TrainingError for anything but a checkpoint of ours."""
        try:
            content = torch.load(self.path / CHECKPOINT, map_location="cpu", weights_only=True)
            version = content["version"]
            if version == VERSION:
                return content["module"], content["optimizers"], Progress(**content["progress"])
        except (OSError, RuntimeError, KeyError, TypeError, EOFError, ValueError) as error:
            raise TrainingError(f"The checkpoint in {self.path} can not be read ({error!s:.100}).") from None
        raise TrainingError(f"The checkpoint in {self.path} has version {version}, but {VERSION} is read.")

    def write_record(self, record: dict[str, Any]) -> None:
        unfinished = self.path / f"{RUN}.unfinished"
        unfinished.write_text(json.dumps(record, indent=1))
        unfinished.replace(self.path / RUN)

    def record(self) -> dict[str, Any]:
        """What ``write_record`` wrote."""
        try:
            return json.loads((self.path / RUN).read_text())
        except (OSError, ValueError):
            raise TrainingError(f"{self.path} is no training run: its {RUN} can not be read.") from None

    def append(self, line: dict[str, Any]) -> None:
        with (self.path / LOG).open("a") as file:
            file.write(json.dumps(line) + "\n")

    def log(self) -> list[dict[str, Any]]:
        """All whole lines of the log; a line that a kill cut short is left out."""
        lines = []
        path = self.path / LOG
        for text in path.read_text().splitlines() if path.is_file() else []:
            try:
                lines.append(json.loads(text))
            except ValueError:
                continue
        return lines

    def rewind_log(self, step: int) -> None:
        """Drops what was logged after ``step``: those steps are about to be done again."""
        kept = [line for line in self.log() if line["step"] <= step]
        unfinished = self.path / f"{LOG}.unfinished"
        unfinished.write_text("".join(json.dumps(line) + "\n" for line in kept))
        unfinished.replace(self.path / LOG)
