"""Where the target's features of a corpus come from: a cache on disk, or a pass of the target each time.

Cached features are fp16 ``.npy`` files [rows, N, H], one a shard, of the shard's name: 1.15 KB a token
for the built-in target. They are read through a memory map, so memory does not grow with the corpus.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from eagle.training.errors import TrainingError
from eagle.training.shards import Piece, Shard
from eagle.training.source import Source

ROWS_AT_ONCE = 8
SPOT_CHECKS = 4


class Features(Protocol):
    """Gives the features of pieces of one length as one tensor [B, N, H]."""

    def of(self, pieces: Sequence[Piece]) -> Tensor: ...


class FreshFeatures:
    """Runs the target for each batch: no disk, one target pass a batch."""

    def __init__(self, source: Source, shards: Sequence[Shard]) -> None:
        self._source = source
        self._shards = shards

    def of(self, pieces: Sequence[Piece]) -> Tensor:
        """One target pass for each distinct stop: a piece further down its row needs what came before it."""
        found: dict[int, Tensor] = {}
        for stop in {piece.stop for piece in pieces}:
            wanted = [i for i, piece in enumerate(pieces) if piece.stop == stop]
            rows = [self._shards[pieces[i].shard].tokens[pieces[i].row, :stop] for i in wanted]
            features = self._source.features(torch.from_numpy(np.stack(rows).astype(np.int64)))
            for i, row in zip(wanted, features, strict=True):
                found[i] = row[pieces[i].start :]
        together = torch.stack([found[i] for i in range(len(pieces))])
        return together.clone()  # made outside inference mode, so that a gradient may pass by


class CachedFeatures:
    """Reads fp16 features from disk."""

    def __init__(self, arrays: Sequence[Any]) -> None:
        self._arrays = arrays

    def of(self, pieces: Sequence[Piece]) -> Tensor:
        rows = [self._arrays[p.shard][p.row, p.start : p.stop] for p in pieces]
        return torch.from_numpy(np.stack(rows))


def cached(source: Source, shards: Sequence[Shard], folder: Path) -> CachedFeatures:
    """The cache in ``folder``, completed first where shards are missing from it.

    A kill leaves whole files only. Raises TrainingError where a file is of another target or corpus.
    """
    folder.mkdir(parents=True, exist_ok=True)
    missing = [shard for shard in shards if not (folder / f"{shard.name}.npy").is_file()]
    total = sum(shard.tokens.size for shard in missing)
    with tqdm(total=total, desc="features", unit=" tokens", unit_scale=True, disable=not missing) as bar:
        for shard in missing:
            _write(source, shard, folder / f"{shard.name}.npy", bar)
    arrays = [np.load(folder / f"{shard.name}.npy", mmap_mode="r") for shard in shards]
    hidden = source.target.hidden_size
    for shard, array in zip(shards, arrays, strict=True):
        if array.shape != (*shard.tokens.shape, hidden):
            raise TrainingError(
                f"The cached features {shard.name}.npy have shape {list(array.shape)}, but shard and "
                f"target ask for {[*shard.tokens.shape, hidden]}; delete them or name another folder."
            )
    _spot_check(source, shards, arrays)
    return CachedFeatures(arrays)


def _write(source: Source, shard: Shard, path: Path, bar: Any) -> None:
    tokens = torch.from_numpy(shard.tokens.astype(np.int64))
    parts = []
    for chunk in tokens.split(ROWS_AT_ONCE):
        part = source.features(chunk).float().cpu()
        if float(part.abs().max()) > np.finfo(np.float16).max:
            raise TrainingError("These features do not fit fp16; train without a feature cache.")
        parts.append(part.half().numpy())
        bar.update(chunk.numel())
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.unfinished")
    with unfinished.open("wb") as file:
        np.save(file, np.concatenate(parts))
    unfinished.replace(path)


def _spot_check(source: Source, shards: Sequence[Shard], arrays: Sequence[Any]) -> None:
    """One row of a few shards again: features of other weights or other text differ at once."""
    for index in np.linspace(0, len(shards) - 1, min(SPOT_CHECKS, len(shards))).astype(int):
        tokens = torch.from_numpy(shards[index].tokens[:1].astype(np.int64))
        fresh = source.features(tokens)[0].float().cpu()
        stored = torch.from_numpy(np.array(arrays[index][0])).float()
        error = (fresh - stored).square().mean() / fresh.square().mean()
        if not float(error) < 1e-2:
            raise TrainingError(
                f"The cached features {shards[index].name}.npy are not this target's features of that shard; "
                "delete them or name another folder."
            )
