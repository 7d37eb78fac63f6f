"""From logits to the target's distribution p, the one that every rule samples.

The order is the usual one: temperature, then top-k, then top-p. Temperature 0 is the one-hot on the
largest logit (the lowest id of equals), not a second algorithm. Tokens that tie at the edge of top-k
or top-p are all kept, so that no order of ids decides between equals. Only the target is shaped by
these settings; EAGLE-2's draft is not touched.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eagle.rules import Array
from eagle.settings import Settings
from eagle.trace import Distribution, six

# A temperature below this one would round to 0 in float32; p is one-hot long before.
SMALLEST = 1e-30
# Nucleus edges are looked for among this many tokens first; only flatter rows are sorted whole.
NUCLEUS_GUESS = 1024


NOT_FINITE = (
    "The target's logits are not finite {where}. This usually means that the number type overflows: "
    "load the pair again with --dtype float32 (or bfloat16 instead of float16)."
)


class NumericsError(ArithmeticError):
    """The model produced numbers that no distribution can be made of."""


def check_logits(logits: Tensor, where: str) -> None:
    """Raises NumericsError for NaN, +inf or an all -inf row of logits [N, V]; -inf entries are allowed."""
    top = logits.amax(dim=-1)
    if not bool(torch.isfinite(top).all()):
        raise NumericsError(NOT_FINITE.format(where=where))


def distribution(logits: NDArray[np.float32], settings: Settings) -> Array:
    """p [V] in float64 from one row of logits [V]; entries of -inf get 0.

    Raises NumericsError for NaN, +inf or nothing but -inf.
    """
    row = logits.astype(np.float64)
    if not np.isfinite(row.max()):
        raise NumericsError(NOT_FINITE.format(where="in one row"))
    if settings.temperature == 0:
        p = np.zeros_like(row)
        p[int(np.argmax(row))] = 1.0
        return p
    with np.errstate(over="ignore"):  # a tiny temperature sends all but the largest to -inf
        row = (row - row.max()) / settings.temperature
    if 0 < settings.top_k < row.size:
        row[row < np.partition(row, -settings.top_k)[-settings.top_k]] = -np.inf
    p = np.exp(row)
    p /= p.sum()
    if settings.top_p < 1:
        p = _nucleus(p, settings.top_p)
    return p


def _nucleus(p: Array, top_p: float) -> Array:
    """The most likely tokens whose mass first reaches top_p, with their equals, renormalised; never empty."""
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

    The same p as :func:`distribution` to about 1e-7, without building whole float64 rows: this is
    for the nodes that no verdict looks at. Logits are shifted and divided in float64 where a result
    is read; only the sum over V takes float32 exponentials, added up in float64.
    """
    if settings.temperature == 0:
        return (logits.argmax(dim=-1)[row] == token).double()
    used, row = torch.unique(row, return_inverse=True)
    rows = logits[used].float()
    top = rows.amax(-1, keepdim=True)
    edge = torch.full_like(top, -torch.inf)
    if 0 < settings.top_k < rows.shape[-1]:
        edge = rows.topk(settings.top_k, dim=-1).values[:, -1:]
    mass = _mass_above(rows, top, edge, settings.temperature)
    if settings.top_p < 1:
        edges = [_nucleus_edge(r, t, m, settings) for r, t, m in zip(rows, top, mass, strict=True)]
        edge = torch.maximum(edge, torch.stack(edges)[:, None])
        mass = _mass_above(rows, top, edge, settings.temperature)
    chosen = rows[row, token]
    p = _weights(chosen, top[row, 0], settings.temperature) / mass[row]
    return torch.where(chosen >= edge[row, 0], p, 0.0)


def _weights(logits: Tensor, top: Tensor, temperature: float) -> Tensor:
    """exp((logits - top) / temperature) in float64."""
    return ((logits.double() - top.double()) / max(temperature, SMALLEST)).exp()


def _mass_above(rows: Tensor, top: Tensor, edge: Tensor, temperature: float) -> Tensor:
    """Sum [N] of the weights of rows [N, V] whose logit is at least ``edge`` [N, 1]."""
    scaled = (rows - top) / max(temperature, SMALLEST)
    return scaled.masked_fill_(rows < edge, -torch.inf).exp_().sum(-1, dtype=torch.float64)


def _nucleus_edge(row: Tensor, top: Tensor, mass: Tensor, settings: Settings) -> Tensor:
    """The smallest logit inside the nucleus of one row [V] whose weights sum to ``mass``."""
    for size in (min(NUCLEUS_GUESS, row.shape[0]), row.shape[0]):
        largest = row.topk(size).values
        reached = (_weights(largest, top, settings.temperature) / mass).cumsum(0)
        if reached[-1] >= settings.top_p or size == row.shape[0]:
            break
    return largest[min(int((reached < settings.top_p).sum()), size - 1)]


def listed(p: Array, tokens: NDArray[np.int64]) -> Distribution:
    """The record of p at ``tokens``; everything else is summed as the rest."""
    return Distribution(
        token=tokens.tolist(),
        p=[six(value) for value in p[tokens].tolist()],
        rest=rest_of(p, tokens),
    )


def rest_of(p: Array, tokens: NDArray[np.int64]) -> float:
    """The mass of p [V] outside ``tokens``, summed and not 1 minus theirs: a small one keeps its digits."""
    others = p.copy()
    others[tokens] = 0.0
    return six(min(1.0, float(others.sum())))


def top_entries(p: Array, count: int) -> NDArray[np.int64]:
    """Ids of the ``count`` largest entries with p > 0, largest first, ties by id."""
    ids = np.flatnonzero(p > 0)  # first, since a row of mostly zeros is what partitioning is slowest on
    if 0 < count < ids.size:
        values = p[ids]
        ids = ids[values >= np.partition(values, -count)[-count]]
    return ids[np.argsort(-p[ids], kind="stable")][: max(0, count)]
