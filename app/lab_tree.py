"""The small draft tree of lesson 4: confidences as data, values, expansion and rerank. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from eagle.trace import ROOT

WIDTH = 2  # nodes expanded on each level
TOKENS = ("am", "have", "a", "not", "a", "been", "student", "teacher", "dog", "car")
PARENT = (ROOT, ROOT, 0, 0, 1, 1, 2, 2, 4, 4)
CONFIDENCE = (0.55, 0.35, 0.5, 0.3, 0.7, 0.2, 0.5, 0.3, 0.6, 0.2)


@dataclass(frozen=True)
class SmallTree:
    """Columns over the ten candidates, in draft order. ``rank`` 1 is the most valuable."""

    depth: tuple[int, ...]
    value: tuple[float, ...]
    expanded: tuple[bool, ...]
    rank: tuple[int, ...]
    kept: tuple[bool, ...]


def small_tree(total: int) -> SmallTree:
    """The tree with ``total`` candidates kept by rerank."""
    depth: list[int] = []
    value: list[float] = []
    for parent, confidence in zip(PARENT, CONFIDENCE, strict=True):
        depth.append(1 if parent == ROOT else depth[parent] + 1)
        value.append(confidence if parent == ROOT else value[parent] * confidence)
    by_value = sorted(range(len(value)), key=lambda node: (-value[node], node))
    rank = tuple(by_value.index(node) + 1 for node in range(len(value)))
    expanded = tuple(
        [other for other in by_value if depth[other] == depth[node]].index(node) < WIDTH and depth[node] < 3
        for node in range(len(value))
    )
    return SmallTree(tuple(depth), tuple(value), expanded, rank, tuple(place <= total for place in rank))
