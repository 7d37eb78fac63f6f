"""What a draft is: a tree of candidates and, where they were drawn, the distributions they came from.

Shapes: N nodes, V vocabulary, V' draft vocabulary (the tokens that the head may propose).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eagle.rules import Array, Candidate
from eagle.tree import Candidates, renumber, rerank, visible


@dataclass(frozen=True)
class Sampled:
    """Where drawn candidates came from.

    ``q`` holds for each node the distribution [V'] that it was drawn from: the head's, after the
    temperature, without the siblings drawn before it. ``token`` [V'] are the ids of its columns
    (None: column and id are the same), ``vocab_size`` is V.
    """

    q: list[Array]
    token: NDArray[np.int64] | None
    vocab_size: int

    def over_vocabulary(self, node: int) -> Array:
        """q of a node over the target's whole vocabulary [V]; built only for nodes that are tested."""
        if self.token is None:
            return self.q[node]
        whole = np.zeros(self.vocab_size)
        whole[self.token] = self.q[node]
        return whole


@dataclass(frozen=True)
class Draft:
    """A drafted tree, ready to be verified.

    ``kept`` are the N nodes in draft order with parents among themselves (-1: the root); ``cut`` the
    other candidates, numbered after them. ``block`` [N + 1, N + 1] is who may see whom, the root
    first. ``sampled`` is there where candidates were drawn, with ``draws``, the uniform numbers
    that drew them, one a node in the order of the nodes.
    """

    kept: Candidates
    cut: Candidates
    block: Tensor
    sampled: Sampled | None = None
    draws: list[float] = field(default_factory=list)

    # Lists for the host, made once; of a draft on a device each is a copy that waits for it.

    @cached_property
    def tokens(self) -> list[int]:
        """The token of each node."""
        return self.kept.token.tolist()

    @cached_property
    def parents(self) -> list[int]:
        """The parent of each node, -1 for the root."""
        return self.kept.parent.tolist()

    @cached_property
    def children(self) -> dict[int, list[int]]:
        """The nodes below each node that has some (-1: the root), in the order they are offered."""
        found: dict[int, list[int]] = {}
        for node, parent in enumerate(self.parents):
            found.setdefault(parent, []).append(node)
        return found


def reranked(levels: list[Candidates], total: int) -> Draft:
    """The ``total`` most valuable candidates of all levels as a draft, the others as its cut ones."""
    every = joined(levels)
    kept, cut = rerank(every, total)
    kept_parent, cut_parent = renumber(every.parent, kept, cut)
    nodes, others = every.take(kept), every.take(cut)
    nodes.parent.copy_(kept_parent)
    others.parent.copy_(cut_parent)
    return Draft(nodes, others, visible(kept_parent))


def whole(levels: list[Candidates], sampled: Sampled | None, draws: list[float]) -> Draft:
    """All candidates of all levels as a draft; nothing is cut."""
    every = joined(levels)
    none = every.take(torch.zeros(0, dtype=torch.long, device=every.token.device))
    return Draft(every, none, visible(every.parent), sampled, draws)


def joined(levels: list[Candidates]) -> Candidates:
    """The candidates of all levels, one after the other."""
    names = Candidates.__dataclass_fields__
    return Candidates(*(torch.cat([getattr(level, name) for level in levels]) for name in names))


def candidates_at(children: Sequence[int], tokens: list[int], drafted: Draft) -> list[Candidate]:
    """What the rule is offered for these sibling nodes, in the order they are offered."""
    sampled = drafted.sampled
    if sampled is None:
        return [Candidate(tokens[child]) for child in children]
    return [Candidate(tokens[child], sampled.over_vocabulary(child)) for child in children]
