"""The drafted tree: shape, values, sibling order, and what rerank kept."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from eagle.audit.finding import Finding, Place, repeated, rounding
from eagle.settings import Method, Settings, Tree
from eagle.trace import ROOT, TreeTrace

DYNAMIC = (Method.EAGLE2, Method.EAGLE3)
WIDEST = Tree(total=256, depth=16, width=32)
# EAGLE-1's static tree, as paths of child ranks.
STATIC_PATHS = "0 1 2 3 00 01 02 10 11 20 21 30 000 001 002 010 011 020 021 100 0000 0001 0002 00000 00001"
STATIC_TREE = frozenset(tuple(map(int, path)) for path in STATIC_PATHS.split())


@dataclass(frozen=True)
class Candidates:
    """Kept nodes, then cut candidates, as one list; ``slack`` is rounding's relative effect on a value."""

    parent: list[int]
    token: list[int]
    confidence: list[float]
    depth: list[int]
    value: list[float]
    slack: list[float]
    children: dict[int, list[int]]


def check_tree(step: int, tree: TreeTrace, settings: Settings, left: int) -> Iterator[Finding]:
    """All of it; ``left`` is how many tokens the run could still emit before this step."""
    every = gather(tree)
    yield from _structure(step, tree, every)
    yield from _values(step, tree)
    yield from _siblings(step, tree, every, settings)
    if settings.method in DYNAMIC:
        yield from _dynamic_shape(step, tree, every, settings, left)
        yield from _rerank(step, tree, every)
        yield from _frontier(step, every)
    else:
        yield from _fixed_shape(step, tree, settings, left)


def gather(tree: TreeTrace) -> Candidates:
    """Depths and values of the cut candidates follow from their parents'."""
    depth, value = list(tree.depth), list(tree.value)
    slack = [_relative(v) for v in value]
    for parent, confidence in zip(tree.cut.parent, tree.cut.confidence, strict=True):
        above = (0, 1.0, 0.0) if parent == ROOT else (depth[parent], value[parent], slack[parent])
        depth.append(above[0] + 1)
        value.append(above[1] * confidence)
        slack.append(above[2] + _relative(confidence) + _relative(value[-1]))
    parents = [*tree.parent, *tree.cut.parent]
    children: dict[int, list[int]] = {}
    for candidate, parent in enumerate(parents):
        children.setdefault(parent, []).append(candidate)
    confidences = [*tree.confidence, *tree.cut.confidence]
    return Candidates(parents, [*tree.token, *tree.cut.token], confidences, depth, value, slack, children)


def _relative(number: float) -> float:
    """Relative rounding of a product that was kept as a float32 sum of logs."""
    if number < 1e-36:  # too small for float32
        return 1.0
    return rounding(number) / number + 5e-7 + 1.3e-7 * abs(math.log(number))


def _node(step: int, node: int, tree: TreeTrace) -> Place:
    kept = len(tree)
    return Place(step, f"node {node}" if node < kept else f"cut candidate {node - kept}")


def _structure(step: int, tree: TreeTrace, every: Candidates) -> Iterator[Finding]:
    if not len(tree):
        yield Place(step, "tree").finding("the number of nodes", "at least 1", 0)
    for node, parent in enumerate(tree.parent):
        depth = 1 if parent == ROOT else tree.depth[parent] + 1
        if tree.depth[node] != depth:
            yield _node(step, node, tree).finding(
                "the depth", f"{depth}, one below its parent", tree.depth[node]
            )
    for first, last in ((0, len(tree)), (len(tree), len(every.token))):
        for node in range(first + 1, last):
            if every.depth[node] < every.depth[node - 1]:
                place = _node(step, node, tree)
                yield place.finding("the order", "level by level", "a shallower node after a deeper one")
    for siblings in every.children.values():
        if (twin := repeated(every.token[node] for node in siblings)) is not None:
            place = _node(step, siblings[-1], tree)
            yield place.finding("each token among siblings", "listed once", f"token {twin} twice")


def _values(step: int, tree: TreeTrace) -> Iterator[Finding]:
    for node, parent in enumerate(tree.parent):
        confidence, value = tree.confidence[node], tree.value[node]
        above = 1.0 if parent == ROOT else tree.value[parent]
        product = above * confidence
        moved = _relative(product) + (0.0 if parent == ROOT else _relative(above) + _relative(confidence))
        if abs(value - product) > product * moved + 1e-37:
            what = (
                "the value" if parent == ROOT else f"the value (parent's {above:.6g} times {confidence:.6g})"
            )
            yield _node(step, node, tree).finding(what, product, value)


