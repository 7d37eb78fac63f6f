"""Drafts of a fixed shape: a chain, and EAGLE-1's static tree.

The shape is a set of paths of child ranks and does not depend on any confidence. At temperature 0
the children of a node are the head's top k. Above it they are *drawn*, one after the other and
without replacement, from the head's distribution after the same temperature; so the rule must know
what each was drawn from (speculative sampling, arXiv 2211.17192, section 2.3; EAGLE, arXiv
2401.15077v3, appendix A.2). Top-p and top-k stay the target's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eagle.drafts import Draft, Sampled, whole
from eagle.rules import Array, Draw, draw_without_replacement
from eagle.settings import PAPER, Settings
from eagle.tree import Candidates

if TYPE_CHECKING:
    from eagle.decoder import State

Path = tuple[int, ...]
ROOT = -1

STATIC_PATHS = "0 1 2 3 00 01 02 10 11 20 21 30 000 001 002 010 011 020 021 100 0000 0001 0002 00000 00001"

# The most nodes that a draft of this file has: EAGLE-1's tree; a chain has at most 16.
STATIC_NODES = 25


def children_of(paths: set[Path]) -> dict[Path, int]:
    """How many children each inner node has; () is the root."""
    counts: dict[Path, int] = {}
    for path in paths:
        counts[path[:-1]] = counts.get(path[:-1], 0) + 1
    return counts


def static_shape() -> dict[Path, int]:
    """EAGLE-1's tree: 25 nodes over 5 levels."""
    return children_of({tuple(map(int, path)) for path in STATIC_PATHS.split()})


def chain_shape(depth: int) -> dict[Path, int]:
    """One node a level."""
    return {(0,) * level: 1 for level in range(depth)}


def draft_eagle1(state: State, settings: Settings, draw: Draw) -> Draft:
    """The static tree, no deeper than what may still be emitted."""
    return _draft(state, settings, draw, static_shape())


def draft_chain(state: State, settings: Settings, draw: Draw) -> Draft:
    """A chain as deep as the tree setting says."""
    tree = PAPER if settings.tree == "auto" else settings.tree
    return _draft(state, settings, draw, chain_shape(tree.depth))


@dataclass
class _Growing:
    """The nodes so far, and the rows that the head's cache holds of them."""

    path: list[Path] = field(default_factory=list)
    parent: list[int] = field(default_factory=list)
    token: list[int] = field(default_factory=list)
    q: list[Array] = field(default_factory=list)
    draws: list[float] = field(default_factory=list)
    levels: list[Candidates] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)

    @property
    def first_of_level(self) -> int:
        """The number of the last level's first node."""
        return len(self.path) - (self.levels[-1].token.shape[0] if self.levels else 0)

    def ancestors(self, node: int) -> set[int]:
        """The node and all above it."""
        found = set()
        while node != ROOT:
            found.add(node)
            node = self.parent[node]
        return found


def _draft(state: State, settings: Settings, draw: Draw, shape: dict[Path, int]) -> Draft:
    """Level by level: pick the children of the frontier, then let the head read those that have some."""
    head, cache = state.head, state.head_cache
    committed = cache.length
    ids = None if head.vocabulary is None else head.vocabulary_here
    tree = _Growing()
    pick = _top if settings.temperature == 0 else _drawer(tree, draw, settings.temperature)
    frontier, guesses = [ROOT], state.guess
    for depth in range(1, state.left + 1):
        picked = _pick_level(tree, frontier, head.log_confidence(guesses), shape, pick)
        _add_level(tree, picked, ids, depth)
        inner = [node for node, path in enumerate(tree.path) if len(path) == depth and path in shape]
        if not inner or depth == state.left:
            break
        parent_row = torch.tensor([frontier.index(tree.parent[node]) for node in inner])
        tree.rows += inner
        guesses = head.grow(
            torch.tensor([tree.token[node] for node in inner], device=guesses.device),
            guesses[parent_row.to(guesses.device)],
            _seen(tree, inner).to(guesses.device),
            committed + depth - 1,
            cache,
        )
        frontier = inner
    cache.length = committed
    if settings.temperature == 0:
        return whole(tree.levels, None, [])
    return whole(tree.levels, Sampled(tree.q, ids, state.pair.target.vocab_size), tree.draws)


# A picked child: the row of its parent in the frontier, its column in V', its parent, its path.
_Pick = tuple[int, int, int, Path]
_Picker = Callable[[Tensor, list[int]], list[list[int]]]


def _pick_level(
    tree: _Growing, frontier: list[int], log_confidence: Tensor, shape: dict[Path, int], pick: _Picker
) -> tuple[list[_Pick], Tensor]:
    paths = [() if node == ROOT else tree.path[node] for node in frontier]
    columns = pick(log_confidence, [shape[path] for path in paths])
    picked = [
        (row, column, frontier[row], (*paths[row], rank))
        for row, chosen in enumerate(columns)
        for rank, column in enumerate(chosen)
    ]
    return picked, log_confidence


def _top(log_confidence: Tensor, counts: list[int]) -> list[list[int]]:
    """The most confident columns of each row, as many as asked for or as there are."""
    best = log_confidence.topk(min(max(counts), log_confidence.shape[1]), dim=-1).indices.tolist()
    return [row[:count] for row, count in zip(best, counts, strict=True)]


def _drawer(tree: _Growing, draw: Draw, temperature: float) -> _Picker:
    """Draws columns of each row without replacement and notes the numbers used and what was drawn from."""

    def noted() -> float:
        tree.draws.append(draw())
        return tree.draws[-1]

    def pick(log_confidence: Tensor, counts: list[int]) -> list[list[int]]:
        logs = log_confidence.double().cpu().numpy() / temperature
        weights = np.exp(logs - logs.max(axis=-1, keepdims=True))
        columns = []
        for row, count in zip(weights, counts, strict=True):
            drawn = draw_without_replacement(row / row.sum(), count, noted)
            tree.q += [candidate.q for candidate in drawn if candidate.q is not None]
            columns.append([candidate.token for candidate in drawn])
        return columns

    return pick


def _add_level(
    tree: _Growing, level: tuple[list[_Pick], Tensor], ids: NDArray[np.int64] | None, depth: int
) -> None:
    """``ids`` [V'] are the tokens of the columns (None: column and token are the same)."""
    picked, log_confidence = level
    row, column, parent, path = (list(values) for values in zip(*picked, strict=True))
    tokens = column if ids is None else ids[column].tolist()
    above = [0 if node == ROOT else node - tree.first_of_level for node in parent]
    sent = torch.tensor([row, column, parent, tokens, above], device=log_confidence.device)
    confidence = log_confidence[sent[0], sent[1]]
    value = confidence + tree.levels[-1].log_value[sent[4]] if tree.levels else confidence
    tree.levels.append(
        Candidates(
            token=sent[3],
            parent=sent[2],
            depth=torch.full_like(sent[2], depth),
            log_confidence=confidence,
            log_value=value,
        )
    )
    tree.path += path
    tree.parent += parent
    tree.token += tokens


def _seen(tree: _Growing, inner: list[int]) -> Tensor:
    """bool [m, B]: which of the rows in the head's cache the new ones may see, themselves among them."""
    above = [tree.ancestors(node) for node in inner]
    return torch.tensor([[node in mine for node in tree.rows] for mine in above])
