"""One draw on screen: it is the rule's own, it is the experiment's first, and its words fit its numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.lab_edit import apply
from app.lab_experiment import Z95, experiment, g_test, sample, wilson
from app.lab_state import DEFAULT, FINAL_COLUMN, TEST_COLUMN, LabState, scaled
from app.lab_walk import Event, walk
from app.lab_words import now_sentence, trial_formula
from eagle import rules

THREE = replace(DEFAULT, tokens=("am", "have", "was"), target=(0.51, 0.29, 0.2), draft=(0.6, 0.3, 0.1), k=2)


def every_rule(state: LabState) -> list[LabState]:
    return [replace(state, rule=rule) for rule in rules.RULES]


def test_the_draw_on_screen_is_the_first_of_the_experiment() -> None:
    for state in every_rule(THREE):
        for seed in range(40):
            seeded = replace(state, seed=seed)
            token = walk(seeded).verdict.token
            assert token is not None
            assert sample(seeded, 1).counts[token] == 1, (state.rule, seed)


def test_steps_show_one_event_at_a_time_and_then_offer_a_new_draw() -> None:
    state = THREE
    seen = []
    for _ in range(12):
        now = walk(state)
        seen.append(now.shown)
        if now.finished:
            break
        state, _ = apply(state, {"do": "next"})
    assert seen == list(range(len(seen)))
    after, _ = apply(state, {"do": "next"})
    assert (after.step, after.seed) == (0, state.seed + 1)
    back, _ = apply(state, {"do": "back"})
    assert back.step == state.step - 1


def test_a_draw_set_by_hand_decides_and_is_shown() -> None:
    for value, accepted in ((0.3, True), (0.50999, True), (0.51, False), (0.7, False)):
        state, note = apply(DEFAULT, {"do": "draw", "column": TEST_COLUMN, "v": str(value)})
        now = walk(state)
        assert note == ""
        assert now.trials[0].draw == value
        assert now.trials[0].accepted is accepted
        assert now.is_shown("trial", 0)


def test_a_drawn_candidate_is_an_event_of_its_own_and_a_fixed_list_is_none() -> None:
    assert walk(THREE).events[0] == Event("trial", 0)
    for rule in ("chain", "eagle1"):
        assert walk(replace(THREE, rule=rule)).events[0] == Event("drafted")
    assert walk(replace(THREE, rule="vanilla")).events == [Event("final")]


def test_the_formula_has_the_numbers_of_the_trial_in_it() -> None:
    state = replace(THREE, typed=((TEST_COLUMN, 0.8),))
    now = walk(state)
    assert trial_formula(now, 0) == "p = .51"
    assert trial_formula(now, 1) == "p = .29 / (1 − .51) = .592"
    misread = walk(replace(DEFAULT, rule="misreading"))
    assert trial_formula(misread, 0) == "min(1, p / confidence)|= min(1, .51 / .51) = 1"


def test_each_event_has_a_sentence_that_says_what_happened() -> None:
    state = replace(DEFAULT, typed=((TEST_COLUMN, 0.8), (FINAL_COLUMN, 0.2)))
    said = [now_sentence(walk(replace(state, step=step))) for step in range(3)]
    assert "q = 1" in said[0]
    assert "not below .51" in said[1]
    assert "rejected" in said[1]
    assert "“have”" in said[2]


def test_two_rules_share_their_luck_and_both_follow_their_exact_law() -> None:
    n = 100_000
    for state in every_rule(replace(THREE, seed=3)):
        first, second = experiment(state, n)
        assert first.rule == state.rule
        assert second.rule == state.other
        for one in (first, second):
            law = np.array(one.law)
            noise = 5 * np.sqrt(law * (1 - law) / n) + 1e-12
            assert (np.abs(np.array(one.share) - law) <= noise).all(), one
    same, other = experiment(replace(DEFAULT, rule="eagle2", other="vanilla"), n)
    assert abs(same.share[0] - other.share[0]) < 0.01


def test_the_experiment_tells_a_biased_rule_from_a_sound_one() -> None:
    sound, biased = experiment(DEFAULT, 10_000)
    assert sound.p_value is not None
    assert sound.p_value > 0.001
    assert biased.p_value is not None
    assert biased.p_value < 1e-12
    assert biased.variation == pytest.approx(0.49)
    assert [n for n, _ in sound.running][-1] == 10_000
    assert sound.running[-1][1] == pytest.approx(sound.variation)


def test_the_g_test_is_scipys_and_is_silent_where_it_has_no_say() -> None:
    from scipy.stats import power_divergence

    counts, p = np.array([480, 320, 200]), np.array([0.5, 0.3, 0.2])
    expected = power_divergence(counts, p * 1000, lambda_="log-likelihood").pvalue
    assert g_test(counts, p) == pytest.approx(float(expected), rel=1e-9)
    assert g_test(np.array([1, 0]), np.array([0.51, 0.49])) is None
    assert g_test(np.array([10, 0]), np.array([1.0, 0.0])) is None
    assert g_test(np.array([9, 1]), np.array([1.0, 0.0])) == 0.0
    pooled = g_test(np.array([990, 6, 4]), np.array([0.99, 0.006, 0.004]))
    assert pooled == pytest.approx(1.0)


def test_wilsons_interval_holds_the_share_and_is_never_empty() -> None:
    low, high = wilson(np.array([0, 1, 50, 100]), 100)
    share = np.array([0, 1, 50, 100]) / 100
    assert (low <= share + 1e-12).all()
    assert (share <= high + 1e-12).all()
    assert (high - low > 0).all()
    assert high[0] == pytest.approx(Z95**2 / (100 + Z95**2))


def test_one_hundred_thousand_draws_share_no_state_between_settings() -> None:
    wide = replace(
        DEFAULT,
        tokens=tuple("abcdefgh"),
        target=scaled(range(1, 9)),
        draft=scaled([3, 1, 4, 1, 5, 9, 2, 6]),
        k=8,
        rule="eagle1",
    )
    again = sample(wide, 1000)
    assert sample(replace(wide, seed=8), 1000).counts != again.counts
    assert sum(again.counts) == 1000
