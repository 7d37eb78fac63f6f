"""The lab's state: links both ways, edits that keep the sums at 1, hostile input in one sentence."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as budget
from hypothesis import strategies as st

from app import lessons
from app.lab_edit import _HANDLERS, apply
from app.lab_page import render
from app.lab_query import MAX_QUERY, from_query, to_query
from app.lab_state import DEFAULT, MAX_NAME, REST, Guess, LabState, from_node, scaled, tidy
from app.lab_view import lab_act
from eagle.trace import ROOT, Distribution, SampledFrom, Status, TreeTrace, Trial
from tests.test_lab_law import random_state

NAMES = ["<b>x</b>", "<script>hi()</script>", "a,b&c=d", "👩‍👩‍👧", "\n", " a", "$x$", "%{x}", ""]


def test_a_link_restores_every_state() -> None:
    rng = np.random.default_rng(5)
    for round_number in range(300):
        state = random_state(rng)
        names = tuple(str(name) for name in rng.choice(NAMES, len(state.tokens), replace=False))
        state = tidy(
            replace(
                state,
                tokens=names,
                seed=int(rng.integers(2**32)),
                step=int(rng.integers(6)),
                typed=((0, 0.25), (8, 0.5), (16, 0.75)) if round_number % 2 else (),
                guesses=(Guess(True, 0.5, 0.51, False), Guess(False, None, 0.592, True)),
                view="why",
                lesson=int(rng.integers(0, 8)),
                reveal=bool(rng.integers(2)),
                room=bool(rng.integers(2)),
            )
        )
        query = to_query(state)
        back, notes = from_query(query)
        assert notes == []
        assert back == state
        assert to_query(back) == query


def test_the_default_is_the_shortest_link() -> None:
    assert to_query(DEFAULT) == "tab=lab"
    assert from_query("")[0] == DEFAULT
    assert from_query("?seed=3&step=9&k=7")[0] == DEFAULT, "another tab's keys are not the lab's"


@pytest.mark.parametrize(
    "query",
    [
        "lab.p=1,2,nan",
        "lab.p=inf,1",
        "lab.p=-1,2",
        "lab.p=0,0",
        "lab.p=1",
        "lab.p=1,1,1,1,1,1,1,1,1",
        "lab.p=a,b",
        "lab.p=.5,.5&lab.q=1,2,3",
        "lab.t=a&lab.t=b&lab.t=c&lab.p=.5,.5",
        "lab.rule=greedy",
        "lab.k=0",
        "lab.k=-3",
        "lab.k=1e9",
        "lab.k=99",
        "lab.T=-1",
        "lab.T=nan",
        "lab.seed=99999999999",
        "lab.seed=٣",
        "lab.r=8:1",
        "lab.r=99:.5",
        "lab.r=junk",
        "lab.order=0,0",
        "lab.order=7",
        "lab.u=1",
        "lab.guesses=1:2:3",
        "lab.guesses=1:nan:.5:1",
        "lab.view=source",
        "lab.n=10000000",
        "x=" + "y" * MAX_QUERY,
    ],
)
def test_a_bad_value_in_a_link_falls_back_with_a_note(query: str) -> None:
    state, notes = from_query(query)
    assert len(notes) == 1, notes
    assert notes[0].endswith(".")
    assert "Traceback" not in notes[0]
    render(state, notes[0])


def test_weights_in_a_link_that_do_not_sum_to_one_are_scaled_and_said() -> None:
    state, notes = from_query("lab.p=51,49&lab.q=51,49")
    assert state.target == (0.51, 0.49)
    assert len(notes) == 2
    assert "scaled" in notes[0]


@pytest.mark.parametrize(
    "value", ["nan", "inf", "-0.1", "1.1", "", "abc", "1e999", "<b>", None, [], {"a": 1}]
)
def test_a_bad_probability_changes_nothing_and_says_so(value: Any) -> None:
    for which in ("target", "draft"):
        after, note = apply(DEFAULT, {"do": "weight", "which": which, "i": 0, "v": value})
        assert after == DEFAULT
        assert note.count(".") >= 1


def test_an_edit_keeps_the_sum_at_one_and_says_what_moved() -> None:
    after, note = apply(DEFAULT, {"do": "weight", "which": "target", "i": 0, "v": "70%"})
    assert after.target == (0.7, 0.3)
    assert "“have” went from .49 to .3" in note
    three = replace(DEFAULT, tokens=("a", "b", "c"), target=(0.5, 0.3, 0.2), draft=(0.5, 0.3, 0.2))
    after, note = apply(three, {"do": "weight", "which": "draft", "i": 2, "v": "0,6"})
    assert after.draft == pytest.approx((0.25, 0.15, 0.6))
    assert "multiplied by .5" in note
    one_hot = replace(three, target=(1.0, 0.0, 0.0))
    after, note = apply(one_hot, {"do": "weight", "which": "target", "i": 0, "v": 0.4})
    assert after.target == pytest.approx((0.4, 0.3, 0.3))
    assert "evenly" in note


def test_tokens_can_be_added_removed_and_named_within_bounds() -> None:
    state: LabState = DEFAULT
    for _ in range(12):
        state, note = apply(state, {"do": "add"})
        assert sum(state.target) == pytest.approx(1)
        assert len(set(state.tokens)) == len(state.tokens)
    assert len(state.tokens) == 8
    assert "at most 8" in note
    for _ in range(12):
        state, note = apply(state, {"do": "remove", "i": 0})
        assert sum(state.draft) == pytest.approx(1)
    assert len(state.tokens) == 2
    assert "at least 2" in note
    same, note = apply(state, {"do": "name", "i": 0, "v": state.tokens[1]})
    assert same == state
    assert "already" in note
    long, note = apply(state, {"do": "name", "i": 0, "v": "x" * 100})
    assert long.tokens[0] == "x" * MAX_NAME
    assert "24" in note


def test_k_beyond_the_vocabulary_is_cut_and_said() -> None:
    after, note = apply(DEFAULT, {"do": "k", "v": 50})
    assert after.k == 2
    assert "only 2 tokens" in note


def test_a_drafted_token_with_p_0_is_never_accepted_and_one_with_p_1_always() -> None:
    state = replace(DEFAULT, target=(0.0, 1.0))
    page = render(state)
    assert "✗ reject 1" in page
    sure = replace(DEFAULT, target=(1.0, 0.0), k=2, step=1)
    assert "✓ accept 1" in render(sure)
    misread = replace(DEFAULT, rule="misreading", draft=(1.0, 0.0), k=2, order=(1, 0))
    render(misread)  # a listed token without confidence can't be judged by the misreading: left out


def test_names_are_shown_literally_everywhere() -> None:
    evil = '<img src=x onerror="alert(1)">'
    state = replace(DEFAULT, tokens=(evil[:MAX_NAME], "</script>&lt;"), k=2, reveal=True, draws=100)
    for view in ("experiment", "why", "misreadings"):
        for step in range(4):
            page = render(replace(state, view=view, step=step))
            assert "<img" not in page
            assert "</script>" not in page


def small_tree(tokens: list[int], p: list[float], confidence: list[float]) -> TreeTrace:
    size = len(tokens)
    return TreeTrace(
        root=1,
        parent=[ROOT] * size,
        depth=[1] * size,
        token=tokens,
        confidence=confidence,
        value=confidence,
        p=p,
        status=[Status.NOT_TESTED] * size,
    )


def test_real_distributions_come_over_from_a_node() -> None:
    labels = {5: " the", 9: "<b>"}
    tree = small_tree([9, 5, 7], [0.2, 0.5, 1e-7], [0.4, 0.3, 0.1])
    state = from_node(tree, ROOT, labels)
    assert state.tokens == ("<b>", " the", "#7", REST)
    assert state.target == pytest.approx((0.2, 0.5, 1e-7, 0.2999999))
    assert state.draft == pytest.approx((0.4, 0.3, 0.1, 0.2))
    assert (state.rule, state.k, state.fixed_list()) == ("eagle2", 3, [0, 1, 2])
    assert from_query(to_query(state))[0] == state
    assert len(from_node(small_tree(list(range(20)), [0.01] * 20, [0.01] * 20), ROOT, {}).tokens) == 8
    with pytest.raises(ValueError, match="nothing was drafted"):
        from_node(tree, 0, labels)


def test_a_node_whose_candidate_was_drawn_brings_the_distribution_it_was_drawn_from() -> None:
    first = Trial(
        node=0,
        proposal=0.6,
        accept=1 / 3,
        draw=0.5,
        accepted=False,
        before=Distribution(token=[5, 9], p=[0.5, 0.2], rest=0.3),
        normaliser=0.4,
        sampled_from=SampledFrom(q=[0.3, 0.6], rest_q=0.1, rest_excess=0.2),
    )
    state = from_node(small_tree([9], [0.2], [0.4]), ROOT, {5: " the", 9: "<b>"}, first)
    assert state.rule == "chain"
    assert state.tokens == (" the", "<b>", REST)
    assert state.draft == pytest.approx((0.3, 0.6, 0.1))
    assert state.target == pytest.approx((0.5, 0.2, 0.3))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
DOINGS = st.sampled_from([*_HANDLERS, "nonsense"])
KEYS = st.sampled_from(["v", "i", "which", "column", "lesson", "card", "side", "query"])


@pytest.mark.slow
@budget(max_examples=200, deadline=None)
@given(
    DOINGS,
    st.dictionaries(KEYS, JSON | st.sampled_from(["target", "draft", 0, 1, 8, "next"])),
    st.text(max_size=200),
)
def test_no_action_and_no_query_breaks_the_lab(do: str, rest: dict[str, Any], query: str) -> None:
    reply = lab_act({"query": query, "action": {"do": do, **rest}})
    assert set(reply) == {"html", "query", "why", "room"}
    json.dumps(reply)
    state, notes = from_query(reply["query"])
    assert notes == []
    assert math.isclose(sum(state.target), 1, abs_tol=1e-6)
    assert math.isclose(sum(state.draft), 1, abs_tol=1e-6)


@pytest.mark.parametrize(
    "request_", [None, [], "x", {}, {"action": 3}, {"query": 7, "action": {"do": ["next"]}}]
)
def test_a_malformed_request_is_answered_with_the_lab(request_: Any) -> None:
    assert "lab-page" in lab_act(request_)["html"]


def test_predictions_are_kept_scored_and_hidden_until_made() -> None:
    state = lessons.open_card(2, 1, predict=True)
    page = render(replace(state, reveal=True))
    assert "where is the cut?" in page
    assert "accept .592" not in page
    state, _ = apply(state, {"do": "guess", "side": "accept", "v": ".6"})
    assert state.guesses[0].probability == 0.6
    assert state.guesses[0].true_probability == pytest.approx(0.5918, abs=1e-4)
    bad, note = apply(replace(state, step=1), {"do": "guess", "side": "accept", "v": "seven"})
    assert "not" in note
    assert bad.guesses == state.guesses
    last, _ = apply(replace(state, card=4), {"do": "card", "v": "next"})
    assert last.guesses == state.guesses
    assert "1 of 1 probabilities were within .05" in render(last)
    other, _ = apply(last, {"do": "card", "v": "next"})
    assert other.lesson == 3
    assert other.guesses == ()


def test_scaled_keeps_what_sums_to_one() -> None:
    assert scaled((0.51, 0.49)) == (0.51, 0.49)
    assert sum(scaled((1, 2, 4))) == pytest.approx(1, abs=1e-11)
