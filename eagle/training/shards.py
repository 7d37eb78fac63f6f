"""Reading a corpus: shards of rows, the pieces cut from them, and which rows are held out.

A shard is an ``.npz`` with ``tokens`` uint16 or uint32 [rows, N], ``assistant`` bool [rows, N] (True
where the token belongs to an answer) and ``temperature`` float32 [rows]. A row is one conversation.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eagle.training.errors import TrainingError

# Of every 36 rows the first three are held out: neighbours, because rows take their temperatures in turn.
HELD_OUT_PERIOD, HELD_OUT_ROWS = 36, 3


@dataclass(frozen=True)
class Shard:
    """One file of a corpus."""

    path: Path
    tokens: NDArray[np.unsignedinteger]
    assistant: NDArray[np.bool_]
    temperature: NDArray[np.float32]

    @property
    def name(self) -> str:
        return self.path.stem


class Piece(NamedTuple):
    """Tokens [start, stop) of one row of one shard."""

    shard: int
    row: int
    start: int
    stop: int

    @property
    def length(self) -> int:
        return self.stop - self.start


def read_shard(path: Path) -> Shard:
    """One checked shard; TrainingError names the file and what is wrong with it."""
    try:
        with np.load(path, allow_pickle=False) as file:
            shard = Shard(path, file["tokens"], file["assistant"], file["temperature"])
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise TrainingError(f"The shard {path.name} can not be read ({error}).") from None
    if shard.tokens.ndim != 2 or shard.tokens.dtype.kind != "u":
        raise TrainingError(
            f"The shard {path.name} must hold unsigned token ids [rows, N], but holds "
            f"{shard.tokens.dtype} {list(shard.tokens.shape)}."
        )
    if shard.assistant.shape != shard.tokens.shape or len(shard.temperature) != len(shard.tokens):
        raise TrainingError(f"The columns of the shard {path.name} differ in length.")
    return shard


def read_corpus(folders: Sequence[Path], vocab_size: int) -> list[Shard]:
    """All shards of the folders, by name. Raises TrainingError when there is none or ids are too large."""
    shards: list[Shard] = []
    for folder in folders:
        found = sorted(folder.glob("*.npz"))
        if not found:
            raise TrainingError(f"There is no shard (*.npz) in {folder}.")
        shards += [read_shard(path) for path in found]
    names = [shard.name for shard in shards]
    if len(set(names)) != len(names):
        raise TrainingError("Two corpus folders hold a shard of the same name; rename one.")
    for shard in shards:
        largest = int(shard.tokens.max(initial=0))
        if largest >= vocab_size:
            raise TrainingError(
                f"The shard {shard.name} holds token id {largest}, but the target has {vocab_size:,} tokens."
            )
    return shards


def digest(shards: Sequence[Shard]) -> str:
    """sha256 over all token ids, in order: tells whether a run goes on over the same text."""
    state = hashlib.sha256()
    for shard in shards:
        state.update(np.ascontiguousarray(shard.tokens, dtype=np.uint32).tobytes())
    return state.hexdigest()


def is_held_out(row: int) -> bool:
    """Whether this row of a shard is kept from training."""
    return row % HELD_OUT_PERIOD < HELD_OUT_ROWS


def pieces(shards: Sequence[Shard], cut: int, held_out: bool) -> list[Piece]:
    """The training (or the held-out) rows, each in equal parts of at most ``cut`` tokens."""
    return list(_pieces(shards, cut, held_out))


def _pieces(shards: Sequence[Shard], cut: int, held_out: bool) -> Iterator[Piece]:
    for index, shard in enumerate(shards):
        rows, length = shard.tokens.shape
        edges = np.linspace(0, length, -(-length // cut) + 1).astype(int).tolist()
        for row in range(rows):
            if is_held_out(row) == held_out:
                for start, stop in pairwise(edges):
                    yield Piece(index, row, start, stop)


def batches(
    all_pieces: Sequence[Piece], batch_tokens: int, seed: int, epoch: int, world: int = 1
) -> list[list[Piece]]:
    """An epoch's batches of about ``batch_tokens`` tokens, each of pieces of one length, in random order.

    A function of its arguments alone, so that a resumed run meets the same batches. The count is a
    multiple of ``world`` (processes that take them in turn): the last few may be left out.
    """
    rng = np.random.default_rng([seed, epoch])
    by_length: dict[int, list[Piece]] = {}
    for piece in all_pieces:
        by_length.setdefault(piece.length, []).append(piece)
    made: list[list[Piece]] = []
    for length, group in sorted(by_length.items()):
        order = rng.permutation(len(group))
        count = -(-len(group) // max(1, batch_tokens // length))
        made += [[group[i] for i in part] for part in np.array_split(order, count)]
    made = [made[i] for i in rng.permutation(len(made))]
    if len(made) < world:
        raise TrainingError(f"The corpus makes {len(made)} batches, but {world} processes need one each.")
    return made[: len(made) // world * world]


def token_counts(shards: Sequence[Shard], vocab_size: int) -> NDArray[np.int64]:
    """How often each token id [V] occurs in the corpus."""
    counts = np.zeros(vocab_size, dtype=np.int64)
    for shard in shards:
        counts += np.bincount(shard.tokens.ravel().astype(np.int64), minlength=vocab_size)
    return counts


def most_frequent(counts: NDArray[np.int64], size: int, always: Sequence[int] = ()) -> NDArray[np.int64]:
    """Ids [size] of the most frequent tokens, ascending, the ``always`` ones among them.

    Ties go to the lower id: byte-pair vocabularies number their merges by frequency.
    """
    ranked = counts.astype(np.float64)
    ranked[list(always)] = np.inf
    return np.sort(np.argsort(-ranked, kind="stable")[:size])
