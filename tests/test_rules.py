"""The acceptance rules: exact laws, residuals, hostile numbers, and many seeded draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from eagle import rules
from eagle.rules import SOUND, Array, Candidate, RuleName, law, total_variation

# A false alarm of a seeded statistical test happens once in a million seeds; the seeds are fixed.
ODDS = 1e-6


def distributions(rng: np.random.Generator, size: int) -> Iterator[tuple[Array, Array]]:
    """Pairs (p, q): flat, sharp, with zeros apart and together, equal, and nearly one-hot."""
    dirichlet = lambda a: rng.dirichlet(np.full(size, a))  # noqa: E731
    yield dirichlet(1.0), dirichlet(1.0)
    yield dirichlet(0.2), dirichlet(0.2)
    same = dirichlet(1.0)
    yield same, same.copy()
    holes_p, holes_q = dirichlet(1.0), dirichlet(1.0)
    holes_p[0] = holes_q[-1] = 0.0
    yield holes_p / holes_p.sum(), holes_q / holes_q.sum()
    tiny = np.full(size, 1e-13)
    tiny[size // 2] = 1.0
    yield tiny / tiny.sum(), dirichlet(1.0)
    yield dirichlet(1.0), tiny / tiny.sum()
    yield np.eye(size)[0], dirichlet(1.0)
    yield dirichlet(1.0), np.eye(size)[0]


def replay(*numbers: float) -> Callable[[], float]:
    """The injected generator: these draws, in this order."""
    return iter(numbers).__next__


# Exact laws.


@pytest.mark.parametrize("rule", SOUND)
@pytest.mark.parametrize("size", range(2, 9))
def test_the_law_of_every_sound_rule_is_p(rule: RuleName, size: int) -> None:
    """Sizes 2 to 8 and every k, to 1e-12. EAGLE-1's law sums 8!/(8-k)! lists, so fewer pairs there; below."""
    rng = np.random.default_rng(size)
    for number, (p, q) in enumerate(distributions(rng, size)):
        for k in range(1, size + 1):
            lists = np.prod(np.arange(size - k + 1, size + 1))
            if rule == "eagle1" and (lists > 2000 or (lists > 300 and number > 3)):
                continue
            np.testing.assert_allclose(law(rule, p, q, k), p, rtol=0, atol=1e-12)


# k = 7 draws the same 8! lists as k = 8, which is enough for every day.
@pytest.mark.slow
@pytest.mark.parametrize("k", [*range(1, 7), pytest.param(7, marks=pytest.mark.long), 8])
def test_the_law_of_eagle1_at_size_8_for_every_k(k: int) -> None:
    p, q = next(distributions(np.random.default_rng(8), 8))
    np.testing.assert_allclose(law("eagle1", p, q, k), p, rtol=0, atol=1e-12)


def slow_eagle1_law(p: Array, q: Array, k: int) -> Array:
    """Appendix A.2 by recursion on what is left of p and q: no list of candidates, another program."""
    if k == 0 or q.sum() == 0:
        return p
    out = np.zeros_like(p)
    excess = np.maximum(0.0, p - q)
    for x in np.flatnonzero(q):
        accept = min(1.0, p[x] / q[x])
        out[x] += q[x] * accept
        if accept < 1:
            left = q.copy()
            left[x] = 0.0
            left = left / left.sum() if left.sum() > 0 else left
            out += q[x] * (1 - accept) * slow_eagle1_law(excess / excess.sum(), left, k - 1)
    return out


def test_the_law_of_eagle1_at_larger_k_by_another_program() -> None:
    """Two programs agree with p, and with one another, where the enumeration is short."""
    rng = np.random.default_rng(3)
    for size in (4, 5, 6):
        p, q = rng.dirichlet(np.ones(size)), rng.dirichlet(np.ones(size))
        for k in range(1, size + 1):
            np.testing.assert_allclose(slow_eagle1_law(p, q, k), p, rtol=0, atol=1e-12)


@pytest.mark.parametrize("size", [3, 5])
def test_any_fixed_list_in_any_order_is_lossless(size: int) -> None:
    rng = np.random.default_rng(size)
    p, q = rng.dirichlet(np.ones(size)), rng.dirichlet(np.ones(size))
    for k in range(size + 1):
        for order in permutations(range(size), k):
            np.testing.assert_allclose(law("eagle2", p, q, k, order=order), p, rtol=0, atol=1e-12)


