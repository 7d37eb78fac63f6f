"""A node's siblings in the rule lab are the trace's numbers, and a refusal is one sentence on the button."""

from __future__ import annotations

import pytest

from app import to_lab
from app.lab_state import MAX_TOKENS
from app.node_panel import node_panel
from app.session import FINAL, opening, step_of
from eagle.settings import Method
from eagle.trace import ROOT, RunTrace, StepTrace
from tests.stub_runs import stub_run
from tests.synthetic import HOSTILE, synthetic_run

RUN = synthetic_run(seed=3, steps=14, mix=0.7)
HOSTILE_RUN = synthetic_run(seed=5, steps=8, labels=HOSTILE)


@pytest.mark.parametrize("run", [RUN, HOSTILE_RUN, synthetic_run(seed=4, steps=2, tree="60/6/10")])
def test_every_guess_brings_its_siblings_p_and_confidence(run: RunTrace) -> None:
    for step in run.steps:
        for node in range(len(step.tree) if step.tree else 0):
            tree = step.tree
            assert tree is not None
            state = to_lab.lab_state(run, step, node)
            assert state is not None
            siblings = tree.children(tree.parent[node])[: MAX_TOKENS - 1]
            assert state.rule == "eagle2"
            assert state.target[:-1] == pytest.approx([tree.p[n] for n in siblings], abs=1e-5)
            assert state.draft[:-1] == pytest.approx([tree.confidence[n] for n in siblings], abs=1e-5)
            assert state.order == tuple(range(len(siblings)))


def button(run: RunTrace, step: StepTrace, node: int) -> str:
    panel = node_panel(run, step, run.labels(), node)
    return panel[panel.index('data-act="lab"') :]


def test_the_button_is_off_with_its_reason_where_there_is_nothing_to_take() -> None:
    step = step_of(RUN, opening(RUN))
    assert "disabled" not in button(RUN, step, 0).split(">")[0]
    for step_, node, reason in (
        (step, ROOT, to_lab.NOT_A_GUESS),
        (RUN.steps[0], FINAL, to_lab.NO_TREE),
        (RUN.steps[0], ROOT, to_lab.NO_TREE),
    ):
        assert "disabled" in button(RUN, step_, node).split(">")[0]
        assert reason in button(RUN, step_, node)
        assert to_lab.lab_state(RUN, step_, node) is None


def test_the_targets_own_token_brings_the_guesses_that_were_rejected_beside_it() -> None:
    seen = set()
    chain = synthetic_run(seed=12, steps=12, tree="1/1/1", mix=3.0)
    for run, step in [(owner, step) for owner in (RUN, chain) for step in owner.steps[1:]]:
        assert step.tree is not None
        if step.final is None:
            continue
        drafted = bool(step.tree.children(step.final.node))
        seen.add(drafted)
        assert (to_lab.lab_state(run, step, FINAL) is not None) == drafted
        assert (to_lab.why_not(step, FINAL) == to_lab.NOTHING_THERE) == (not drafted)
    assert seen == {True, False}


@pytest.mark.parametrize(("method", "rule"), [(Method.CHAIN, "chain"), (Method.EAGLE1, "eagle1")])
def test_sampled_guesses_bring_what_they_were_drawn_from_where_it_is_recorded(
    method: Method, rule: str
) -> None:
    run = stub_run(method=method, temperature=1.0, max_new_tokens=60, seed=2)
    taken = refused = 0
    for step in run.steps[1:]:
        for node in range(len(step.tree) if step.tree else 0):
            assert step.tree is not None
            state = to_lab.lab_state(run, step, node)
            if state is None:
                refused += 1
                assert to_lab.why_not(step, node) == to_lab.NOT_RECORDED
                continue
            taken += 1
            trial = to_lab.first_trial(step, step.tree.parent[node])
            assert trial is not None
            assert trial.sampled_from is not None
            assert state.draft[0] == pytest.approx(trial.sampled_from.q[0], abs=1e-5)
            assert state.rule in (rule, "chain")
    assert taken
    assert refused
