"""From logits to the target's distribution p, the one that every rule samples.

The order is the usual one: temperature, then top-k, then top-p. Temperature 0 is the one-hot on the
largest logit, not a second algorithm. Only the target is shaped by these settings; EAGLE-2's draft
is not touched.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eagle.rules import Array
from eagle.settings import Settings
from eagle.trace import Distribution, six

# Nucleus edges are looked for among this many tokens first; only flatter rows are sorted whole.
NUCLEUS_GUESS = 1024


class NumericsError(ArithmeticError):
    """The model produced numbers that no distribution can be made of."""


def check_logits(logits: Tensor, where: str) -> None:
    """Raises NumericsError for NaN, +inf or an all -inf row of logits [N, V]; -inf entries are allowed."""
    top = logits.amax(dim=-1)
    if not bool(torch.isfinite(top).all()):
        raise NumericsError(
            f"The target's logits are not finite {where}. This usually means that the number type "
            "overflows: load the pair again with --dtype float32 (or bfloat16 instead of float16)."
        )


def distribution(logits: NDArray[np.float32], settings: Settings) -> Array:
    """p [V] in float64 from one finite row of logits [V]."""
    row = logits.astype(np.float64)
    if settings.temperature == 0:
        p = np.zeros_like(row)
        p[int(np.argmax(row))] = 1.0
        return p
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        row = (row - row.max()) / settings.temperature
    row = np.nan_to_num(row, nan=0.0, neginf=-np.inf)  # 0 / subnormal temperature
    if 0 < settings.top_k < row.size:
        row[row < np.partition(row, -settings.top_k)[-settings.top_k]] = -np.inf
    p = np.exp(row)
    p /= p.sum()
    if settings.top_p < 1:
        p = _nucleus(p, settings.top_p)
    return p


def _nucleus(p: Array, top_p: float) -> Array:
    """The smallest set of most likely tokens with mass >= top_p, renormalised; never empty."""
    for size in (min(NUCLEUS_GUESS, p.size), p.size):
        largest = np.sort(np.partition(p, -size)[-size:])[::-1]
        mass = np.cumsum(largest)
        if mass[-1] >= top_p or size == p.size:
            break
    edge = largest[min(int(np.searchsorted(mass, top_p)), size - 1)]
    kept = np.where(p >= edge, p, 0.0)
    return kept / kept.sum()


def token_probabilities(logits: Tensor, row: Tensor, token: Tensor, settings: Settings) -> Tensor:
    """p(token) for many (row, token) pairs at once: logits [N, V], row and token [M] -> [M].

    The same p as :func:`distribution`, in float32 and without building whole rows: this is for the
    nodes that no verdict looks at.
    """
    if settings.temperature == 0:
        return (logits.argmax(dim=-1)[row] == token).float()
    used, row = torch.unique(row, return_inverse=True)
    scaled = logits[used].float()
    scaled = (scaled - scaled.amax(-1, keepdim=True)) / settings.temperature
    if 0 < settings.top_k < scaled.shape[-1]:
        edge = scaled.topk(settings.top_k, dim=-1).values[:, -1:]
        scaled = scaled.masked_fill(scaled < edge, -torch.inf)
    mass = scaled.logsumexp(-1)
    if settings.top_p < 1:
        edge = torch.stack([_nucleus_edge((r - m).exp(), settings.top_p) for r, m in zip(scaled, mass)])
        scaled = scaled.masked_fill((scaled - mass[:, None]).exp() < edge[:, None], -torch.inf)
        mass = scaled.logsumexp(-1)
    return (scaled[row, token] - mass[row]).exp()


def _nucleus_edge(p: Tensor, top_p: float) -> Tensor:
    """The smallest probability inside the nucleus of p [V]."""
    for size in (min(NUCLEUS_GUESS, p.shape[0]), p.shape[0]):
        largest = p.topk(size).values
        mass = largest.cumsum(0)
        if mass[-1] >= top_p or size == p.shape[0]:
            break
    return largest[min(int((mass < top_p).sum()), size - 1)]


def listed(p: Array, tokens: NDArray[np.int64]) -> Distribution:
    """The record of p at ``tokens``; everything else is summed as the rest."""
    values = p[tokens]
    return Distribution(
        token=tokens.tolist(),
        p=[six(value) for value in values.tolist()],
        rest=six(max(0.0, float(p.sum() - values.sum()))),
    )


def top_entries(p: Array, count: int) -> NDArray[np.int64]:
    """Ids of the ``count`` largest entries with p > 0, largest first, ties by id."""
    if count < p.size:
        ids = np.argpartition(-p, count)[:count]
    else:
        ids = np.arange(p.size)
    ids = ids[p[ids] > 0]
    return ids[np.lexsort((ids, -p[ids]))]
