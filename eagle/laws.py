"""Numbers that the classroom shows besides the rules' own: pure numpy float64, no torch.

A distribution after a temperature, the mass that each stage of a rule settles, and the arithmetic
of speed. V is the number of tokens, m the number of trials.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eagle.rules import Array, RuleName, branches_given, offers

SAMPLED: tuple[RuleName, ...] = ("chain", "eagle1")


def tempered(p: Array, temperature: float) -> Array:
    """p [V] as it would be at another temperature: p^(1/T), renormalised; zeros stay zero.

    This is what dividing the logits by T does to a softmax. T = 0 is the one-hot on the largest
    entry (the lowest id of equals). Raises ValueError for a temperature below 0 or not finite.
    """
    if not 0 <= temperature < np.inf:
        raise ValueError(f"the temperature must be a number from 0 up, but is {temperature!r:.40}.")
    if temperature == 1:
        return p.copy()
    if temperature == 0:
        out = np.zeros_like(p)
        out[int(np.argmax(p))] = 1.0
        return out
    with np.errstate(divide="ignore", over="ignore"):
        logs = np.log(p)
        out = np.exp((logs - logs.max()) / temperature)
    return out / out.sum()


def after_temperature(rule: RuleName, target: Array, draft: Array, temperature: float) -> tuple[Array, Array]:
    """(p, q) as the rule meets them: a sampled draft follows the temperature, a top-k list does not."""
    q = tempered(draft, temperature) if rule in SAMPLED else draft.copy()
    return tempered(target, temperature), q


def stage_masses(rule: RuleName, p: Array, draft: Array, k: int, order: Sequence[int] | None = None) -> Array:
    """How much probability each stage settles on each token: [m + 1, V], all of it summing to 1.

    Row i is the mass accepted at the i-th trial, the last row the mass drawn at the end. Column
    sums are :func:`eagle.rules.law`. Siblings drawn without replacement are summed prefix by
    prefix, so that 8 of 8 takes milliseconds and not 40,320 separate walks.
    """
    if rule not in SAMPLED:
        ((_, candidates),) = offers(rule, draft, k, order)
        out = np.zeros((len(candidates) + 1, p.size))
        for branch in branches_given(p, candidates):
            out[len(branch.rejected), branch.token] += branch.mass
        return out
    size = min(1 if rule == "chain" else k, int(np.count_nonzero(draft)))
    out = np.zeros((size + 1, p.size))
    _settle(out, 0, np.ones(1), p[None].copy(), draft[None].copy())
    return out


def _settle(out: Array, trial: int, weight: Array, p: Array, q: Array) -> None:
    """Adds what the prefixes (weight [n], p and q [n, V]) settle from this trial on."""
    if trial == out.shape[0] - 1:
        out[trial] += weight @ p
        return
    # Prefix i offers token x with probability q[i, x] and accepts it with min(1, p/q).
    out[trial] += weight @ np.minimum(p, q)
    rejected = weight[:, None] * np.maximum(0.0, q - p)
    row, token = np.nonzero(rejected)
    if row.size == 0:
        return
    # What p becomes does not depend on the token that was drawn, only on q.
    excess = np.maximum(0.0, p - q)
    excess /= excess.sum(axis=1, keepdims=True)
    left = q[row]
    left[np.arange(row.size), token] = 0.0
    left /= np.where((mass := left.sum(axis=1, keepdims=True)) > 0, mass, 1.0)
    _settle(out, trial + 1, rejected[row, token], excess[row], left)


def expected_tau(share: float, depth: int) -> float:
    """Mean tokens per target pass of a chain of ``depth`` levels, each walked with probability ``share``.

    1 + a + a^2 + ... + a^depth (arXiv 2211.17192, equation 1), the target's own token included.
    """
    return float(sum(share**level for level in range(depth + 1)))


def overhead(depth: int, draft_step: float, extra_token: float) -> float:
    """ω: what a step costs beyond one target pass, in target passes.

    ``depth`` draft steps at ``draft_step`` each, and ``extra_token`` for each drafted token that
    the target verifies in the same pass.
    """
    return depth * (draft_step + extra_token)


def speedup(tau: float, omega: float) -> float:
    """τ / (1 + ω): how much faster than one token a pass. Below 1 speculation loses."""
    return tau / (1.0 + omega)
