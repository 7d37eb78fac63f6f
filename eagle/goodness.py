"""Do these counts come from that law? Pure numpy; scipy only for the tails of known distributions.

A *cell* is an outcome with its exact probability. C cells, n draws.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from eagle.rules import Array

Counts = NDArray[np.int64]
MIN_EXPECTED = 5.0
# A sound rule is called wrong in one of a thousand experiments; a biased one is far beyond this.
ALARM = 0.001
BAND = 0.95


@dataclass(frozen=True)
class GTest:
    """G = 2 sum O log(O / E) over the cells that were tested, and how likely a larger one is by chance.

    ``pooled`` cells had fewer than 5 expected draws and were taken together. ``impossible`` draws
    fell on outcomes of probability 0, which no law of chance excuses. ``p_value`` is None where
    there is nothing to test.
    """

    g: float
    degrees: int
    p_value: float | None
    cells: int
    pooled: int
    impossible: int = 0

    @property
    def failed(self) -> bool:
        """Whether chance is no explanation, at a false alarm in a thousand."""
        return self.p_value is not None and self.p_value < ALARM


def g_test(counts: Counts, law: Array, impossible: int = 0) -> GTest:
    """The G-test of counts [C] against law [C] (sums to 1; every entry above 0).

    ``impossible`` is how many more draws fell on outcomes that the law forbids.
    """
    from scipy.special import chdtrc, xlogy  # scipy.stats would take over a second to import

    expected = law / law.sum() * counts.sum()
    observed, wanted, pooled = _pooled(counts, expected)
    if impossible:
        return GTest(float("inf"), max(0, observed.size - 1), 0.0, observed.size, pooled, impossible)
    if observed.size < 2 or wanted.min() < MIN_EXPECTED:
        return GTest(0.0, 0, None, observed.size, pooled)
    g = max(0.0, 2 * float(xlogy(observed, observed / wanted).sum()))
    return GTest(g, observed.size - 1, float(chdtrc(observed.size - 1, g)), observed.size, pooled)


def _pooled(counts: Counts, expected: Array) -> tuple[Array, Array, int]:
    """Cells with fewer than 5 expected draws as one, with the next smallest until it has 5 itself."""
    order = np.argsort(expected, kind="stable")
    observed, wanted = counts[order].astype(np.float64), expected[order]
    cut = int((wanted < MIN_EXPECTED).sum())
    if cut == 0:
        return observed, wanted, 0
    while cut < wanted.size and wanted[:cut].sum() < MIN_EXPECTED:
        cut += 1
    joined = np.concatenate(([observed[:cut].sum()], observed[cut:]))
    return joined, np.concatenate(([wanted[:cut].sum()], wanted[cut:])), cut


def variation(counts: Counts, law: Array, impossible: int = 0) -> float:
    """Total variation between the frequencies of counts [C] and law [C]."""
    n = int(counts.sum()) + impossible
    return float(np.abs(counts / n - law).sum() / 2 + impossible / n / 2) if n else 0.0


def expected_variation(law: Array, n: int) -> float:
    """The mean total variation of n draws from law [C] itself: what chance alone brings.

    Half the sum of the cells' mean absolute deviations, each in de Moivre's closed form: for X of
    Binomial(n, p), E|X - np| = 2 m C(n, m) p^m (1 - p)^(n - m + 1) with m = floor(np) + 1.
    """
    from scipy.special import gammaln, xlog1py, xlogy

    m = np.minimum(np.floor(n * law) + 1, n)
    logs = gammaln(n + 1) - gammaln(m + 1) - gammaln(n - m + 1) + xlogy(m, law)
    logs = logs + xlog1py(n - m + 1, -np.minimum(law, 1.0))
    return float((m * np.exp(logs)).sum() / n)


def noise_band(law: Array, n: int) -> tuple[Array, Array]:
    """Low and high shares [C] between which 95% of sound experiments of n draws put each cell.

    Exact binomial quantiles, 2.5% or less outside on either side.
    """
    from scipy.special import bdtr, bdtrik

    def quantile(level: float) -> Array:
        p = np.clip(law, 0.0, 1.0)
        inner = np.clip(p, 1e-300, 1 - 1e-16)
        k = np.ceil(bdtrik(level, n, inner))
        below = np.maximum(k - 1, 0)
        k = np.where(bdtr(below, n, inner) >= level, below, k)
        return np.where(p >= 1, n, np.where(p <= 0, 0, k)) / n

    tail = (1 - BAND) / 2
    return quantile(tail), quantile(1 - tail)


Law = dict[tuple[int, ...], float]


def distance(a: Law, b: Law) -> float:
    """Total variation between two laws."""
    return sum(abs(a.get(key, 0.0) - b.get(key, 0.0)) for key in a.keys() | b.keys()) / 2


# Counts against a law.


@dataclass(frozen=True)
class Comparison:
    """n sampled outcomes against their exact law, cell by cell, the most likely first.

    ``low`` and ``high`` are the shares between which 95% of sound experiments put a cell; ``own``
    is the exact law of this way of judging, ``bias`` its total variation from the target's;
    ``impossible`` outcomes are those that the target's law forbids. The last ``merged`` cells may stand as
    one, whose outcome is ().
    """

    judge: str
    n: int
    outcome: list[tuple[int, ...]]
    law: list[float]
    own: list[float]
    count: list[int]
    low: list[float]
    high: list[float]
    test: GTest
    variation: float
    expected_variation: float
    bias: float
    impossible: int
    merged: int = 0

    @property
    def share(self) -> list[float]:
        return [count / self.n for count in self.count]


def compare(judge: str, outcomes: Counts, law: Law, own: Law) -> Comparison:
    """Outcomes [n, length] of a judging against the target's law; ``own`` is that judging's exact law."""
    n = outcomes.shape[0]
    cells = sorted(law, key=lambda key: (-law[key], key))
    found, counted = np.unique(outcomes, axis=0, return_counts=True)
    tally = {tuple(row): int(count) for row, count in zip(found.tolist(), counted.tolist(), strict=True)}
    mass = np.array([law[cell] for cell in cells])
    count = np.array([tally.get(cell, 0) for cell in cells], dtype=np.int64)
    impossible = n - int(count.sum())
    low, high = noise_band(mass, n)
    return Comparison(
        judge=judge,
        n=n,
        outcome=cells,
        law=mass.tolist(),
        own=[own.get(cell, 0.0) for cell in cells],
        count=count.tolist(),
        low=low.tolist(),
        high=high.tolist(),
        test=g_test(count, mass, impossible),
        variation=variation(count, mass, impossible),
        expected_variation=expected_variation(mass, n),
        bias=distance(law, own),
        impossible=impossible,
    )


def shortened(found: Comparison, most: int) -> Comparison:
    """The same with only ``most`` cells, the last of them all the others together; the tests stay whole."""
    if len(found.law) <= most:
        return found
    cut = most - 1
    law = [*found.law[:cut], sum(found.law[cut:])]
    low, high = noise_band(np.array(law), found.n)
    return replace(
        found,
        outcome=[*found.outcome[:cut], ()],
        law=law,
        own=[*found.own[:cut], sum(found.own[cut:])],
        count=[*found.count[:cut], sum(found.count[cut:])],
        low=low.tolist(),
        high=high.tolist(),
        merged=len(found.law) - cut,
    )
