"""What is selected: every event gives a look that exists, and the first one tells the story."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.session import (
    FINAL,
    Look,
    View,
    act,
    drawn_order,
    from_query,
    kept,
    newest,
    opening,
    step_of,
    story_length,
    telling_node,
    walk,
)
from eagle.trace import ROOT, RunTrace, Status
from tests.synthetic import synthetic_run

RUN = synthetic_run(seed=3, steps=14, mix=0.7)


def is_possible(run: RunTrace, look: Look) -> bool:
    step = run.steps[look.step]
    nodes = range(len(step.tree)) if step.tree is not None else range(0)
    known = look.node is None or look.node in (ROOT, FINAL) or look.node in nodes
    return known and (look.shown is None or 0 <= look.shown <= story_length(step, look.view))


def test_a_run_opens_at_a_guess_accepted_after_a_rejected_sibling() -> None:
    look = opening(RUN)
    tree = step_of(RUN, look).tree
    assert tree is not None
    assert look.node is not None
    assert tree.status[look.node] is Status.ACCEPTED
    siblings = tree.children(tree.parent[look.node])
    assert any(tree.status[sibling] is Status.REJECTED for sibling in siblings)
    earlier = RUN.steps[: look.step]
    assert all(_no_rescue(run_step) for run_step in earlier)


def _no_rescue(step: Any) -> bool:
    if step.tree is None:
        return True
    gone = {step.tree.parent[t.node] for t in step.trials if not t.accepted}
    return not any(t.accepted and step.tree.parent[t.node] in gone for t in step.trials)


def test_a_run_without_any_rescue_opens_at_its_first_drafted_step() -> None:
    alone = RUN.model_copy(update={"steps": RUN.steps[:2]})
    assert _no_rescue(RUN.steps[1])
    assert opening(alone).step == 1
    only_prompt = RUN.model_copy(update={"steps": RUN.steps[:1]})
    assert opening(only_prompt) == Look(step=0, node=FINAL)


def test_stepping_stays_inside_the_run_and_tells_the_new_step_in_full() -> None:
    look = Look(step=3, shown=1)
    assert act(RUN, look, {"act": "by", "by": 1}).step == 4
    assert act(RUN, look, {"act": "by", "by": 1}).shown is None
    assert act(RUN, Look(step=0), {"act": "by", "by": -1}).step == 0
    assert act(RUN, Look(step=14), {"act": "by", "by": 1}).step == 14
    assert act(RUN, look, {"act": "step", "step": 999}).step == 14
    assert act(RUN, look, {"act": "step", "step": "5"}).step == 5


def test_the_view_changes_and_the_selection_stays() -> None:
    look = act(RUN, opening(RUN), {"act": "view", "view": "draft"})
    assert look.view is View.DRAFT
    assert look.node == opening(RUN).node


def test_arrow_keys_walk_to_parent_child_and_neighbours() -> None:
    look = opening(RUN)
    tree = step_of(RUN, look).tree
    assert tree is not None
    assert look.node is not None
    left = act(RUN, look, {"act": "key", "key": "ArrowLeft"})
    assert left.node == tree.parent[look.node]
    assert act(RUN, left, {"act": "key", "key": "ArrowRight"}).node == look.node, "back to the accepted child"
    down = act(RUN, look, {"act": "key", "key": "ArrowDown"})
    assert down.node is not None
    assert act(RUN, down, {"act": "key", "key": "ArrowUp"}).node == look.node
    assert act(RUN, look, {"act": "key", "key": "Home"}).node == ROOT
    assert act(RUN, look, {"act": "key", "key": "End"}).node == FINAL


def test_every_node_can_be_reached_with_the_arrow_keys() -> None:
    for index, step in enumerate(RUN.steps):
        if step.tree is None:
            continue
        seen, waiting = set(), [Look(step=index, node=ROOT)]
        while waiting:
            look = waiting.pop()
            if look.node in seen:
                continue
            seen.add(look.node)
            waiting += [
                act(RUN, look, {"act": "key", "key": f"Arrow{way}"})
                for way in ("Left", "Right", "Up", "Down")
            ]
        assert seen == {ROOT, *drawn_order(step.tree, step)}


def test_the_story_goes_trial_by_trial_and_ends_in_full() -> None:
    look = opening(RUN)
    step = step_of(RUN, look)
    told = act(RUN, look, {"act": "story", "by": 1})
    for count, trial in enumerate(step.trials, start=1):
        assert (told.shown, told.node) == (count, trial.node)
        told = act(RUN, told, {"act": "story", "by": 1})
    assert told.shown is None
    assert act(RUN, told, {"act": "story", "by": -1}).shown == len(step.trials) - 1
    assert act(RUN, Look(step=look.step, shown=1), {"act": "story", "by": 0}).shown is None


def test_the_draft_is_told_level_by_level() -> None:
    look = act(RUN, opening(RUN), {"act": "view", "view": "draft"})
    step = step_of(RUN, look)
    assert step.tree is not None
    shown = []
    for _ in range(max(step.tree.depth)):
        look = act(RUN, look, {"act": "story", "by": 1})
        shown.append(look.shown)
    assert shown == [*range(1, max(step.tree.depth)), None]


def test_following_a_live_run_shows_its_newest_step_until_one_is_chosen() -> None:
    look = newest(RUN, Look(follow=True))
    assert (look.step, look.follow) == (14, True)
    assert not act(RUN, look, {"act": "by", "by": -1}).follow


def test_a_telling_node_exists_in_every_step() -> None:
    for index, step in enumerate(RUN.steps):
        assert is_possible(RUN, Look(step=index, node=telling_node(step)))


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"step": "4"}, (4, View.VERIFY)),
        ({"step": "4", "view": "outcome"}, (4, View.OUTCOME)),
        ({"step": "-3"}, (0, View.VERIFY)),
        ({"step": "x", "view": "<b>"}, (opening(RUN).step, View.VERIFY)),
        ({"step": "1e9"}, (opening(RUN).step, View.VERIFY)),
    ],
)
def test_a_link_falls_back_where_it_names_nothing(asked: dict[str, str], expected: tuple[int, View]) -> None:
    look = from_query(RUN, asked)
    assert (look.step, look.view) == expected


EVENTS = st.fixed_dictionaries(
    {"act": st.sampled_from(["step", "by", "node", "view", "story", "key", "cut", "other", None])},
    optional={
        name: st.one_of(st.none(), st.integers(), st.floats(), st.text(max_size=9), st.booleans())
        for name in ("step", "by", "node", "view", "key")
    },
)


@settings(max_examples=300)
@given(st.lists(EVENTS, max_size=6))
def test_no_event_leads_outside_the_run(events: list[dict[str, Any]]) -> None:
    look = opening(RUN)
    for event in events:
        look = act(RUN, look, event)
        assert is_possible(RUN, look)


def test_where_the_tree_grows_down_the_arrow_keys_turn_with_it() -> None:
    look = opening(RUN)
    turned = {
        "ArrowUp": "ArrowLeft",
        "ArrowLeft": "ArrowUp",
        "ArrowDown": "ArrowRight",
        "ArrowRight": "ArrowDown",
    }
    for key, same in {**turned, "Home": "Home", "End": "End"}.items():
        assert walk(RUN, replace(look, narrow=True), key) == replace(walk(RUN, look, same), narrow=True)


def test_the_scale_and_the_screens_width_are_ways_to_show_the_same() -> None:
    look = opening(RUN)
    assert act(RUN, look, {"act": "log"}) == replace(look, log=True)
    assert act(RUN, replace(look, log=True), {"act": "log"}) == look
    for narrow in (True, "true"):
        assert act(RUN, look, {"act": "screen", "narrow": narrow}) == replace(look, narrow=True)
    for wide in (False, "false", None, 1, "<b>"):
        assert act(RUN, replace(look, narrow=True), {"act": "screen", "narrow": wide}) == look
    assert kept(Look(step=3, log=True, narrow=True), look) == replace(look, log=True, narrow=True)
