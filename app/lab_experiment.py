"""Many draws at once, under two rules with the same luck, against the exact law. Pure.

The draws are :func:`eagle.rules.simulate`'s; here they are counted and tested.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from app.lab_state import DEFAULT, LabState
from app.lab_walk import columns_for, luck
from eagle import laws, rules
from eagle.rules import Array, RuleName

Z95 = 1.959963984540054
BATCH = 10_000
POINTS = (1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)


@dataclass(frozen=True)
class Sample:
    """The counts [V] of n draws under one rule, against the target and against the rule's own law.

    ``low`` and ``high`` are Wilson's 95% intervals for each token's frequency; ``variation`` is the
    total variation between the frequencies and the target; ``p_value`` that of the G-test against
    the target; ``running`` the total variation after the first 1, 3, 10, ... draws.
    """

    rule: RuleName
    n: int
    counts: tuple[int, ...]
    share: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    law: tuple[float, ...]
    target: tuple[float, ...]
    variation: float
    p_value: float | None
    running: tuple[tuple[int, float], ...]


def experiment(state: LabState, n: int) -> tuple[Sample, Sample]:
    """n draws under the state's rule and under its other one, row by row with the same numbers."""
    # Only what the draws depend on, so that a class on one setting shares the work.
    first = _bare(state, state.rule)
    second = _bare(state, state.other)
    return sample(first, n), sample(second, n)


def _bare(state: LabState, rule: RuleName) -> LabState:
    return replace(
        DEFAULT,
        tokens=tuple(str(i) for i in range(len(state.tokens))),
        target=state.target,
        draft=state.draft,
        rule=rule,
        k=state.k,
        order=state.order,
        temperature=state.temperature,
        seed=state.seed,
    )


@lru_cache(maxsize=256)
def sample(state: LabState, n: int) -> Sample:
    """n draws of the state's rule from its seed."""
    p, q = state.p, state.q
    outcomes = _outcomes(state, n)
    size = len(state.target)
    counts = np.bincount(outcomes, minlength=size)
    share = counts / n
    low, high = wilson(counts, n)
    law = laws.stage_masses(state.rule, p, q, state.k, state.fixed_list()).sum(axis=0)
    return Sample(
        rule=state.rule,
        n=n,
        counts=tuple(int(count) for count in counts),
        share=tuple(share.tolist()),
        low=tuple(low.tolist()),
        high=tuple(high.tolist()),
        law=tuple(law.tolist()),
        target=tuple(p.tolist()),
        variation=rules.total_variation(share, p),
        p_value=g_test(counts, p),
        running=_running(outcomes, p),
    )


def _outcomes(state: LabState, n: int) -> NDArray[np.int64]:
    """The token [n] of each draw, in batches that stay in the processor's cache."""
    order = state.fixed_list()
    k = max(1, len(order) if order is not None else state.k)
    numbers = luck(state, n)[:, columns_for(k)]
    p, q = state.p, state.q
    parts = [
        rules.simulate(state.rule, p, q, k, numbers[start : start + BATCH], order)
        for start in range(0, n, BATCH)
    ]
    return np.concatenate(parts)


def _running(outcomes: NDArray[np.int64], p: Array) -> tuple[tuple[int, float], ...]:
    """(draws so far, total variation from p by then), at 1, 3, 10, ... and at the end."""
    n = outcomes.size
    out = []
    for point in [point for point in POINTS if point < n] + [n]:
        share = np.bincount(outcomes[:point], minlength=p.size) / point
        out.append((point, rules.total_variation(share, p)))
    return tuple(out)


def wilson(counts: NDArray[np.int64], n: int) -> tuple[Array, Array]:
    """Wilson's 95% interval for each share counts / n; unlike p ± 1.96 s it is never empty at 0 or n."""
    share = counts / n
    centre = (share + Z95**2 / (2 * n)) / (1 + Z95**2 / n)
    half = Z95 / (1 + Z95**2 / n) * np.sqrt(share * (1 - share) / n + Z95**2 / (4 * n**2))
    return np.maximum(0.0, centre - half), np.minimum(1.0, centre + half)


def g_test(counts: NDArray[np.int64], p: Array) -> float | None:
    """The p-value of the G-test of counts [V] against p [V].

    None where nothing can be tested: fewer than two tokens can come out, or the expected counts are
    too small (below 5 the chi-squared law is no guide). A token that p forbids gives 0 outright.
    """
    from scipy.special import chdtrc, xlogy  # scipy.stats would take over a second to import

    possible = p > 0
    if counts[~possible].sum() > 0:
        return 0.0
    expected = p[possible] / p[possible].sum() * counts.sum()
    if expected.size < 2:
        return None
    observed, expected = _pooled(counts[possible], expected)
    if observed.size < 2 or expected.min() < 5:
        return None
    g = 2 * float(xlogy(observed, observed / expected).sum())
    return float(chdtrc(observed.size - 1, max(0.0, g)))


def _pooled(counts: NDArray[np.int64], expected: Array) -> tuple[Array, Array]:
    """Cells with fewer than 5 expected draws taken together, with the next smallest if need be."""
    order = np.argsort(expected)
    observed, wanted = counts[order].astype(np.float64), expected[order]
    cut = int((wanted < 5).sum())
    if cut == 0:
        return observed, wanted
    while cut < wanted.size and wanted[:cut].sum() < 5:
        cut += 1
    return (
        np.concatenate(([observed[:cut].sum()], observed[cut:])),
        np.concatenate(([wanted[:cut].sum()], wanted[cut:])),
    )