def test_each_child_is_accepted_with_exactly_its_target_probability_in_any_order() -> None:
    p = np.array([0.4, 0.3, 0.2, 0.1])
    for order in permutations([0, 1, 2]):
        accepted = {b.token: b.mass for b in rules.branches("eagle2", p, p, 3, order) if b.accepted}
        assert accepted == pytest.approx({0: 0.4, 1: 0.3, 2: 0.2}, abs=1e-15)


@pytest.mark.parametrize("rule", rules.RULES)
def test_branches_sum_to_one(rule: RuleName) -> None:
    rng = np.random.default_rng(1)
    for p, q in distributions(rng, 5):
        for k in (1, 3, 5):
            assert sum(branch.mass for branch in rules.branches(rule, p, q, k)) == pytest.approx(1, abs=1e-12)


# The misreading.


def test_the_misreading_with_one_child_has_the_bias_that_theory_gives() -> None:
    """P(x) = min(1, p(x) / c(x)); the rest is drawn from norm(max(0, p - c))."""
    rng = np.random.default_rng(0)
    for size in range(2, 9):
        p, c = rng.dirichlet(np.ones(size)), rng.dirichlet(np.ones(size))
        x = int(np.argmax(c))
        accept = min(1.0, p[x] / c[x])
        excess = np.maximum(0.0, p - c)
        expected = (1 - accept) * excess / excess.sum()
        expected[x] += accept
        out = law("misreading", p, c, 1)
        np.testing.assert_allclose(out, expected, rtol=0, atol=1e-12)
        assert out[x] == pytest.approx(accept, abs=1e-12)
        assert total_variation(out, p) >= abs(accept - p[x]) - 1e-12 > 1e-4


def test_the_misreading_always_says_am() -> None:
    p = np.array([0.51, 0.49])
    out = law("misreading", p, p, 1)
    assert out.tolist() == [1.0, 0.0]
    assert total_variation(out, p) == pytest.approx(0.49)


def slow_misreading(p: Array, c: Array, tokens: list[int]) -> Array:
    """The definition, word for word, by recursion."""
    if not tokens:
        return p
    x, out = tokens[0], np.zeros_like(p)
    accept = min(1.0, p[x] / c[x])
    out[x] += accept
    if accept < 1:
        after = np.maximum(0.0, p - c)
        if after.sum() == 0:
            after = p.copy()
            after[x] = 0.0
        without = c.copy()
        without[x] = 0.0
        without = without / without.sum() if without.sum() else without
        out += (1 - accept) * slow_misreading(after / after.sum(), without, tokens[1:])
    return out


def test_the_misreading_with_several_children_follows_its_definition() -> None:
    rng = np.random.default_rng(5)
    for size in range(2, 9):
        for _ in range(5):
            p, c = rng.dirichlet(np.ones(size)), rng.dirichlet(np.ones(size))
            for k in range(1, size + 1):
                out = law("misreading", p, c, k)
                expected = slow_misreading(p, c, np.argsort(-c, kind="stable")[:k].tolist())
                np.testing.assert_allclose(out, expected, rtol=0, atol=1e-12)
                if k < size:
                    assert total_variation(out, p) > 1e-9


# Two steps.


def stub_target() -> tuple[Array, Array]:
    """p and draft of the next token given the last one, four tokens; row 4 is the start."""
    rng = np.random.default_rng(11)
    return rng.dirichlet(np.full(4, 0.8), size=5), rng.dirichlet(np.full(4, 0.8), size=5)


def two_step_law(rule: RuleName, k: int) -> Array:
    """The joint law [4, 4] of two steps: the second starts where the first one ended."""
    target, draft = stub_target()
    joint = np.zeros((4, 4))
    for first in rules.branches(rule, target[4], draft[4], k):
        joint[first.token] += first.mass * law(rule, target[first.token], draft[first.token], k)
    return joint


@pytest.mark.parametrize("rule", SOUND)
@pytest.mark.parametrize("k", [1, 2, 4])
def test_the_joint_law_of_two_steps_is_the_targets(rule: RuleName, k: int) -> None:
    target, _ = stub_target()
    np.testing.assert_allclose(two_step_law(rule, k), target[4][:, None] * target[:4], rtol=0, atol=1e-12)


def judged(rule: RuleName, p: Array, q: Array, k: int, draw: rules.Draw) -> int:
    """One decoding step with the rule's own drafting; the token it gives."""
    if rule == "vanilla":
        verdict = rules.vanilla(p, draw)
    elif rule == "chain":
        verdict = rules.chain(p, rules.inverse_cdf(q, draw()).token, q, draw)
    elif rule == "eagle1":
        tokens = [candidate.token for candidate in rules.draw_without_replacement(q, k, draw)]
        verdict = rules.eagle1(p, tokens, q, draw)
    elif rule == "eagle2":
        verdict = rules.eagle2(p, rules.top_tokens(q, k), draw)
    else:
        verdict = rules.misreading(p, rules.top_tokens(q, k), q, draw)
    assert verdict.token is not None
    return verdict.token


