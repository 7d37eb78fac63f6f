"""The acceptance rules, as pure numpy float64 functions, and their exact outcome laws.

Every rule here is one recursion, :func:`judge` (speculative sampling, arXiv 2211.17192, section 2.3
and appendix A.1; for several siblings, EAGLE, arXiv 2401.15077v3, appendix A.2). Offer the
candidates in turn. Accept x with min(1, p(x) / q(x)), where q is the distribution that *this
candidate was put forward from*. After a rejection go on with norm(max(0, p - q)). When no candidate
is left, draw the token from what p has become. The rules differ only in who is offered and in q:

=============  ==============================================  ====================================
rule           candidates                                      q
=============  ==============================================  ====================================
vanilla        none                                            -
chain          one, drawn from the draft                       the draft
eagle1         k, drawn from the draft without replacement     the draft without those drawn before
eagle2         the draft's top k, a fixed list                 1 on the candidate: it was certain
misreading     the draft's top k, a fixed list                 the confidences, as if it were drawn
=============  ==============================================  ====================================

With q = 1 on x the recursion reads: accept x with the current p(x); on a rejection set p(x) = 0 and
renormalise. The confidence of a top-k candidate is never its proposal probability; the misreading
takes it for one and is biased. It is here for the classroom and judges no decoding.

``draw`` is any function that gives the next uniform number in [0, 1), such as ``rng.random``.
V is the number of tokens, k the number of candidates, n the number of repetitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Draw = Callable[[], float]
RuleName = Literal["vanilla", "chain", "eagle1", "eagle2", "misreading"]
RULES: tuple[RuleName, ...] = ("vanilla", "chain", "eagle1", "eagle2", "misreading")
SOUND: tuple[RuleName, ...] = ("vanilla", "chain", "eagle1", "eagle2")


@dataclass(frozen=True)
class Candidate:
    """A token put forward, and the distribution [V] it is said to come from (None: it was certain)."""

    token: int
    q: Array | None = None

    @property
    def proposal(self) -> float:
        """q(token), the probability with which it was put forward."""
        return 1.0 if self.q is None else float(self.q[self.token])


@dataclass(frozen=True)
class Trial:
    """One candidate's test; ``before`` [V] is p by then, ``normaliser`` the mass that a rejection leaves."""

    candidate: Candidate
    accept: float
    draw: float
    accepted: bool
    before: Array
    normaliser: float


@dataclass(frozen=True)
class FinalDraw:
    """A token drawn by inverse CDF in id order: ``draw`` lies in [low, high)."""

    token: int
    draw: float
    low: float
    high: float
    drawn_from: Array


@dataclass(frozen=True)
class Verdict:
    """The trials at one node, then either the accepted candidate's index or the final draw."""

    trials: list[Trial]
    accepted: int | None
    final: FinalDraw | None

    @property
    def token(self) -> int | None:
        """The token this node contributes; None when the final draw was left to the caller."""
        if self.accepted is not None:
            return self.trials[self.accepted].candidate.token
        return self.final.token if self.final else None


def as_distribution(values: ArrayLike, name: str = "p") -> Array:
    """A float64 copy [V] that is finite, non-negative and sums to 1; ValueError says what is wrong."""
    try:
        p = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be one row of probabilities, but is {values!r:.60}.") from None
    if p.ndim != 1 or p.size == 0:
        raise ValueError(f"{name} must be one row of probabilities, but has shape {p.shape}.")
    if not np.isfinite(p).all():
        raise ValueError(f"{name} has an entry that is not a finite number.")
    if (p < 0).any():
        raise ValueError(f"{name} has a negative entry, {p.min():.3g}.")
    if abs(p.sum() - 1) > 1e-6:
        raise ValueError(f"{name} must sum to 1, but sums to {p.sum():.6g}.")
    return p / p.sum()


def drop(p: Array, token: int) -> tuple[Array, float]:
    """p with ``token`` set to 0 and renormalised, and the mass that was left. All zero stays zero."""
    left = p.copy()
    left[token] = 0.0
    mass = float(left.sum())
    return (left / mass if mass > 0 else left), mass


def accept_probability(p: Array, candidate: Candidate) -> float:
    """min(1, p(x) / q(x)), the number the draw is tested against."""
    q = candidate.proposal
    if not q > 0:
        raise ValueError(
            f"token {candidate.token} was put forward with probability {q:.3g}; it must be above 0."
        )
    return min(1.0, float(p[candidate.token]) / q)


