"""EAGLE-2's dynamic tree: expand level by level, then rerank (arXiv 2406.16858, section 4).

The root's k most confident continuations are the first level. Each next level expands the k most
valuable nodes of the one before, so depth levels make k + (depth - 1) k^2 candidates; rerank keeps
the most valuable of all of them. Nothing is drawn: given the tokens so far, the tree is certain.

How many levels and nodes is a :class:`Shape`'s decision: fixed as the paper has it, or what pays on
this machine (``eagle/costs.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from eagle import costs as paying
from eagle.cache import KVCache
from eagle.draft_head import DraftHead
from eagle.host import fetch
from eagle.settings import Tree
from eagle.trace import Costs
from eagle.tree import Candidates, best_first


class Shape(Protocol):
    """Decides how far a draft goes, within its ``width`` and ``depth``."""

    @property
    def width(self) -> int: ...

    @property
    def depth(self) -> int: ...

    def goes_on(self, levels: list[Candidates], frontier: Tensor) -> bool:
        """Whether to draft another level below ``frontier`` (indices into the last level)."""
        ...

    def total(self, levels: list[Candidates]) -> int:
        """How many of the drafted candidates rerank keeps."""
        ...


@dataclass(frozen=True)
class FixedShape:
    """The paper's: the same width, depth and total in every step. ``left`` tokens may still be emitted,
    and a tree deeper than that could not be used."""

    tree: Tree
    left: int

    @property
    def width(self) -> int:
        return self.tree.width

    @property
    def depth(self) -> int:
        return min(self.tree.depth, self.left)

    def goes_on(self, levels: list[Candidates], frontier: Tensor) -> bool:
        return True

    def total(self, levels: list[Candidates]) -> int:
        return self.tree.total


class PayingShape:
    """As many levels and nodes as pay for themselves at this machine's costs.

    The decision is the host's, so each level's values are brought to it, once.
    """

    def __init__(self, costs: Costs, left: int) -> None:
        self.width = paying.AUTO_WIDTH
        self.depth = min(paying.AUTO_DEPTH, left)
        self._costs = costs
        self._pass_cost = paying.pass_ms(costs)
        self._values: list[paying.Array] = []  # of each level

    def goes_on(self, levels: list[Candidates], frontier: Tensor) -> bool:
        (at,) = self._bring(levels, frontier)
        return paying.another_level_pays(
            np.concatenate(self._values),
            self._values[-1][at.numpy()],
            len(levels),
            self._costs,
            self._pass_cost,
        )

    def total(self, levels: list[Candidates]) -> int:
        self._bring(levels)
        spent = len(levels) * self._costs.level_ms
        values = np.sort(np.concatenate(self._values))[::-1]
        return paying.best_size(values, self._pass_cost, spent)[0]

    def _bring(self, levels: list[Candidates], *others: Tensor) -> list[Tensor]:
        """The values of levels not brought yet, and other tensors, by one copy."""
        fresh = [level.log_value for level in levels[len(self._values) :]]
        here = fetch([*fresh, *others]) if fresh or others else []
        self._values += [log.double().exp().numpy() for log in here[: len(fresh)]]
        return here[len(fresh) :]


def expand(head: DraftHead, cache: KVCache, guess: Tensor, shape: Shape) -> list[Candidates]:
    """Levels of candidates below the root, whose feature is guessed as ``guess`` [1, H].

    ``cache`` is the head's, committed up to the root; it is left as it was.
    """
    width = min(shape.width, head.draft_vocabulary_size)
    committed = cache.length
    log_confidence, index = head.log_confidence(guess).topk(width, dim=-1)
    levels = [_level(head, index, log_confidence, log_confidence, torch.full((1,), -1, device=index.device))]
    frontier = torch.arange(width, device=index.device)  # among the last level's candidates
    features = guess.expand(width, -1)
    own = torch.eye(width, dtype=torch.bool, device=index.device)
    seen = own[:, :0]
    first = 0  # number of the last level's first candidate
    for depth in range(2, shape.depth + 1):
        if not shape.goes_on(levels, frontier):
            break
        last = levels[-1]
        seen = torch.cat((seen, own), dim=1)
        guesses = head.grow(last.token[frontier], features, seen, committed + depth - 2, cache)
        log_confidence, index = head.log_confidence(guesses).topk(width, dim=-1)
        log_value = last.log_value[frontier][:, None] + log_confidence
        levels.append(_level(head, index, log_confidence, log_value, first + frontier, depth))
        first += last.token.shape[0]
        frontier = best_first(levels[-1].log_value, width)
        rows = frontier // width
        features, seen = guesses[rows], seen[rows]
    cache.length = committed
    return levels


def _level(
    head: DraftHead,
    index: Tensor,
    log_confidence: Tensor,
    log_value: Tensor,
    parents: Tensor,
    depth: int = 1,
) -> Candidates:
    """index, log_confidence, log_value [m, k] of the continuations of ``parents`` [m] as one level."""
    parent = parents.repeat_interleave(index.shape[1])
    return Candidates(
        token=head.token_ids(index.flatten()),
        parent=parent,
        depth=torch.full_like(parent, depth),
        log_confidence=log_confidence.flatten(),
        log_value=log_value.flatten(),
    )
