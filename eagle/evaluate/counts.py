"""What one recorded run says about the head that drafted it. Counts only, so that runs can be added up.

Three things are counted over steps >= 1:

* **τ**: tokens emitted over target passes, the target's own token included.
* **acceptance by draft step**: of the steps whose accepted path reached depth k - 1 with a verdict to
  come, the share that accepted a token at depth k. Steps that ended at an end token or at the limit have no
  verdict below their last token; the level below the tree's last is no draft step.
* **calibration**: over every drafted node whose parent was accepted (or is the root), tested or not, a
  sibling after the accepted one counting as not accepted. Each such node is accepted with exactly the
  target's own probability p, so beside the accepted rate stands the mean of p: they estimate the
  same number. Accepted over *tested* would overstate later siblings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from typing import Any

from eagle.trace import ROOT, RunTrace, Status, StepTrace

BINS = 20


def _sums(mine: list[int], theirs: list[int]) -> list[int]:
    return [x + y for x, y in zip_longest(mine, theirs, fillvalue=0)]


def _zeros(width: int) -> list[list[float]]:
    return [[0.0] * width for _ in range(BINS)]


@dataclass
class Counts:
    """Sums over runs. ``offered`` and ``accepted`` are by draft step, the first at index 0.

    ``bins`` are by confidence, 20 of width 0.05: nodes, sum of confidence, accepted nodes, sum of p.
    """

    runs: int = 0
    tokens: int = 0
    passes: int = 0
    offered: list[int] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)
    bins: list[list[float]] = field(default_factory=lambda: _zeros(4))

    @property
    def tau(self) -> float | None:
        return self.tokens / self.passes if self.passes else None

    def add(self, other: Counts) -> None:
        """Adds another's counts to these."""
        self.runs += other.runs
        self.tokens += other.tokens
        self.passes += other.passes
        self.offered = _sums(self.offered, other.offered)
        self.accepted = _sums(self.accepted, other.accepted)
        self.bins = [
            [x + y for x, y in zip(mine, theirs, strict=True)]
            for mine, theirs in zip(self.bins, other.bins, strict=True)
        ]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def count(run: RunTrace, depth: int) -> Counts:
    """The counts of one run whose trees had at most ``depth`` levels."""
    counts = Counts(runs=1, offered=[0] * depth, accepted=[0] * depth)
    for step in run.steps:
        if step.index == 0:
            continue
        counts.passes += 1
        counts.tokens += len(step.emitted)
        if step.tree is None:
            continue
        reached = sum(status is Status.ACCEPTED for status in step.tree.status)
        for level in range(depth):
            judged = level < reached or (level == reached and step.final is not None)
            counts.offered[level] += judged
            counts.accepted[level] += level < reached
        for node in judged_nodes(step):
            row = counts.bins[min(BINS - 1, int(step.tree.confidence[node] * BINS))]
            row[0] += 1
            row[1] += step.tree.confidence[node]
            row[2] += step.tree.status[node] is Status.ACCEPTED
            row[3] += step.tree.p[node]
    return counts


def judged_nodes(step: StepTrace) -> Iterator[int]:
    """Nodes whose parent was accepted and had a verdict about its children: the calibration's denominator."""
    tree = step.tree
    assert tree is not None
    accepted = {node for node, status in enumerate(tree.status) if status is Status.ACCEPTED}
    parents = {ROOT, *accepted}
    if step.final is None and accepted:
        parents.remove(max(accepted))  # the run ended there: nothing below it was judged
    return (node for node, parent in enumerate(tree.parent) if parent in parents)


def acceptance(counts: Counts) -> list[dict[str, Any]]:
    """By draft step: verdicts that were due, accepted ones, their share, and the running product."""
    rows, product = [], 1.0
    for index, (offered, accepted) in enumerate(zip(counts.offered, counts.accepted, strict=True)):
        rate = accepted / offered if offered else None
        product *= rate or 0.0
        rows.append(
            {
                "draft_step": index + 1,
                "offered": offered,
                "accepted": accepted,
                "rate": None if rate is None else round(rate, 4),
                "reached": round(product, 4),
            }
        )
    return rows


def calibration(counts: Counts) -> dict[str, Any]:
    """Bins that hold a node, and the mean gap between confidence and acceptance, weighted by nodes."""
    rows, gap, nodes = [], 0.0, 0.0
    for index, (n, confidence, accepted, p) in enumerate(counts.bins):
        if not n:
            continue
        rows.append(
            {
                "from": round(index / BINS, 2),
                "to": round((index + 1) / BINS, 2),
                "nodes": int(n),
                "confidence": round(confidence / n, 4),
                "accepted": round(accepted / n, 4),
                "target_p": round(p / n, 4),
            }
        )
        gap += abs(confidence - accepted)
        nodes += n
    return {
        "denominator": "drafted nodes whose parent was accepted, tested or not",
        "bins": rows,
        "expected_calibration_error": round(gap / nodes, 4) if nodes else None,
    }