@pytest.mark.slow
@pytest.mark.parametrize("rule", rules.RULES)
def test_two_steps_drawn_many_times_follow_the_joint_law(rule: RuleName) -> None:
    """6,000 seeded runs against the exact joint law, chi-square over 16 cells at ODDS."""
    target, draft = stub_target()
    rng = np.random.default_rng(29)
    counts = np.zeros((4, 4))
    for _ in range(6000):
        first = judged(rule, target[4], draft[4], 2, rng.random)
        counts[first, judged(rule, target[first], draft[first], 2, rng.random)] += 1
    exact = two_step_law(rule, 2)
    assert fits(counts, exact)
    truth = target[4][:, None] * target[:4]
    assert fits(counts, truth) == (rule != "misreading")


def fits(counts: Array, expected: Array) -> bool:
    """Chi-square at ODDS; cells that the law gives no mass must be empty."""
    live = expected.ravel() > 1e-12
    if counts.ravel()[~live].any():
        return False
    e = expected.ravel()[live] * counts.sum()
    statistic = float(((counts.ravel()[live] - e) ** 2 / e).sum())
    return bool(stats.chi2.sf(statistic, live.sum() - 1) > ODDS)


# the residuals and the numbers that software has stumbled over.


def test_the_residuals_of_the_half_three_tenths_two_tenths_example() -> None:
    p = np.array([0.5, 0.3, 0.2])
    verdict = rules.eagle2(p, [0, 1], replay(0.9, 0.9, 0.5))
    first, second = verdict.trials
    assert first.accept == 0.5
    assert second.before.tolist() == pytest.approx([0, 0.6, 0.4])
    assert second.accept == pytest.approx(0.6)
    assert verdict.final is not None
    assert verdict.final.drawn_from.tolist() == [0, 0, 1]
    assert verdict.token == 2
    assert (verdict.final.low, verdict.final.high) == (0, 1)


def test_the_half_three_tenths_two_tenths_example_many_times() -> None:
    """20,000 draws (4,000 in other orders); a count is 5 standard deviations off once in 1.7 million."""
    p = np.array([0.5, 0.3, 0.2])
    rng = np.random.default_rng(1)
    for tokens, n in (([0, 1], 20_000), ([1], 4000), ([2, 0, 1], 4000)):
        drawn = [rules.eagle2(p, tokens, rng.random).token for _ in range(n)]
        counts = np.bincount(np.array(drawn), minlength=3)
        assert (np.abs(counts - n * p) < 5 * np.sqrt(n * p * (1 - p))).all()


def test_the_second_token_keeps_its_probability_when_draft_equals_target() -> None:
    """p = (0.51, 0.49), one child: 20,000 runs; five standard deviations are 1.8 points."""
    p = np.array([0.51, 0.49])
    rng = np.random.default_rng(2)
    have = sum(rules.eagle2(p, [0], rng.random).token == 1 for _ in range(20_000))
    assert abs(have / 20_000 - 0.49) < 5 * np.sqrt(0.51 * 0.49 / 20_000)


def test_forced_rejection_of_nearly_all_the_mass_gives_the_other_token() -> None:
    """p = (1 - 1e-9, 1e-9): the residual comes from what is left, not from 1 - p, which has lost digits."""
    p = np.array([1 - 1e-9, 1e-9])
    verdict = rules.eagle2(p, [0], replay(1 - 2**-53, 0.3))
    assert verdict.token == 1
    assert verdict.trials[0].normaliser == 1e-9
    assert verdict.final is not None
    assert verdict.final.drawn_from.tolist() == [0.0, 1.0]


def test_small_masses_keep_their_digits_through_several_rejections() -> None:
    p = np.array([1.0, 3e-18, 1e-18])
    p[0] = 1 - 4e-18  # rounds to 1: the first trial can not fail, but its residual is still right
    left, mass = rules.drop(p, 0)
    assert mass == pytest.approx(4e-18, rel=1e-15)
    assert left.tolist() == pytest.approx([0, 0.75, 0.25], rel=1e-15)


def test_a_sure_token_is_never_rejected_and_an_impossible_one_never_accepted() -> None:
    one_hot = np.eye(4)[2]
    assert rules.eagle2(one_hot, [2], replay(1 - 2**-53)).accepted == 0
    verdict = rules.eagle2(one_hot, [0, 1, 3], replay(0.0, 0.0, 0.0, 0.0))
    assert verdict.accepted is None
    assert verdict.token == 2
    np.testing.assert_array_equal(verdict.trials[2].before, one_hot)


