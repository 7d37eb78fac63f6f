"""A tiny target on disk and a small corpus for it, for tests that train."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from eagle import loading
from eagle.target import TransformersTarget
from eagle.training.features import FreshFeatures
from eagle.training.reading import Reader
from eagle.training.recipe import Recipe
from eagle.training.shards import read_corpus
from eagle.training.source import Source
from tests.tiny import byte_tokenizer, tiny_model

ROWS, LENGTH = 72, 24


def save_target(folder: Path) -> Path:
    """The tiny model and its byte tokenizer as a folder that every command takes."""
    tiny_model().save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return folder


def save_corpus(folder: Path, shards: int = 2, rows: int = ROWS, length: int = LENGTH) -> Path:
    """Seeded shards in which each token mostly decides the next, so that there is something to learn."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(7)
    follow = rng.permutation(64)
    for index in range(shards):
        tokens = np.zeros((rows, length), dtype=np.uint16)
        tokens[:, 0] = rng.integers(0, 64, rows)
        for t in range(1, length):
            jump = rng.random(rows) < 0.1
            tokens[:, t] = np.where(jump, rng.integers(0, 64, rows), follow[tokens[:, t - 1]])
        assistant = np.ones((rows, length), dtype=bool)
        assistant[:, :3] = False
        temperature = np.resize(np.array([0.0, 0.7, 1.0], dtype=np.float32), rows)
        name = folder / f"shard_{index:05d}.npz"
        np.savez(name, tokens=tokens, assistant=assistant, temperature=temperature)
    return folder


def tiny_source() -> Source:
    """The tiny target in memory, as training sees it."""
    model = tiny_model().requires_grad_(False)
    tokenizer = byte_tokenizer()
    return Source(
        TransformersTarget(model, loading.end_tokens(model, tokenizer)), tokenizer, "tiny", "ab" * 32
    )


def tiny_reader(corpus: Path) -> Reader:
    source = tiny_source()
    shards = read_corpus([corpus], source.target.vocab_size)
    return Reader(source, shards, FreshFeatures(source, shards))


def tiny_recipe(**changes: Any) -> Recipe:
    """Forty quick steps with a report every five."""
    values = {
        "steps": 40,
        "batch_tokens": 240,
        "lr": 1e-2,
        "warmup": 5,
        "unroll": 2,
        "vocabulary": 96,
        "log_every": 5,
        "save_every": 10,
        "measure_every": 20,
        "measure_rows": 6,
    }
    return Recipe(**values | changes)


def same_tensors(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
