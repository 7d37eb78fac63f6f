"""What each method drafts, and which candidates its rule is shown.

========  ============================================  ======================================
method    drafts                                        judged with
========  ============================================  ======================================
vanilla   nothing                                       a plain draw from the target
chain     one token a level, drawn from the head        q = what it was drawn from
eagle1    static tree, children drawn from the head     q = what each was drawn from, without
          without replacement                           the siblings drawn before it
eagle2    dynamic tree of deterministic top-k           q = 1 on each candidate
eagle3    the same, with a head of the next generation  q = 1 on each candidate
========  ============================================  ======================================

At temperature 0 chain and eagle1 take the head's best instead of drawing, and q is 1. Above it the
temperature acts on their draft too; on the drafts of eagle2 and eagle3 nothing acts.

A method is one function from the state of a run to a :class:`~eagle.drafts.Draft`. The judging
itself is ``eagle/rules.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from eagle.drafts import Draft, candidates_at, reranked
from eagle.expansion import FixedShape, PayingShape, Shape, expand
from eagle.rules import Draw
from eagle.settings import Method, Settings, SettingsError
from eagle.static_tree import draft_chain, draft_eagle1

if TYPE_CHECKING:
    from eagle.decoder import Pair, State

__all__ = ["DRAFTERS", "Draft", "candidates_at", "check_possible", "draft", "draft_eagle2", "possible"]

DYNAMIC = (Method.EAGLE2, Method.EAGLE3)


def check_possible(pair: Pair, settings: Settings) -> None:
    """SettingsError where this pair can not run this method or this tree."""
    method, reads_layers = settings.method, bool(pair.target.watched)
    if method is Method.VANILLA:
        return
    if pair.head is None:
        raise SettingsError(f"method {method} needs a draft head, but this pair has none.")
    if method is Method.EAGLE3 and not reads_layers:
        raise SettingsError("method eagle3 needs an EAGLE-3 head, but this pair's is EAGLE-1/2; use eagle2.")
    if method in (Method.EAGLE1, Method.EAGLE2) and reads_layers:
        raise SettingsError(
            f"method {method} needs an EAGLE-1/2 head, but this pair's is EAGLE-3; use eagle3."
        )
    if settings.tree == "auto" and method in DYNAMIC and pair.info.costs is None:
        raise SettingsError("tree auto needs this machine's costs, which this pair was loaded without.")


def possible(pair: Pair) -> list[Method]:
    """The methods that this pair can run, in the table's order."""
    usable = []
    for method in Method:
        try:
            check_possible(pair, Settings(method=method))
        except SettingsError:
            continue
        usable.append(method)
    return usable


def draft(state: State, settings: Settings, draw: Draw) -> Draft | None:
    """The method's draft for this step; None where it drafts nothing."""
    drafter = DRAFTERS[settings.method]
    return drafter(state, settings, draw) if drafter else None


def draft_eagle2(state: State, settings: Settings, draw: Draw) -> Draft:
    """Expand, then rerank (``eagle/expansion.py``): deterministic, so ``draw`` is not used."""
    shape = shape_of(settings, state)
    levels = expand(state.head, state.head_cache, state.guess, shape)
    return reranked(levels, shape.total(levels))


def shape_of(settings: Settings, state: State) -> Shape:
    """What ``settings.tree`` asks for in this step."""
    if settings.tree != "auto":
        return FixedShape(settings.tree, state.left)
    assert state.pair.info.costs is not None
    return PayingShape(state.pair.info.costs, state.left)


DRAFTERS: dict[Method, Callable[[State, Settings, Draw], Draft] | None] = {
    Method.VANILLA: None,
    Method.CHAIN: draft_chain,
    Method.EAGLE1: draft_eagle1,
    Method.EAGLE2: draft_eagle2,
    Method.EAGLE3: draft_eagle2,
}
