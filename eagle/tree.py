"""The draft tree: which candidates rerank keeps, who their parents are, who may see whom.

Everything here is index arithmetic on small tensors, on whatever device they are; nothing waits for
the host. Candidates are numbered in draft order: the k continuations of the root, then level by
level k continuations of each of the k frontier nodes (EAGLE-2, arXiv 2406.16858, section 4).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Candidates:
    """All M drafted candidates, in draft order, parents before children.

    ``parent`` [M] is a candidate index or -1 for the root; ``log_confidence`` and ``log_value`` [M]
    are logs of the head's probability and of its product along the path; ``depth`` [M] starts at 1.
    """

    token: Tensor
    parent: Tensor
    depth: Tensor
    log_confidence: Tensor
    log_value: Tensor

    def take(self, index: Tensor) -> Candidates:
        """These candidates only, in this order; parents keep their old numbers."""
        return Candidates(*(getattr(self, name)[index] for name in self.__dataclass_fields__))


def best_first(log_value: Tensor, count: int) -> Tensor:
    """Indices of the ``count`` largest values, largest first, ties to the earlier one.

    A child's value is never above its parent's and its number is always higher, so the first
    ``count`` of this order are a connected tree even where confidences of exactly 1 tie.
    """
    return torch.sort(log_value, descending=True, stable=True).indices[:count]


def rerank(candidates: Candidates, total: int) -> tuple[Tensor, Tensor]:
    """The ``total`` most valuable candidates, back in draft order, and the others.

    Returns (kept [N], cut [M - N]), both ascending, N = min(total, M).
    """
    order = best_first(candidates.log_value, candidates.log_value.shape[0])
    return order[:total].sort().values, order[total:].sort().values


def renumber(parent: Tensor, kept: Tensor, cut: Tensor) -> tuple[Tensor, Tensor]:
    """Parents of kept [N] and cut [M - N] candidates in the numbering kept first, then cut; -1 stays."""
    new = torch.empty(parent.shape[0] + 1, dtype=parent.dtype, device=parent.device)
    order = torch.cat((kept, cut))
    new[order] = torch.arange(order.shape[0], dtype=parent.dtype, device=parent.device)
    new[-1] = -1  # parent -1 indexes the last place
    return new[parent[kept]], new[parent[cut]]


def visible(parent: Tensor) -> Tensor:
    """Which rows of a verify pass may see which: parent [N] of the nodes -> bool [N + 1, N + 1].

    Row 0 is the root, row i + 1 node i; a row sees itself and its ancestors. For nodes with parents
    [-1, -1, 0] (two children of the root, and a child of the first):

        1 0 0 0
        1 1 0 0
        1 0 1 0
        1 1 0 1
    """
    above = torch.cat((parent.new_zeros(1), parent + 1))
    seen = torch.eye(above.shape[0], dtype=torch.bool, device=parent.device)
    # Each round doubles how far up a row has looked: 5 rounds cover 16 levels and the root.
    for _ in range(5):
        seen = seen | seen[above]
        above = above[above]
    return seen
