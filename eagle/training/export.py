"""From a run folder to a head that ``eagle.load(head=FOLDER)`` takes.

The folder is a valid EAGLE-1/2 checkpoint: fp16 tensors under the published names and a config.json in
the published layout. Ours besides: ``draft_vocabulary.safetensors`` (the token ids that the draft
scores) and the config's ``eagle`` object (which target, which corpus, which recipe, which code).
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from eagle import head_files
from eagle.training.checkpoint import RunFolder
from eagle.training.errors import TrainingError
from eagle.training.start import stretch


def export(run: RunFolder, folder: Path) -> Path:
    """Writes the head of a run's last checkpoint; the weights file is put in place last."""
    weights, _, progress = run.load()
    record = run.record()
    half = {name: value.to(torch.float16).contiguous() for name, value in weights.items()}
    for name, value in half.items():
        if not bool(torch.isfinite(value).all()):
            raise TrainingError(f"The tensor {name} does not fit fp16; this head can not be exported.")
    folder.mkdir(parents=True, exist_ok=True)
    description = record["layout"] | {"eagle": provenance(record, vars(progress), last_measured(run))}
    vocabulary = run.path / head_files.VOCABULARY
    if vocabulary.is_file():
        save(folder / head_files.VOCABULARY, load_file(vocabulary))
    else:
        (folder / head_files.VOCABULARY).unlink(missing_ok=True)
    write_json(folder / "config.json", description)
    save(folder / "model.safetensors", half)
    return folder


def provenance(
    record: dict[str, Any], progress: dict[str, Any], measured: dict[str, Any] | None
) -> dict[str, Any]:
    """The config's ``eagle`` object. ``evaluation`` is added by ``eval --store``."""
    return {
        "target": record["target"],
        "target_sha256": record["target_sha256"],
        "corpus_tokens": record["corpus"]["tokens"],
        "corpus_sha256": record["corpus"]["sha256"],
        "draft_vocabulary": record["draft_vocabulary"],
        "steps": progress["step"] + sum(part["steps"] for part in record["history"]),
        "tokens_read": progress["tokens"] + sum(part["tokens_read"] for part in record["history"]),
        "git_commit": record["git_commit"],
        "stretch": stretch(record, progress),
        "history": record["history"],
        "held_out": measured,
        "evaluation": None,
    }


def last_measured(run: RunFolder) -> dict[str, Any] | None:
    """The latest agreement on held-out text."""
    return next((line["held_out"] for line in reversed(run.log()) if "held_out" in line), None)


def save_vocabulary(path: Path, ids: Tensor) -> None:
    """Token ids [V'] as int32, the file that a head's loader looks for."""
    save(path, {"token_ids": ids.to(torch.int32)})


def save(path: Path, tensors: dict[str, Tensor]) -> None:
    """A safetensors file, put in place in one move."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.unfinished")
    save_file(tensors, unfinished, metadata={"format": "pt"})
    unfinished.replace(path)


def write_json(path: Path, value: dict[str, Any]) -> None:
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.unfinished")
    unfinished.write_text(json.dumps(value, indent=1, allow_nan=False) + "\n")
    unfinished.replace(path)


def git_commit() -> str | None:
    """The commit of this repository that is checked out, None outside one."""
    try:
        command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
