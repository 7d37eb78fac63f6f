"""How often the head's guesses name the target's own best token, on text it was not trained on.

The head is unrolled on its own guesses as in drafting: draft step 1 reads true features, step j the
guesses of step j - 1. The tokens read are the text's own, so this is agreement along the right path.
The target's best token is looked for in its whole vocabulary: one that the trimmed draft can not
propose counts as a miss. Only positions whose next token belongs to an answer count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from eagle.head import HeadModule
from eagle.training.loss import CHUNK, Batch
from eagle.training.reading import Reader
from eagle.training.shards import Piece
from eagle.training.unroll import unrolled_guesses

DRAFT_STEPS = 4


@dataclass(frozen=True)
class HeldOut:
    """A held-out batch with what the target says about it.

    ``best`` [B, N]: column of the target's best next token among the scored ones, -1 where it is not
    among them; ``reachable`` [B, N]: the target's mass on the scored tokens, at temperature 1.
    """

    batch: Batch
    best: Tensor
    reachable: Tensor


def held_out(
    reader: Reader, pieces: Sequence[Piece], vocabulary: Tensor | None, batch_tokens: int = 2048
) -> Iterator[HeldOut]:
    """The pieces in batches of one length, each with the target's answers over its whole vocabulary."""
    by_length: dict[int, list[Piece]] = {}
    for piece in pieces:
        by_length.setdefault(piece.length, []).append(piece)
    for length, group in sorted(by_length.items()):
        size = max(1, batch_tokens // length)
        for start in range(0, len(group), size):
            yield _answered(reader, group[start : start + size], vocabulary)


@torch.no_grad()
def _answered(reader: Reader, pieces: Sequence[Piece], vocabulary: Tensor | None) -> HeldOut:
    batch = reader.batch(pieces, prompt_weight=0.0)
    target = reader.source.target
    column = torch.arange(target.vocab_size, device=target.device)
    if vocabulary is not None:
        column = torch.full_like(column, -1)
        column[vocabulary.to(target.device)] = torch.arange(len(vocabulary), device=target.device)
    best, reachable = [], []
    for chunk in batch.wanted.flatten(0, 1).split(CHUNK // 4):
        p = target.logits(chunk.to(target.dtype)).float().softmax(-1)
        best.append(column[p.argmax(-1)])
        reachable.append((p * (column >= 0)).sum(-1))
    shape = batch.weight.shape
    return HeldOut(batch, torch.cat(best).view(shape), torch.cat(reachable).view(shape))


def spread(pieces: Sequence[Piece], count: int) -> list[Piece]:
    """At most ``count`` pieces, evenly spread, so that every shard and temperature is met."""
    if len(pieces) <= count:
        return list(pieces)
    return [pieces[i * len(pieces) // count] for i in range(count)]


@torch.no_grad()
def measure(
    head: HeadModule, batches: Iterable[HeldOut], rows: Tensor, draft_steps: int = DRAFT_STEPS
) -> dict[str, Any]:
    """Agreement by draft step, as plain numbers.

    ``top1`` and ``top4`` [draft_steps]: share of positions where the target's best token is the
    draft's best, or among its best four; ``feature_loss`` and ``token_loss`` of step 1;
    ``reachable``: the target's mean mass on tokens that the draft can propose; ``positions``.
    """
    hits = torch.zeros(2, draft_steps, dtype=torch.float64)
    counts = torch.zeros(draft_steps, dtype=torch.float64)
    feature = token = reachable = 0.0
    for item in batches:
        b = item.batch
        guesses = unrolled_guesses(head, b.embeddings, b.features, b.cos, b.sin, draft_steps)
        for step, guess in enumerate(guesses):
            counted = b.weight[:, step:] > 0
            chosen, best = guess[:, step:][counted], item.best[:, step:][counted]
            for part, wanted in zip(chosen.split(CHUNK), best.split(CHUNK), strict=True):
                top = _scores(part, rows).topk(min(4, rows.shape[0]), dim=-1).indices
                hits[0, step] += int((top[:, 0] == wanted).sum())
                hits[1, step] += int((top == wanted[:, None]).any(-1).sum())
            counts[step] += int(counted.sum())
        counted = b.weight > 0
        feature += float(F.smooth_l1_loss(guesses[0], b.wanted, reduction="none").mean(-1)[counted].sum())
        token += _cross_entropy(guesses[0][counted], b.wanted[counted], rows)
        reachable += float(item.reachable[counted].sum())
    shares = (hits / counts.clamp_min(1)).tolist()
    positions = max(1.0, float(counts[0]))
    return {
        "top1": [round(x, 5) for x in shares[0]],
        "top4": [round(x, 5) for x in shares[1]],
        "feature_loss": round(feature / positions, 5),
        "token_loss": round(token / positions, 5),
        "reachable": round(reachable / positions, 5),
        "positions": int(counts[0]),
    }


def _scores(features: Tensor, rows: Tensor) -> Tensor:
    return (features.to(rows.dtype) @ rows.T).float()


def _cross_entropy(guess: Tensor, wanted: Tensor, rows: Tensor) -> float:
    """Sum over positions of the soft cross-entropy among the scored tokens."""
    total = 0.0
    for g, w in zip(guess.split(CHUNK), wanted.split(CHUNK), strict=True):
        p = _scores(w, rows).softmax(-1)
        total -= float((p * _scores(g, rows).log_softmax(-1)).sum())
    return total