def residual(p: Array, candidate: Candidate) -> tuple[Array, float]:
    """norm(max(0, p - q)) and its mass before it was normalised.

    With a certain candidate this is :func:`drop`. If nothing is left (p is nowhere above q, which
    a sound rule meets only where a rejection has probability 0) the candidate is dropped instead,
    and the mass is what that leaves.
    """
    if candidate.q is None:
        return drop(p, candidate.token)
    excess = np.maximum(0.0, p - candidate.q)
    mass = float(excess.sum())
    return (excess / mass, mass) if mass > 0 else drop(p, candidate.token)


def inverse_cdf(p: Array, u: float) -> FinalDraw:
    """The token whose piece of the bar [0, 1), cut in id order, holds u in [0, 1); never one with p = 0.

    The bar is scaled before it is searched: its last edge is then exactly 1, and low <= u < high
    holds to the last bit.
    """
    _check_draw(u)
    edges = np.cumsum(p)
    total = float(edges[-1])
    if not 0 < total < np.inf:
        raise ValueError("there is no probability left to draw a token from.")
    edges /= total
    token = int(np.searchsorted(edges, u, side="right"))
    low = float(edges[token - 1]) if token else 0.0
    return FinalDraw(token, u, low, float(edges[token]), p)


def _check_draw(u: float) -> None:
    if not 0 <= u < 1:
        raise ValueError(f"a draw must be at least 0 and below 1, but is {u!r:.40}.")


def _check_mass(p: Array) -> None:
    """A row with NaN or without mass would be accepted or drawn from without a sign of it."""
    total = float(p.sum())
    if not abs(total - 1) <= 1e-6 or p.min() < 0:
        raise ValueError(f"p must be non-negative and sum to 1, but sums to {total:.6g}.")


def judge(p: Array, candidates: Sequence[Candidate], draw: Draw, *, finish: bool = True) -> Verdict:
    """Offers the candidates in turn, then draws what is left.

    p [V] is the target's distribution at their parent. With ``finish=False`` nothing is drawn at
    the end and ``final`` is None. Raises ValueError where p is no distribution, a draw is outside
    [0, 1) or a candidate has proposal probability 0.
    """
    _check_mass(p)
    trials: list[Trial] = []
    for index, candidate in enumerate(candidates):
        accept, r = accept_probability(p, candidate), draw()
        _check_draw(r)
        after, mass = residual(p, candidate)
        trials.append(Trial(candidate, accept, r, r < accept, p, mass))
        if r < accept:
            return Verdict(trials, index, None)
        p = after
    return Verdict(trials, None, inverse_cdf(p, draw()) if finish else None)


# The rules, one function each. p [V] is the target's distribution at the parent.


def vanilla(p: Array, draw: Draw) -> Verdict:
    """Sampling from the target, with no draft."""
    return judge(p, (), draw)


def chain(p: Array, token: int, q: Array, draw: Draw) -> Verdict:
    """Speculative sampling (arXiv 2211.17192, section 2.3): ``token`` was drawn from q [V]."""
    return judge(p, [Candidate(token, q)], draw)


def eagle1(p: Array, tokens: Sequence[int], q: Array, draw: Draw) -> Verdict:
    """EAGLE-1 above temperature 0 (appendix A.2): ``tokens`` were drawn from q [V] without replacement."""
    return judge(p, without_replacement(tokens, q), draw)


def eagle2(p: Array, tokens: Sequence[int], draw: Draw) -> Verdict:
    """EAGLE-2: ``tokens`` are a deterministic list, so each was put forward with probability 1."""
    return judge(p, [Candidate(token) for token in tokens], draw)


def misreading(p: Array, tokens: Sequence[int], confidence: Array, draw: Draw) -> Verdict:
    """BIASED, for the classroom: a fixed list judged as if it had been drawn from ``confidence`` [V]."""
    return judge(p, without_replacement(tokens, confidence), draw)


def without_replacement(tokens: Sequence[int], q: Array) -> list[Candidate]:
    """Each token with q conditional on the tokens before it: those set to 0, the rest renormalised."""
    candidates = []
    for token in tokens:
        candidates.append(Candidate(token, q))
        q = drop(q, token)[0]
    return candidates


