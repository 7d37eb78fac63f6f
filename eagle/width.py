"""How wide should the tree be on this machine: measured costs against what a run's drafts promised.

A candidate's value is the draft's own estimate that it is accepted. So a tree of the n most valuable
candidates of the first d levels is expected to bring 1 + v1 + .. + vn tokens, and it costs d draft
levels and one pass over n + 1 tokens (``eagle/costs.py``).
"""

from __future__ import annotations

import numpy as np

from eagle.rules import Array
from eagle.trace import ROOT, Costs, Record, RunTrace, TreeTrace


class Width(Record):
    """Curves over the number of nodes, ``nodes`` = 0, 1, 2, ..., for each number of levels 1, 2, ...

    ``pass_ms[n]``: a pass over the root and n nodes, between the measured sizes linear.
    ``tokens[d - 1][n]``: expected tokens of a step; ``rate``: the same per second, all costs counted.
    ``best_nodes`` and ``best_levels`` make the largest rate, ``best_rate``; ``plain_rate`` is
    vanilla's by the same costs. ``promised`` is what the values of the trees that the run verified
    add up to in the mean, the target's own token included; ``tau`` is what the target then let through.
    """

    nodes: list[int]
    pass_ms: list[float]
    tokens: list[list[float]]
    rate: list[list[float]]
    best_nodes: int
    best_levels: int
    best_rate: float
    plain_rate: float
    promised: float
    tau: float
    steps: int

    @property
    def best_tokens(self) -> float:
        """What a step with the chosen tree is expected to bring."""
        return self.tokens[self.best_levels - 1][self.best_nodes]


def width(costs: Costs, run: RunTrace) -> Width | None:
    """The curves for the drafts of a run; None where it drafted nothing."""
    trees = [step.tree for step in run.steps if step.tree is not None and len(step.tree)]
    if not trees or run.tau is None:
        return None
    cost = pass_cost(costs)
    levels = max(max(tree.depth) for tree in trees)
    candidates = [all_values(tree) for tree in trees]
    count = min(cost.size - 1, max(values.size for values, _ in candidates))
    tokens = np.array([_expected(candidates, depth, count) for depth in range(1, levels + 1)])
    spent = costs.level_ms * np.arange(1, levels + 1)[:, None] + cost[: count + 1]
    rate = 1000 * tokens / spent
    best_level, best_nodes = np.unravel_index(int(np.argmax(rate)), rate.shape)
    return Width(
        nodes=list(range(count + 1)),
        pass_ms=cost[: count + 1].tolist(),
        tokens=tokens.tolist(),
        rate=rate.tolist(),
        best_nodes=int(best_nodes),
        best_levels=int(best_level) + 1,
        best_rate=float(rate.max()),
        plain_rate=float(1000 / cost[0]),
        promised=float(np.mean([1 + sum(tree.value) for tree in trees])),
        tau=run.tau,
        steps=len(trees),
    )


def pass_cost(costs: Costs) -> Array:
    """Milliseconds of a pass over 1, 2, ... tokens up to the largest measured size, as ``tree="auto"``
    reads them (``eagle/costs.py``, which needs torch; this is also for pages without a model)."""
    sizes = np.arange(1, max(costs.nodes) + 1)
    return np.interp(sizes, costs.nodes, np.maximum.accumulate(costs.pass_ms))


def all_values(tree: TreeTrace) -> tuple[Array, Array]:
    """Value and depth of every candidate, kept or cut: the product of confidences along its path."""
    parent = [*tree.parent, *tree.cut.parent]
    confidence = [*tree.confidence, *tree.cut.confidence]
    value, depth = np.zeros(len(parent)), np.zeros(len(parent))
    for candidate, (above, own) in enumerate(zip(parent, confidence, strict=True)):
        at_root = above == ROOT
        value[candidate] = own if at_root else own * value[above]
        depth[candidate] = 1 if at_root else depth[above] + 1
    return value, depth


def _expected(candidates: list[tuple[Array, Array]], depth: int, count: int) -> Array:
    """Mean expected tokens [count + 1] of the n most valuable candidates of the first ``depth`` levels."""
    total = np.zeros(count + 1)
    for value, level in candidates:
        best = np.sort(value[level <= depth])[::-1][:count]
        total += 1.0 + np.concatenate(([0.0], np.cumsum(np.pad(best, (0, count - best.size)))))
    return total / len(candidates)
