"""Counts over a whole run: how deep paths go, how confidence relates to acceptance, what paid.

The denominator is every drafted node whose parent was accepted (or is the root), tested or not; a
sibling after the accepted one counts as not accepted. Then the expected rate is the target's own p;
accepted over *tested* would overstate later siblings.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from eagle.trace import ROOT, Origin, RunTrace, Status, StepTrace

EDGES = (0.0, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.95, 1.0)


@dataclass(frozen=True)
class Rate:
    """``hits`` of ``count``, for the bin or level named ``low`` (to ``high``)."""

    low: float
    high: float
    hits: int
    count: int
    expected: float  # the sum of the target's p, which hits should come near

    @property
    def share(self) -> float:
        return self.hits / self.count

    def interval(self, z: float = 1.96) -> tuple[float, float]:
        """Wilson's 95% interval of the share."""
        n, p = self.count, self.share
        centre = (p + z * z / (2 * n)) / (1 + z * z / n)
        half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
        return max(0.0, centre - half), min(1.0, centre + half)


@dataclass(frozen=True)
class Overview:
    """Everything the figures over the run show."""

    calibration: list[Rate]  # by bin of confidence
    levels: list[Rate]  # by level: of the steps that had a guess to try there, those that got through
    lengths: dict[int, int]  # tokens of a step -> steps
    drafted: int
    paid: int


def overview(run: RunTrace) -> Overview:
    """The counts of a run; empty lists where nothing was drafted."""
    steps = [step for step in run.steps if step.tree is not None]
    return Overview(
        calibration=_calibration(steps),
        levels=_levels(steps),
        lengths=dict(sorted(Counter(len(step.emitted) for step in run.steps if step.index > 0).items())),
        drafted=sum(len(step.tree) for step in steps if step.tree is not None),
        paid=sum(origin is Origin.DRAFT for step in steps for origin in step.emitted.origin),
    )


def reached(step: StepTrace) -> list[int]:
    """Nodes whose parent was accepted, or is the root."""
    tree = step.tree
    assert tree is not None
    return [
        node
        for node, parent in enumerate(tree.parent)
        if parent == ROOT or tree.status[parent] is Status.ACCEPTED
    ]


def _calibration(steps: list[StepTrace]) -> list[Rate]:
    hits, count, expected = Counter[int](), Counter[int](), Counter[int]()
    for step in steps:
        tree = step.tree
        assert tree is not None
        for node in reached(step):
            bin_ = _bin(tree.confidence[node])
            count[bin_] += 1
            hits[bin_] += tree.status[node] is Status.ACCEPTED
            expected[bin_] += tree.p[node]  # type: ignore[assignment]
    return [Rate(EDGES[i], EDGES[i + 1], hits[i], count[i], expected[i]) for i in sorted(count)]


def _bin(confidence: float) -> int:
    return max(i for i in range(len(EDGES) - 1) if EDGES[i] <= confidence)


def _levels(steps: list[StepTrace]) -> list[Rate]:
    hits, count, expected = Counter[int](), Counter[int](), Counter[int]()
    for step in steps:
        tree = step.tree
        assert tree is not None
        for node in reached(step):
            expected[tree.depth[node]] += tree.p[node]  # type: ignore[assignment]
            hits[tree.depth[node]] += tree.status[node] is Status.ACCEPTED
        count.update({tree.depth[node] for node in reached(step)})
    return [Rate(level, level, hits[level], count[level], expected[level]) for level in sorted(count)]
