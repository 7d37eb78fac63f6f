"""The law on screen against an enumeration written from the papers' words, not from ``eagle.rules``."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest

from app.lab_law import factors, law_of
from app.lab_state import DEFAULT, LabState, scaled, tidy
from eagle import laws, rules

SETTINGS = 1000


def sequential(
    p: list[float], offers: list[tuple[int, list[float]]], out: dict[int, float], mass: float
) -> None:
    """Offer (token, q of that offer) one after the other, on plain lists, mass by mass."""
    if not offers:
        for token, value in enumerate(p):
            out[token] += mass * value
        return
    (token, q), rest = offers[0], offers[1:]
    accept = min(1.0, p[token] / q[token])
    out[token] += mass * accept
    left = [max(0.0, a - b) for a, b in zip(p, q, strict=True)]
    if sum(left) <= 0:
        left = [0.0 if i == token else value for i, value in enumerate(p)]
    if accept < 1 and sum(left) > 0:
        total = sum(left)
        sequential([value / total for value in left], rest, out, mass * (1 - accept))


def without(q: list[float], token: int) -> list[float]:
    left = [0.0 if i == token else value for i, value in enumerate(q)]
    return [value / sum(left) for value in left] if sum(left) > 0 else left


def reference_law(rule: str, p: list[float], q: list[float], k: int, listed: list[int]) -> list[float]:
    """The outcome law, by following every list of candidates to its end."""
    out: dict[int, float] = defaultdict(float)

    def one_hot(token: int) -> list[float]:
        return [float(i == token) for i in range(len(p))]

    def draw(offers: list[tuple[int, list[float]]], left: list[float], mass: float, more: int) -> None:
        if more == 0 or sum(left) <= 0:
            sequential(p, offers, out, mass)
            return
        for token, value in enumerate(left):
            if value > 0:
                draw([*offers, (token, left)], without(left, token), mass * value, more - 1)

    if rule == "vanilla":
        sequential(p, [], out, 1.0)
    elif rule == "eagle2":
        sequential(p, [(token, one_hot(token)) for token in listed], out, 1.0)
    elif rule == "misreading":
        claims, left = [], q
        for token in listed:
            claims.append((token, left))
            left = without(left, token)
        sequential(p, claims, out, 1.0)
    else:
        draw([], q, 1.0, 1 if rule == "chain" else k)
    return [out[token] for token in range(len(p))]


def random_state(rng: np.random.Generator) -> LabState:
    """2 to 8 tokens, some of them impossible; any rule, k, order and temperature that the lab takes."""
    size = int(rng.integers(2, 9))
    target, draft = (rng.dirichlet(np.full(size, rng.choice([0.3, 1.0, 5.0]))) for _ in range(2))
    for row in (target, draft):
        if rng.random() < 0.3:
            row[rng.integers(size)] = 0.0
    rule = str(rng.choice(rules.RULES))
    # Every order of 8 candidates is followed one by one here, so deep lists of many tokens are left out.
    deepest = size if rule != "eagle1" or size <= 5 else 3
    k = int(rng.integers(1, deepest + 1))
    order = tuple(int(i) for i in rng.permutation(size)[:k]) if rng.random() < 0.4 else ()
    return tidy(
        replace(
            DEFAULT,
            tokens=tuple(f"t{i}" for i in range(size)),
            target=scaled(target),
            draft=scaled(draft),
            rule=rule,
            k=k,
            order=order,
            temperature=float(rng.choice([0.0, 0.3, 1.0, 1.0, 1.7])),
        )
    )


@lru_cache(maxsize=1)
def settings() -> tuple[LabState, ...]:
    rng = np.random.default_rng(20240716)
    return tuple(random_state(rng) for _ in range(SETTINGS))


def test_the_law_on_screen_is_the_enumerated_one_for_1000_random_settings() -> None:
    for state in settings():
        shown = law_of(state)
        p, q = state.p.tolist(), state.q.tolist()
        expected = reference_law(state.rule, p, q, state.k, state.fixed_list() or [])
        assert np.abs(shown.output - expected).max() < 1e-12, state
        assert abs(shown.variation - sum(abs(a - b) for a, b in zip(expected, p, strict=True)) / 2) < 1e-12


def test_sound_rules_give_the_target_and_the_misreading_is_always_marked() -> None:
    for state in settings():
        law = law_of(state)
        assert law.sound == (state.rule != "misreading")
        if law.sound:
            assert np.abs(law.output - state.p).max() < 1e-12, state


def test_paths_sum_to_the_law_and_their_factors_multiply_to_their_mass() -> None:
    for state in settings()[:300]:
        law = law_of(state)
        if not law.paths:
            continue
        out = np.zeros(len(state.tokens))
        for path in law.paths:
            out[path.token] += path.mass
            product = float(np.prod(factors(law.rule, state.p, state.q, path)))
            assert product == pytest.approx(path.mass, abs=1e-12)
        assert np.abs(out - law.output).max() < 1e-12


def test_stage_masses_are_the_rules_law_summed_by_stage() -> None:
    for state in settings()[:300]:
        law = law_of(state)
        assert law.stages.sum() == pytest.approx(1.0, abs=1e-12)
        direct = rules.law(state.rule, state.p, state.q, state.k, state.fixed_list())
        assert np.abs(law.stages.sum(axis=0) - direct).max() < 1e-12
        assert law.accepted == pytest.approx(float(law.stages[:-1].sum()))


def test_am_have_is_exact_under_eagle2_and_biased_under_the_misreading() -> None:
    assert law_of(DEFAULT).output.tolist() == pytest.approx([0.51, 0.49], abs=1e-15)
    misread = law_of(replace(DEFAULT, rule="misreading"))
    assert misread.output.tolist() == [1.0, 0.0]
    assert misread.variation == pytest.approx(0.49, abs=1e-15)


def test_three_tokens_have_the_known_accept_probabilities_in_both_orders() -> None:
    p = [Fraction(51, 100), Fraction(29, 100), Fraction(20, 100)]
    state = replace(
        DEFAULT, tokens=("am", "have", "was"), target=(0.51, 0.29, 0.2), draft=(0.6, 0.3, 0.1), k=2
    )
    for order in ((0, 1), (1, 0)):
        law = law_of(replace(state, order=order))
        path = next(path for path in law.paths if path.rejected and path.accepted)
        first, second = factors("eagle2", state.p, state.q, path)
        assert 1 - first == pytest.approx(float(p[order[0]]), abs=1e-15)
        assert second == pytest.approx(float(p[order[1]] / (1 - p[order[0]])), abs=1e-15)
        assert np.abs(law.output - state.p).max() < 1e-15


def test_temperature_moves_what_the_rule_says_it_moves() -> None:
    for rule in rules.RULES:
        state = replace(DEFAULT, target=(0.8, 0.2), draft=(0.6, 0.4), rule=rule, temperature=0.5)
        assert state.p.tolist() == pytest.approx([16 / 17, 1 / 17], abs=1e-12)
        moved = [9 / 13, 4 / 13] if rule in laws.SAMPLED else [0.6, 0.4]
        assert state.q.tolist() == pytest.approx(moved, abs=1e-12)
        assert replace(state, temperature=0.0).p.tolist() == [1.0, 0.0]


def test_speed_arithmetic_matches_the_closed_form_and_the_published_identity() -> None:
    for share in (0.0, 0.3, 0.7):
        for depth in (0, 1, 5, 12):
            closed = (1 - share ** (depth + 1)) / (1 - share)
            assert laws.expected_tau(share, depth) == pytest.approx(closed, abs=1e-12)
    assert laws.expected_tau(1.0, 4) == 5.0
    assert laws.speedup(4.65, laws.overhead(1, 0.0, 4.65 / 4.04 - 1)) == pytest.approx(4.04)