def draw_without_replacement(q: Array, k: int, draw: Draw) -> list[Candidate]:
    """k candidates from q [V], one uniform number each; fewer where q's support is smaller."""
    candidates: list[Candidate] = []
    for _ in range(min(k, int(np.count_nonzero(q)))):
        token = inverse_cdf(q, draw()).token
        candidates.append(Candidate(token, q))
        q = drop(q, token)[0]
    return candidates


def top_tokens(draft: Array, k: int) -> list[int]:
    """The k most confident tokens with confidence above 0, in descending order, ties by id."""
    order = np.argsort(-draft, kind="stable")[:k]
    return [int(token) for token in order if draft[token] > 0]


# Exact laws by enumeration.


@dataclass(frozen=True)
class Branch:
    """One way a draw can go: who was offered, which trials failed, what came out, with what mass."""

    offered: tuple[int, ...]
    rejected: tuple[int, ...]
    token: int
    accepted: bool
    mass: float


def offers(
    rule: RuleName, draft: Array, k: int, order: Sequence[int] | None = None
) -> Iterator[tuple[float, list[Candidate]]]:
    """Every list of candidates the rule can offer at a node, with its probability.

    ``order`` replaces the top-k list of eagle2 and of the misreading by another fixed list.
    """
    if rule == "vanilla":
        yield 1.0, []
    elif rule in ("eagle2", "misreading"):
        tokens = list(order) if order is not None else top_tokens(draft, k)
        yield 1.0, [Candidate(t) for t in tokens] if rule == "eagle2" else without_replacement(tokens, draft)
    else:
        support = [int(token) for token in np.flatnonzero(draft)]
        size = min(1 if rule == "chain" else k, len(support))
        for tokens_drawn in permutations(support, size):
            candidates = without_replacement(tokens_drawn, draft)
            yield float(np.prod([c.proposal for c in candidates])), candidates


def branches_given(p: Array, candidates: Sequence[Candidate], weight: float = 1.0) -> Iterator[Branch]:
    """All outcomes of :func:`judge` on these candidates; masses sum to ``weight``."""
    _check_mass(p)
    offered = tuple(candidate.token for candidate in candidates)
    for index, candidate in enumerate(candidates):
        accept = accept_probability(p, candidate)
        if accept > 0:
            yield Branch(offered, offered[:index], candidate.token, True, weight * accept)
        weight *= 1.0 - accept
        if weight <= 0:
            return
        p = residual(p, candidate)[0]
    for token in np.flatnonzero(p):
        yield Branch(offered, offered, int(token), False, weight * float(p[token]))


def branches(
    rule: RuleName, p: Array, draft: Array, k: int, order: Sequence[int] | None = None
) -> Iterator[Branch]:
    """All outcomes of a rule at one node; masses sum to 1."""
    for weight, candidates in offers(rule, draft, k, order):
        yield from branches_given(p, candidates, weight)


def law(rule: RuleName, p: Array, draft: Array, k: int, order: Sequence[int] | None = None) -> Array:
    """The exact distribution [V] of the token that comes out. Equals p for every sound rule."""
    out = np.zeros_like(p)
    for branch in branches(rule, p, draft, k, order):
        out[branch.token] += branch.mass
    return out


def law_given(p: Array, candidates: Sequence[Candidate]) -> Array:
    """The exact distribution [V] of :func:`judge` on fixed candidates (equals p when each is certain)."""
    out = np.zeros_like(p)
    for branch in branches_given(p, candidates):
        out[branch.token] += branch.mass
    return out


def total_variation(a: Array, b: Array) -> float:
    """Half the sum of absolute differences: the largest difference in any event's probability."""
    return float(np.abs(a - b).sum() / 2)


# Many draws at once.


def uniforms_needed(rule: RuleName, k: int) -> int:
    """Columns of ``u`` that :func:`simulate` reads: k to draw candidates, k to test them, one to finish."""
    return 2 * k + 1


