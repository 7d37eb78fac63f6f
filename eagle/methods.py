"""What each method drafts, and which candidates its rule is shown.

========  ======================================  =====================================
method    drafts                                  judged with
========  ======================================  =====================================
vanilla   nothing                                 a plain draw from the target
eagle2    dynamic tree of deterministic top-k     q = 1 on each candidate
========  ======================================  =====================================

A method is one function from the state of a run to a :class:`Draft`; :func:`candidates_at` then says
what the rule is offered below a node. The judging itself is ``eagle/rules.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from eagle.rules import Candidate, Draw
from eagle.settings import PAPER, Method, Settings, Tree
from eagle.tree import Candidates, best_first, renumber, rerank, visible

if TYPE_CHECKING:
    from eagle.decoder import State


@dataclass(frozen=True)
class Draft:
    """A drafted tree, ready to be verified.

    ``kept`` are the N nodes in draft order with parents among themselves (-1: the root); ``cut`` the
    other candidates, numbered after them. ``block`` [N + 1, N + 1] is who may see whom, the root
    first. ``sampled`` holds, for methods that draw their candidates, each node's candidate with the
    distribution it was drawn from; ``draws`` the uniform numbers that drew them.
    """

    kept: Candidates
    cut: Candidates
    block: Tensor
    sampled: dict[int, Candidate] | None = None
    draws: list[float] = field(default_factory=list)


def draft(state: State, settings: Settings, draw: Draw) -> Draft | None:
    """The method's draft for this step; None where it drafts nothing."""
    drafter = DRAFTERS[settings.method]
    return drafter(state, settings, draw) if drafter else None


def tree_shape(settings: Settings, state: State) -> Tree:
    """The tree to draft: never deeper than what may still be emitted."""
    tree = PAPER if settings.tree == "auto" else settings.tree
    return tree if tree.depth <= state.left else tree.model_copy(update={"depth": state.left})


def draft_eagle2(state: State, settings: Settings, draw: Draw) -> Draft:
    """Expand, then rerank (EAGLE-2, arXiv 2406.16858, section 4): deterministic, no draw is used."""
    tree = tree_shape(settings, state)
    head, cache = state.head, state.head_cache
    width = min(tree.width, head.draft_vocabulary_size)
    committed = cache.length
    guess = state.guess
    log_confidence, index = head.log_confidence(guess).topk(width, dim=-1)
    levels = [
        Candidates(
            token=head.token_ids(index[0]),
            parent=torch.full((width,), -1, device=index.device),
            depth=torch.ones(width, dtype=torch.long, device=index.device),
            log_confidence=log_confidence[0],
            log_value=log_confidence[0],
        )
    ]
    frontier = torch.arange(width, device=index.device)  # among the last level's candidates
    features = guess.expand(width, -1)
    seen = torch.zeros(1, 0, dtype=torch.bool, device=index.device).expand(width, 0)
    before = 0  # candidates before the last level
    own = torch.eye(width, dtype=torch.bool, device=index.device)
    for depth in range(2, tree.depth + 1):
        last = levels[-1]
        seen = torch.cat((seen, own), dim=1)
        guesses = head.grow(last.token[frontier], features, seen, committed + depth - 2, cache)
        log_confidence, index = head.log_confidence(guesses).topk(width, dim=-1)
        log_value = last.log_value[frontier][:, None] + log_confidence
        parent_row = torch.arange(width, device=index.device).repeat_interleave(width)
        levels.append(
            Candidates(
                token=head.token_ids(index.flatten()),
                parent=(before + frontier)[parent_row],
                depth=torch.full_like(parent_row, depth),
                log_confidence=log_confidence.flatten(),
                log_value=log_value.flatten(),
            )
        )
        before += last.token.shape[0]
        frontier = best_first(levels[-1].log_value, width)
        rows = parent_row[frontier]
        features, seen = guesses[rows], seen[rows]
    cache.length = committed
    return _reranked(levels, tree.total)


def _reranked(levels: list[Candidates], total: int) -> Draft:
    names = Candidates.__dataclass_fields__
    every = Candidates(*(torch.cat([getattr(level, name) for level in levels]) for name in names))
    kept, cut = rerank(every, total)
    kept_parent, cut_parent = renumber(every.parent, kept, cut)
    nodes, others = every.take(kept), every.take(cut)
    nodes.parent.copy_(kept_parent)
    others.parent.copy_(cut_parent)
    return Draft(nodes, others, visible(kept_parent))


DRAFTERS: dict[Method, Callable[[State, Settings, Draw], Draft] | None] = {
    Method.VANILLA: None,
    Method.EAGLE2: draft_eagle2,
}


def candidates_at(children: list[int], tokens: list[int], drafted: Draft) -> list[Candidate]:
    """What the rule is offered for these sibling nodes, in the order they are offered."""
    if drafted.sampled is None:
        return [Candidate(tokens[child]) for child in children]
    return [drafted.sampled[child] for child in children]
