"""Traces: byte-identical round trips, strict JSON, versions, and contradictions refused."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from eagle.trace import (
    TRACE_VERSION,
    Cut,
    Distribution,
    Emitted,
    Final,
    Origin,
    PromptTrace,
    RunTrace,
    SampledFrom,
    Status,
    StepTrace,
    Times,
    TreeTrace,
    Trial,
    six,
)
from tests.stub_runs import stub_run

METHODS = ("vanilla", "chain", "eagle1", "eagle2")


def one_run(method: str = "eagle2", **changes: Any) -> RunTrace:
    wanted = {"method": method, "temperature": 0.7, "tree": "8/3/3", "seed": 1, "max_new_tokens": 10}
    return stub_run(**(wanted | changes))


# JSON.


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("temperature", [0, 1.0])
def test_a_round_trip_is_byte_identical(method: str, temperature: float) -> None:
    written = one_run(method, temperature=temperature).to_json()
    read = RunTrace.from_json(written)
    assert read.to_json() == written
    assert RunTrace.from_json(written.encode()).to_json() == written
    assert read.model_copy(update={"checksum": None}) == one_run(method, temperature=temperature)


def test_the_same_seed_writes_the_same_bytes_and_another_does_not() -> None:
    assert one_run().to_json() == one_run().to_json()
    assert one_run().to_json() != one_run(seed=2).to_json()


def test_json_is_strict() -> None:
    def no_constants(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    written = one_run().to_json()
    data = json.loads(written, parse_constant=no_constants)
    assert data["version"] == TRACE_VERSION
    assert all(isinstance(key, str) for step in data["steps"] for key in step["labels"])
    assert all(isinstance(key, int) for step in RunTrace.from_json(written).steps for key in step.labels)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"rest":', '"rest":NaN,"x":'),
        ('"draw":', '"draw":NaN,"x":'),
        ('"temperature":0.7', '"temperature":NaN'),
        ('"temperature":0.7', '"temperature":3'),
        ('"draft_ms":1.0', '"draft_ms":Infinity'),
        ('"draft_ms":1.0', '"draft_ms":-1'),
        ('"version":1', '"version":true'),
        ('"version":1', '"version":"1"'),
        ('"version":1', '"version":1,"unknown":0'),
        ('"target_passes":', '"target_passes":"3","x":'),
        ('"accepted":true', '"accepted":"yes"'),
        ('"accepted":true', '"accepted":1'),
        ('"p":[', '"p":["0.5",'),
        ('"index":1', '"index":1.5'),
        ('"labels":{"', '"labels":{"x'),
        ('"labels":{"', '"labels":{"-'),
        ('"origin":"prompt pass"', '"origin":"somewhere"'),
    ],
)
def test_other_json_is_refused(old: str, new: str) -> None:
    written = one_run().to_json()
    assert old in written
    with pytest.raises(ValidationError):
        RunTrace.from_json(written.replace(old, new, 1))


def test_another_version_is_refused_by_name() -> None:
    written = one_run().to_json().replace('"version":1', '"version":2')
    with pytest.raises(ValidationError, match="this trace has version 2; version 1 can be read"):
        RunTrace.from_json(written)


@given(st.floats(0, 1, exclude_max=True))
def test_draws_are_exact_in_json(draw: float) -> None:
    final = Final(
        token=0,
        origin=Origin.BONUS,
        node=-1,
        draw=draw,
        low=0.0,
        high=1.0,
        drawn_from=Distribution(token=[0], p=[1.0], rest=0.0),
    )
    assert Final.model_validate_json(final.model_dump_json()).draw == draw


@given(st.floats(0, 1))
def test_six_keeps_six_significant_digits(number: float) -> None:
    assert six(number) == pytest.approx(number, rel=5e-6, abs=5e-324)
    assert six(six(number)) == six(number)
    assert 0 <= six(number) <= 1


HOSTILE = [
    "",
    "\0",
    "\u2028",
    '"',
    "\\",
    "</script>",
    "<b>",
    "%{x}",
    "$x$",
    "漢字",
    "😀",
    "\x1b[0m",
    "\ufeff",
]


def test_hostile_text_survives() -> None:
    run = one_run()
    labels = [HOSTILE[token % len(HOSTILE)] for token in run.prompt.token]
    prompt = run.prompt.model_copy(update={"text": "".join(HOSTILE), "labels": labels})
    written = run.model_copy(update={"prompt": prompt}).to_json()
    assert RunTrace.from_json(written).prompt == prompt


# The checksum.


def test_the_checksum_changes_with_the_content_but_not_with_times_or_titles() -> None:
    run = one_run()
    checksum = run.content_checksum()
    step = run.steps[1].model_copy(update={"times": Times(draft_ms=9.0)})
    slower = run.model_copy(update={"steps": [run.steps[0], step, *run.steps[2:]]})
    assert slower.content_checksum() == checksum
    named = run.model_copy(update={"title": "a", "recorded_at": "b", "packages": {"c": "d"}})
    assert named.content_checksum() == checksum
    assert run.model_copy(update={"text": "x"}).content_checksum() != checksum


def test_a_checksum_once_written_is_kept() -> None:
    run = RunTrace.from_json(one_run().to_json())
    assert run.checksum == run.content_checksum()
    assert RunTrace.from_json(run.model_copy(update={"text": "x"}).to_json()).checksum == run.checksum


# What a run says of itself.


def test_tau_speed_and_ids() -> None:
    run = one_run(max_new_tokens=12)
    later = run.steps[1:]
    emitted = sum(len(step.emitted) for step in later)
    assert run.tau == emitted / len(later) > 1
    assert run.decode_ms == pytest.approx(3.5 * len(later))
    assert run.tokens_per_s == pytest.approx(1000 * emitted / run.decode_ms)
    assert len(run.token_ids) == run.new_tokens == emitted + 1
    assert one_run("vanilla").tau == 1


def test_without_a_step_there_is_nothing_to_divide_by() -> None:
    run = one_run(max_new_tokens=1)
    assert (run.target_passes, run.tau, run.tokens_per_s, run.decode_ms) == (0, None, None, 0)


def test_a_run_without_time_has_no_speed() -> None:
    run = one_run()
    timeless = [step.model_copy(update={"times": Times()}) for step in run.steps]
    assert run.model_copy(update={"steps": timeless}).tokens_per_s is None


def test_labels_cover_every_token() -> None:
    run = one_run()
    found = run.labels()
    for step in run.steps:
        assert set(step.emitted.token) <= found.keys()
        assert step.tree is None or {*step.tree.token, *step.tree.cut.token} <= found.keys()


# Records that would contradict themselves are refused.

TREE: dict[str, Any] = {
    "root": 1,
    "parent": [-1, -1, 0],
    "depth": [1, 1, 2],
    "token": [4, 5, 6],
    "confidence": [0.5, 0.3, 0.2],
    "value": [0.5, 0.3, 0.1],
    "p": [0.4, 0.3, 0.2],
    "status": [Status.ACCEPTED, Status.NOT_TESTED, Status.REJECTED],
}


def test_children_and_paths() -> None:
    tree = TreeTrace(**TREE)
    assert len(tree) == 3
    assert (tree.children(-1), tree.children(0), tree.children(2)) == ([0, 1], [2], [])
    assert (tree.path(2), tree.path(1), tree.path(-1)) == ([0, 2], [1], [])


@pytest.mark.parametrize("column", ["parent", "depth", "token", "confidence", "value", "p", "status"])
def test_a_trees_columns_have_one_length(column: str) -> None:
    for values in (TREE[column][:-1], [*TREE[column], TREE[column][-1]]):
        with pytest.raises(ValidationError, match="columns of the tree differ in length"):
            TreeTrace(**(TREE | {column: values}))


@pytest.mark.parametrize("parents", [[0, -1, 0], [-1, 2, 0], [-1, -1, 2], [-2, -1, 0]])
def test_parents_come_before_their_children(parents: list[int]) -> None:
    with pytest.raises(ValidationError):
        TreeTrace(**(TREE | {"parent": parents}))


def test_cut_candidates_are_checked_too() -> None:
    with pytest.raises(ValidationError, match="cut candidates differ in length"):
        Cut(parent=[0], token=[1, 2], confidence=[0.1])
    TreeTrace(**TREE, cut=Cut(parent=[2, 3], token=[1, 2], confidence=[0.1, 0.1]))
    with pytest.raises(ValidationError, match="cut candidate's parent must come before it"):
        TreeTrace(**TREE, cut=Cut(parent=[2, 4], token=[1, 2], confidence=[0.1, 0.1]))


def test_other_columns_have_one_length_too() -> None:
    with pytest.raises(ValidationError, match="2 tokens but 1 probabilities"):
        Distribution(token=[1, 2], p=[0.5], rest=0.5)
    with pytest.raises(ValidationError, match="emitted tokens differ in length"):
        Emitted(token=[1], origin=[Origin.BONUS], node=[-1], text=[])
    with pytest.raises(ValidationError, match="2 tokens but 1 labels"):
        PromptTrace(text="", token=[1, 2], labels=["a"], chat=False)
    before = Distribution(token=[1], p=[0.5], rest=0.5)
    with pytest.raises(ValidationError, match="1 tokens but 2 proposal probabilities"):
        Trial(
            node=0,
            proposal=0.5,
            accept=1.0,
            draw=0.1,
            accepted=True,
            before=before,
            normaliser=0.5,
            sampled_from=SampledFrom(q=[0.5, 0.5], rest_q=0.0, rest_excess=0.0),
        )


def test_a_step_names_only_nodes_that_exist() -> None:
    step = one_run().steps[1]
    assert step.tree is not None
    nodes = len(step.tree)
    for changes in (
        {"trials": [trial.model_copy(update={"node": nodes}) for trial in step.trials]},
        {"emitted": step.emitted.model_copy(update={"node": [nodes] * len(step.emitted)})},
        {"tree": None},
    ):
        with pytest.raises(ValidationError, match="names node"):
            StepTrace.model_validate(step.model_copy(update=changes).model_dump())


@settings(max_examples=60)
@given(st.sampled_from([math.nan, math.inf, -1e-9, 1.0000001]))
def test_probabilities_are_probabilities(value: float) -> None:
    with pytest.raises(ValidationError):
        Distribution(token=[1], p=[value], rest=0.0)
    with pytest.raises(ValidationError):
        Distribution(token=[1], p=[1.0], rest=value)


def test_records_are_frozen() -> None:
    run = one_run()
    with pytest.raises(ValidationError):
        run.text = "x"  # type: ignore[misc]