def _siblings(step: int, tree: TreeTrace, every: Candidates, settings: Settings) -> Iterator[Finding]:
    """Siblings' sums stay below 1; deterministic drafts offer them in descending confidence."""
    sampled = tree.draft_draw is not None
    for siblings in every.children.values():
        total = sum(every.confidence[node] for node in siblings)
        if total > 1 + 1e-5:
            place = _node(step, siblings[0], tree)
            yield place.finding("the confidences of it and its siblings together", "at most 1", total)
        kept = [node for node in siblings if node < len(tree)]
        p = sum(tree.p[node] for node in kept)
        if p > 1 + 1e-5:
            place = _node(step, kept[0], tree)
            yield place.finding("the target's p of it and its siblings together", "at most 1", p)
        if sampled:
            continue
        for before, node in pairwise(siblings):
            if every.confidence[node] > every.confidence[before]:
                limit = f"at most its earlier sibling's {every.confidence[before]:.6g}"
                yield _node(step, node, tree).finding("the confidence", limit, every.confidence[node])
    if settings.temperature == 0:
        for node, probability in enumerate(tree.p):
            if probability not in (0.0, 1.0):
                yield _node(step, node, tree).finding("p at temperature 0", "0 or 1", probability)


def _limits(settings: Settings) -> Tree:
    return WIDEST if settings.tree == "auto" else settings.tree


def _dynamic_shape(
    step: int, tree: TreeTrace, every: Candidates, settings: Settings, left: int
) -> Iterator[Finding]:
    """Width continuations of the root, then of each of the width most valuable nodes of a level."""
    limits = _limits(settings)
    depth = min(limits.depth, left)
    place = Place(step, "tree")
    if tree.draft_draw is not None:
        yield place.finding("the draft's draws", "none: its top-k is deterministic", "recorded")
    if max(every.depth, default=0) > depth:
        yield place.finding("the depth", f"at most {depth}", max(every.depth))
    width = len(every.children.get(ROOT, []))
    if width > limits.width:
        yield place.finding("the root's continuations", f"at most {limits.width}", width)
    for parent, children in every.children.items():
        if len(children) != width:
            below = _node(step, parent, tree) if parent != ROOT else place
            yield below.finding("the number of continuations", f"{width}, as at the root", len(children))
    for level in range(2, max(every.depth, default=0) + 1):
        parents = {every.parent[node] for node, at in enumerate(every.depth) if at == level}
        allowed = min(width, every.depth.count(level - 1))
        if len(parents) != allowed:
            yield place.finding(f"the nodes of level {level - 1} that were continued", allowed, len(parents))
    total = min(limits.total, len(every.token))
    if settings.tree != "auto" and len(tree) != total:
        yield place.finding("the nodes that rerank kept", total, len(tree))


def _rerank(step: int, tree: TreeTrace, every: Candidates) -> Iterator[Finding]:
    """No cut candidate is more valuable than a kept one; ties may fall either way."""
    if not len(tree):
        return
    least = min(range(len(tree)), key=lambda node: every.value[node])
    floor = every.value[least] * (1 + every.slack[least])
    for node in range(len(tree), len(every.token)):
        if every.value[node] * (1 - min(1.0, every.slack[node])) > floor + 1e-37:
            limit = f"at most the least kept one, {every.value[least]:.6g}"
            yield _node(step, node, tree).finding("the value", limit, every.value[node])


def _frontier(step: int, every: Candidates) -> Iterator[Finding]:
    """At each level that was continued, the continued nodes are the most valuable ones."""
    for level in range(1, max(every.depth, default=0)):
        nodes = [node for node, at in enumerate(every.depth) if at == level]
        chosen = [node for node in nodes if node in every.children]
        passed = [node for node in nodes if node not in every.children]
        if not chosen or not passed:
            continue
        least = min(chosen, key=lambda node: every.value[node])
        most = max(passed, key=lambda node: every.value[node])
        slack = every.slack[least] + every.slack[most]
        if every.value[most] * (1 - min(1.0, slack)) > every.value[least] + 1e-37:
            place = Place(step, f"level {level} of the tree")
            found = f"one of {every.value[most]:.6g} passed over"
            yield place.finding(
                "the continued nodes", f"the most valuable ({every.value[least]:.6g} up)", found
            )


def _fixed_shape(step: int, tree: TreeTrace, settings: Settings, left: int) -> Iterator[Finding]:
    """A chain has one node a level; EAGLE-1's tree is part of the static one; nothing is cut."""
    place = Place(step, "tree")
    if tree.cut.token:
        yield place.finding("the cut candidates", "none: only EAGLE-2 reranks", len(tree.cut.token))
    if settings.method is Method.CHAIN:
        depth = min(_limits(settings).depth, left)
        if list(tree.parent) != list(range(-1, len(tree) - 1)):
            yield place.finding("the parents", "one node a level", tree.parent)
        if len(tree) > depth:
            yield place.finding("the length of the chain", f"at most {depth}", len(tree))
    if settings.method is Method.EAGLE1:
        ranks: list[tuple[int, ...]] = []
        seen: dict[int, int] = {}
        for parent in tree.parent:
            rank = seen.get(parent, 0)
            seen[parent] = rank + 1
            ranks.append((*(() if parent == ROOT else ranks[parent]), rank))
        for node, path in enumerate(ranks):
            if path not in STATIC_TREE:
                yield _node(step, node, tree).finding("its path of ranks", "in the static tree", path)
    draws = None if settings.temperature == 0 else len(tree)
    found = None if tree.draft_draw is None else len(tree.draft_draw)
    if draws != found:
        wanted = "none at temperature 0" if draws is None else f"{draws}, one a node"
        yield place.finding("the draft's draws", wanted, "none" if found is None else found)