@pytest.mark.parametrize(
    "p",
    [
        [np.nan, np.nan, np.nan],
        [0.5, np.nan, 0.5],
        [np.inf, 0, 0],
        [0, 0, 0],
        [0.5, 0.2, 0.2],
        [1.2, -0.2, 0],
    ],
)
def test_rows_that_are_no_distribution_are_refused_not_drawn_from(p: list[float]) -> None:
    row = np.array(p, dtype=float)
    for call in (
        lambda: rules.eagle2(row, [0], replay(0.5, 0.5)),
        lambda: rules.vanilla(row, replay(0.5)),
        lambda: rules.one_number(row, [0], 0.5),
        lambda: rules.simulate("eagle2", row, np.full(3, 1 / 3), 1, np.zeros((1, 3))),
        lambda: law("eagle2", row, np.full(3, 1 / 3), 1),
        lambda: rules.as_distribution(row),
    ):
        with pytest.raises(ValueError, match=r"sum|entry"):
            call()


@pytest.mark.parametrize("p", [[np.nan, 1.0], [0.0, 0.0], [np.inf, 1.0]])
def test_the_final_draw_needs_mass(p: list[float]) -> None:
    with pytest.raises(ValueError, match="no probability left"):
        rules.inverse_cdf(np.array(p), 0.5)


@pytest.mark.parametrize("u", [-1e-9, 1.0, 2.0, np.nan])
def test_draws_outside_zero_to_one_are_refused(u: float) -> None:
    p = np.array([0.5, 0.5])
    for call in (
        lambda: rules.inverse_cdf(p, u),
        lambda: rules.eagle2(p, [0], replay(u)),
        lambda: rules.one_number(p, [0], u),
    ):
        with pytest.raises(ValueError, match="a draw must be"):
            call()


def test_a_candidate_that_could_not_have_been_drawn_is_refused() -> None:
    p, q = np.array([0.5, 0.5]), np.array([1.0, 0.0])
    with pytest.raises(ValueError, match="token 1 was put forward with probability 0"):
        rules.chain(p, 1, q, replay(0.5, 0.5))


def test_as_distribution_says_what_is_wrong() -> None:
    cases = {
        "one row": [[0.5, 0.5]],
        "shape": [],
        "not a finite": [np.nan, 1],
        "negative": [-0.5, 1.5],
        "sums to 0.9": [0.4, 0.5],
        "one row of probabilities": ["a", "b"],
    }
    for words, values in cases.items():
        with pytest.raises(ValueError, match=words):
            rules.as_distribution(values, "draft")
    assert rules.as_distribution([1, 1e-7]).sum() == pytest.approx(1, abs=1e-15)