def simulate(
    rule: RuleName, p: Array, draft: Array, k: int, u: Array, order: Sequence[int] | None = None
) -> NDArray[np.int64]:
    """n independent outcomes [n] of a rule from uniform numbers u [n, 2k + 1].

    Columns 0..k-1 draw the candidates where the rule draws them, k..2k-1 test them, the last one
    draws what is left; so two rules given the same u share their luck. Row by row this is
    :func:`judge` with those draws.
    """
    _check_mass(p)
    if u.ndim != 2 or u.shape[1] != uniforms_needed(rule, k):
        raise ValueError(f"u must have {uniforms_needed(rule, k)} columns, but has shape {u.shape}.")
    if rule in ("chain", "eagle1"):
        return _simulate_drawn(p, draft, min(1, k) if rule == "chain" else k, k, u)
    ((_, candidates),) = offers(rule, draft, k, order)
    return _simulate_list(p, candidates, u[:, k:])


def _simulate_list(p: Array, candidates: Sequence[Candidate], u: Array) -> NDArray[np.int64]:
    """Outcomes [n] on one fixed list: what is left is the same in every row that gets that far."""
    out = np.full(u.shape[0], -1, dtype=np.int64)
    live = np.arange(u.shape[0])  # rows without an outcome yet
    for i, candidate in enumerate(candidates):
        hit = u[live, i] < accept_probability(p, candidate)
        out[live[hit]] = candidate.token
        live = live[~hit]
        p = residual(p, candidate)[0]
    out[live] = _draw_rows(np.repeat(p[None], live.size, axis=0), u[live, -1])
    return out


def _simulate_drawn(p: Array, draft: Array, size: int, k: int, u: Array) -> NDArray[np.int64]:
    """Outcomes [n] where each row draws up to ``size`` candidates of its own, without replacement."""
    out = np.full(u.shape[0], -1, dtype=np.int64)
    live = np.arange(u.shape[0])  # rows without an outcome yet
    left, q = (np.repeat(row[None], live.size, axis=0) for row in (p, draft))
    for i in range(min(size, int(np.count_nonzero(draft)))):
        rows = np.arange(live.size)
        token = _draw_rows(q, u[live, i])
        hit = u[live, k + i] < left[rows, token] / q[rows, token]
        out[live[hit]] = token[hit]
        live, token, left, q = live[~hit], token[~hit], left[~hit], q[~hit]
        rows = np.arange(live.size)
        excess = np.maximum(0.0, left - q)
        dropped = left.copy()
        dropped[rows, token] = 0.0
        left = _normalised(np.where(excess.sum(axis=1, keepdims=True) > 0, excess, dropped))
        q[rows, token] = 0.0
        q = _normalised(q)
    out[live] = _draw_rows(left, u[live, -1])
    return out


def _normalised(x: Array) -> Array:
    mass = x.sum(axis=1, keepdims=True)
    return x / np.where(mass > 0, mass, 1.0)


def _draw_rows(p: Array, u: Array) -> NDArray[np.int64]:
    """:func:`inverse_cdf` on each row of p [n, V] with u [n]; a row without mass gives its last id."""
    edges = np.cumsum(p, axis=1)
    total = edges[:, -1:]
    edges /= np.where(total > 0, total, 1.0)
    return np.minimum((edges <= u[:, None]).sum(axis=1), p.shape[1] - 1)


# Why it works: one number instead of several.


@dataclass(frozen=True)
class OneNumber:
    """The bar [0, 1) cut at p(x1), p(x1) + p(x2), ..., then the rest, read with one number u.

    ``draws`` are the trial draws that u amounts to: (u - p1) / (1 - p1) is again uniform, so
    testing u against the bar and testing these one by one picks the same token.
    """

    edges: list[float]
    draws: list[float]
    token: int
    accepted: int | None


def one_number(p: Array, tokens: Sequence[int], u: float) -> OneNumber:
    """EAGLE-2's rule with one uniform number u in [0, 1): "draw x from p; if it is a child, walk there"."""
    _check_mass(p)
    _check_draw(u)
    edges = [0.0, *np.minimum(1.0, np.cumsum([p[token] for token in tokens])).tolist()]
    draws, left = [], u
    current = p
    for index, token in enumerate(tokens):
        draws.append(left)
        accept = float(current[token])
        if left < accept:
            return OneNumber(edges, draws, token, index)
        left = min((left - accept) / (1.0 - accept), np.nextafter(1.0, 0.0)) if accept < 1 else 0.0
        current = drop(current, token)[0]
    draws.append(left)
    return OneNumber(edges, draws, inverse_cdf(current, left).token, None)