@settings(max_examples=300, deadline=None)
@given(st.integers(2, 300), st.floats(0, 1, exclude_max=True), st.integers(0, 2**32 - 1), st.floats(0.01, 3))
def test_the_final_interval_holds_its_draw_to_the_last_bit(
    size: int, u: float, seed: int, spread: float
) -> None:
    p = np.random.default_rng(seed).dirichlet(np.full(size, spread))
    p[:: 1 + seed % 3] *= seed % 2  # zeros at both ends, at every place or nowhere
    if p.sum() == 0:
        p[size // 2] = 1.0
    p /= p.sum()
    for draw in (u, 0.0, 1 - 2**-53):
        final = rules.inverse_cdf(p, draw)
        assert 0 <= final.low <= draw < final.high <= 1
        assert p[final.token] > 0
        assert final.high - final.low == pytest.approx(p[final.token], abs=1e-12)


# Drafting.


def test_top_tokens_are_descending_with_ties_by_id_and_never_impossible() -> None:
    assert rules.top_tokens(np.array([0.2, 0.3, 0.2, 0.3, 0.0]), 3) == [1, 3, 0]
    assert rules.top_tokens(np.array([0.2, 0.3, 0.2, 0.3, 0.0]), 99) == [1, 3, 0, 2]
    assert rules.top_tokens(np.array([0.5, 0.5]), 0) == []


def test_drawing_without_replacement_has_the_law_of_successive_draws() -> None:
    """Ordered pairs of four tokens, 10,000 draws, chi-square over 12 cells at ODDS."""
    q = np.array([0.5, 0.3, 0.15, 0.05])
    rng = np.random.default_rng(4)
    counts, expected = np.zeros((4, 4)), np.zeros((4, 4))
    for _ in range(10_000):
        first, second = rules.draw_without_replacement(q, 2, rng.random)
        assert second.proposal == pytest.approx(q[second.token] / (1 - q[first.token]))
        counts[first.token, second.token] += 1
    for a, b in permutations(range(4), 2):
        expected[a, b] = q[a] * q[b] / (1 - q[a])
    assert fits(counts, expected)
    assert len(rules.draw_without_replacement(np.array([0.6, 0, 0.4]), 5, rng.random)) == 2


def test_without_replacement_renormalises_what_is_left() -> None:
    candidates = rules.without_replacement([1, 0], np.array([0.2, 0.5, 0.3]))
    assert [c.proposal for c in candidates] == pytest.approx([0.5, 0.4])


def test_trials_stop_at_the_first_acceptance_and_finish_is_optional() -> None:
    p = np.array([0.5, 0.3, 0.2])
    verdict = rules.judge(p, [Candidate(0), Candidate(1)], replay(0.9, 0.1))
    assert (verdict.accepted, verdict.token, verdict.final) == (1, 1, None)
    open_end = rules.judge(p, [Candidate(0)], replay(0.9), finish=False)
    assert (open_end.accepted, open_end.token, open_end.final) == (None, None, None)


# One number, and many draws at once.


@settings(max_examples=400, deadline=None)
@given(st.integers(2, 8), st.integers(0, 2**32 - 1), st.floats(0, 1, exclude_max=True), st.data())
def test_one_number_picks_what_the_trials_pick(size: int, seed: int, u: float, data: st.DataObject) -> None:
    """The bar and the trials give one token, away from the edges by more than float64 noise."""
    p = np.random.default_rng(seed).dirichlet(np.full(size, 0.7))
    tokens = data.draw(st.lists(st.integers(0, size - 1), unique=True, max_size=size))
    one = rules.one_number(p, tokens, u)
    verdict = rules.eagle2(p, tokens, replay(*one.draws))
    assert verdict.token == one.token
    assert verdict.accepted == one.accepted
    assert all(0 <= draw < 1 for draw in one.draws)
    assert one.edges == sorted(one.edges)
    assert one.edges[-1] <= 1
    if min(abs(u - edge) for edge in one.edges) > 1e-9:
        piece = int(np.searchsorted(one.edges[1:], u, side="right"))
        assert one.accepted == (piece if piece < len(tokens) else None)


def test_one_number_has_the_law_p() -> None:
    """u on a fine grid: every token's share of the bar is its p."""
    p = np.array([0.1, 0.4, 0.2, 0.3])
    n = 4000
    drawn = [rules.one_number(p, [3, 1], (i + 0.5) / n).token for i in range(n)]
    np.testing.assert_allclose(np.bincount(drawn) / n, p, atol=2 / n)


@pytest.mark.parametrize("rule", rules.RULES)
def test_simulate_is_judge_row_by_row(rule: RuleName) -> None:
    rng = np.random.default_rng(6)
    for size, k in product((2, 5), (1, 3)):
        for p, q in distributions(rng, size):
            u = rng.random((40, rules.uniforms_needed(rule, k)))
            out = rules.simulate(rule, p, q, k, u)
            offered = {"vanilla": 0, "chain": 1}.get(rule, min(k, int(np.count_nonzero(q))))
            for row, token in zip(u, out, strict=True):
                drawn = row[:offered] if rule in ("chain", "eagle1") else []
                draws = [*drawn, *row[k : k + offered], row[-1]]
                assert token == judged_with_last(rule, p, q, k, draws, offered)


def judged_with_last(rule: RuleName, p: Array, q: Array, k: int, draws: list[float], offered: int) -> int:
    return judged(rule, p, q, k, replay(*draws))


@pytest.mark.parametrize("rule", rules.RULES)
def test_simulate_follows_the_law(rule: RuleName) -> None:
    """100,000 draws, chi-square over 6 cells at ODDS; the misreading fits its own law and not p."""
    rng = np.random.default_rng(7)
    p, q = rng.dirichlet(np.ones(6)), rng.dirichlet(np.ones(6))
    for k in (1, 3):
        u = rng.random((100_000, rules.uniforms_needed(rule, k)))
        counts = np.bincount(rules.simulate(rule, p, q, k, u), minlength=6).astype(float)
        assert fits(counts, law(rule, p, q, k))
        assert fits(counts, p) == (rule != "misreading")


def test_simulate_refuses_too_few_numbers() -> None:
    p = np.array([0.5, 0.5])
    with pytest.raises(ValueError, match="5 columns"):
        rules.simulate("eagle2", p, p, 2, np.zeros((3, 3)))
