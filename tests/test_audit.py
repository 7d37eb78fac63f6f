"""The auditor passes every sound run and finds every change beyond rounding."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from eagle import rules
from eagle.audit import audit, audit_file, first_fault
from eagle.audit.finding import near, rounding
from eagle.trace import Finish, Origin, RunTrace, Status, six
from tests import stub_runs
from tests.stub_runs import END, stub_run

METHODS = ("vanilla", "chain", "eagle1", "eagle2", "eagle3")
PATHS = tuple[Any, ...]


def sentences(run: RunTrace) -> list[str]:
    return [finding.sentence for finding in audit(run)]


# Sound runs pass.


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("temperature", [0, 1e-4, 0.7, 2])
def test_sound_runs_pass(method: str, temperature: float) -> None:
    shapes = [("60/6/10", 25), ("8/4/4", 2), ("1/1/1", 12), ("60/2/2", 1), ("256/3/32", 7)]
    for seed, (tree, limit) in enumerate(shapes):
        run = stub_run(
            seed, method=method, temperature=temperature, tree=tree, seed=seed, max_new_tokens=limit
        )
        assert sentences(run) == []
        assert sentences(RunTrace.from_json(run.to_json())) == []


def test_the_stub_runs_reach_every_outcome() -> None:
    """Otherwise the tests above would pass on less than they say."""
    runs = [
        stub_run(s, method=m, temperature=1, tree="8/3/3", seed=s, max_new_tokens=25)
        for s in range(4)
        for m in METHODS
    ]
    steps = [step for run in runs for step in run.steps]
    assert {run.finish for run in runs} == {Finish.LENGTH, Finish.END_TOKEN}
    assert {origin for step in steps for origin in step.emitted.origin} == set(Origin)
    assert {status for step in steps if step.tree for status in step.tree.status} == set(Status)
    assert any(step.final is None for step in steps)
    assert any(sum(not t.accepted for t in step.trials) > 1 for step in steps)
    second = [
        t for step in steps for a, t in zip(step.trials, step.trials[1:], strict=False) if not a.accepted
    ]
    assert any(t.accepted for t in second), "a rejection followed by an accepted sibling"
    assert any(t.sampled_from for t in second)


def test_a_stopped_run_passes() -> None:
    run = stub_run(method="eagle2", temperature=0.7, tree="8/3/3", seed=1, max_new_tokens=20)
    steps = run.steps[:2]
    stopped = run.model_copy(
        update={
            "steps": steps,
            "finish": Finish.STOPPED,
            "text": "".join(piece for step in steps for piece in step.emitted.text),
            "new_tokens": sum(len(step.emitted) for step in steps),
            "target_passes": 1,
        }
    )
    assert sentences(stopped) == []
    never_begun = stopped.model_copy(update={"steps": [], "text": "", "new_tokens": 0, "target_passes": 0})
    assert sentences(never_begun) == []


def test_times_versions_hashes_and_titles_are_not_the_auditors_business() -> None:
    run = RunTrace.from_json(small_run("eagle2", 0.7).to_json())
    step = run.steps[1].model_copy(update={"times": run.steps[0].times})
    target = run.pair.target.model_copy(update={"hash": "0" * 64})
    changed = run.model_copy(
        update={
            "steps": [run.steps[0], step, *run.steps[2:]],
            "pair": run.pair.model_copy(update={"target": target}),
            "packages": {"python": "3"},
            "title": "another",
            "recorded_at": "a day",
        }
    )
    assert sentences(changed) == []


# One changed leaf at a time.


def small_run(method: str, temperature: float) -> RunTrace:
    tree = "5/2/3" if method in ("eagle2", "eagle3") else "4/3/2"
    return stub_run(method=method, temperature=temperature, tree=tree, seed=5, max_new_tokens=6)


def leaves(value: Any, path: PATHS = ()) -> Iterator[tuple[PATHS, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from leaves(inner, (*path, index))
    else:
        yield path, value


def changed(value: Any, index: int) -> Any:
    """Another value of the same kind; numbers move by a thousandth, up and down in turn."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1 if index % 2 else max(0, value - 1) if value else 1
    if isinstance(value, float):
        return (value * (0.999 if index % 2 or value > 0.99 else 1.001)) if value else 1e-3
    return value + "x"


def replaced(data: dict[str, Any], path: PATHS, value: Any) -> dict[str, Any]:
    data = copy.deepcopy(data)
    inner: Any = data
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return data


def field_of(path: PATHS) -> str:
    names = [str(key) for key in path if not isinstance(key, int)]
    if "labels" in names:
        names = names[: names.index("labels") + 1]
    return ".".join(names)


# Nothing else in a run depends on these, so only the checksum can tell.
SEALED_ONLY = {
    "prompt.text": "as typed",
    "prompt.token": "the target's tables are not recorded",
    "prompt.labels": "a token's text is not derivable",
    "prompt.chat": "as chosen",
    "steps.labels": "a token's text is not derivable",
    "steps.tree.token": "where neither it nor a sibling was tested",
    "steps.tree.p": "where neither it nor a sibling was tested",
    "steps.tree.cut.token": "cut candidates have no second record",
    "steps.tree.cut.confidence": "cut candidates have no second record",
    "steps.trials.before.token": "a bystander's id in all records of a node at once",
    "steps.final.drawn_from.token": "a bystander's id where the draw was the node's only record",
    "pair.target.name": "as loaded",
    "pair.target.dtype": "as loaded",
    "pair.target.weights": "as loaded",
    "pair.target.device": "as loaded",
    "pair.target.parameters": "as loaded",
}
EXCEPTED = ("times", "version", "packages", "checksum")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "temperature"),
    [("vanilla", 0.7), ("chain", 1.0), ("chain", 0), ("eagle1", 1.0), ("eagle2", 1.0), ("eagle2", 0)],
)
def test_every_changed_leaf_is_found(method: str, temperature: float) -> None:
    """By derivation where anything depends on it, else by the checksum."""
    sealed = json.loads(small_run(method, temperature).to_json())
    plain = {key: value for key, value in sealed.items() if key != "checksum"}
    count = 0
    for index, (path, value) in enumerate(leaves(plain)):
        if any(name in path for name in EXCEPTED) or path[0] == "settings":
            continue
        count += 1
        text = json.dumps(replaced(plain, path, changed(value, index)))
        if found_without_checksum(text):
            continue
        assert field_of(path) in SEALED_ONLY, f"{path}: {value} -> {changed(value, index)}"
        text = json.dumps(replaced(sealed, path, changed(value, index)))
        assert "checksum" in audit(RunTrace.from_json(text))[0].sentence, path
    assert count > 100


def found_without_checksum(text: str) -> bool:
    try:
        return first_fault(RunTrace.from_json(text)) is not None
    except ValidationError:
        return True


def test_every_changed_setting_is_found() -> None:
    sealed = json.loads(small_run("eagle2", 1.0).to_json())
    changes = {
        "temperature": 0.9,
        "top_p": 0.5,
        "top_k": 3,
        "seed": 6,
        "max_new_tokens": 7,
        "method": "chain",
    }
    for name, value in changes.items():
        run = RunTrace.from_json(json.dumps(replaced(sealed, ("settings", name), value)))
        assert audit(run), name


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_any_number_moved_beyond_rounding_is_found(data: st.DataObject) -> None:
    """Probabilities of trials, any size of change down to ten times a half digit of the sum."""
    content = json.loads(HYPOTHESIS_RUN.to_json())
    steps = [s for s in content["steps"] if s["trials"]]
    trial = data.draw(st.sampled_from([t for s in steps for t in s["trials"]]))
    field = data.draw(st.sampled_from(["accept", "draw", "normaliser", "before"]))
    moved = data.draw(st.floats(1e-5, 0.5)) * data.draw(st.sampled_from([-1, 1]))
    if field == "before":
        index = data.draw(st.integers(0, len(trial["before"]["p"]) - 1))
        target, key = trial["before"]["p"], index
    else:
        target, key = trial, field
    target[key] = min(1.0 - 2**-53, max(0.0, target[key] + moved))
    if abs(moved) > 1e-5 and json.dumps(content) != HYPOTHESIS_RUN.to_json():
        content.pop("checksum")
        unchanged = near(target[key], 0.0, 0.0) or near(target[key], 1.0, 1e-9)  # clipped to where it was
        assert found_without_checksum(json.dumps(content)) or unchanged


HYPOTHESIS_RUN = stub_run(method="eagle2", temperature=1.0, tree="8/3/3", seed=3, max_new_tokens=8)
HOSTILE = [None, -1, 0, 1, 2**31, 2**70, 0.5, 1.0, 1e-320, -0.0, "", "x", [], {}, True]


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(HOSTILE), st.booleans())
def test_hostile_content_never_raises_anything_but_a_validation_error(
    where: int, value: Any, drop: bool
) -> None:
    content = json.loads(HYPOTHESIS_RUN.to_json())
    paths = [path for path, _ in leaves(content)]
    path = paths[where % len(paths)]
    inner: Any = content
    for key in path[:-1]:
        inner = inner[key]
    if drop and isinstance(inner, list):
        inner.pop()
    else:
        inner[path[-1]] = value
    try:
        run = RunTrace.from_json(json.dumps(content))
    except ValidationError:
        return
    for finding in audit(run):
        assert finding.sentence.endswith(".")


@pytest.mark.parametrize("value", [2**31, 2**70])
def test_no_giant_number_keeps_the_auditor_busy(value: int) -> None:
    """In each field once: refused at once, or audited in about the time that a sound run takes."""
    content = json.loads(HYPOTHESIS_RUN.to_json())
    content.pop("checksum")
    fields = {tuple(key for key in path if isinstance(key, str)): path for path, _ in leaves(content)}
    started = perf_counter()
    audit(HYPOTHESIS_RUN)
    patience = 20 * (perf_counter() - started) + 1
    for path in fields.values():
        started = perf_counter()
        with contextlib.suppress(ValidationError):
            audit(RunTrace.from_json(json.dumps(replaced(content, path, value))))
        assert perf_counter() - started < patience, path


# Faults by name.


def edit(run: RunTrace, path: PATHS, value: Any) -> RunTrace:
    data = {k: v for k, v in json.loads(run.to_json()).items() if k != "checksum"}
    return RunTrace.from_json(json.dumps(replaced(data, path, value)))


def step_with(run: RunTrace, **wanted: Any) -> int:
    """The first step that has a rejection (and, by choice, ends in a residual draw)."""
    for step in run.steps:
        rejected = any(not trial.accepted for trial in step.trials)
        if rejected and (not wanted or (step.final and step.final.origin is wanted["origin"])):
            return step.index
    raise AssertionError("no such step")


def test_findings_say_where_and_what() -> None:
    run = stub_run(method="eagle2", temperature=1.0, tree="8/3/3", seed=3, max_new_tokens=12)
    index = step_with(run)
    trial = run.steps[index].trials[0]
    altered = edit(run, ("steps", index, "trials", 0, "accepted"), not trial.accepted)
    finding = next(f for f in audit(altered) if f.what == "the verdict")
    assert (finding.step, finding.where) == (index, f"trial 1 (node {trial.node})")
    assert finding.found != finding.expected.split()[0]
    assert finding.sentence.startswith(f"Step {index}, trial 1 (node {trial.node}): the verdict should be ")
    assert first_fault(altered) == audit(altered)[0]


@pytest.mark.parametrize(
    ("path", "value", "fragment"),
    [
        (("new_tokens",), 99, "new_tokens"),
        (("target_passes",), 1, "target_passes"),
        (("text",), "nothing", "the text"),
        (("finish",), "stopped", "the finish"),
        (("seed",), 4, "the seed"),
        (("steps", 1, "context"), 1, "the tokens before it"),
        (("steps", 1, "tree", "root"), 1, "the last one emitted"),
        (("steps", 1, "tree", "status", 0), "not tested", "the status"),
        (("steps", 1, "tree", "confidence", 0), 0.5, "the value"),
        (("steps", 1, "tree", "depth", 0), 2, "the depth"),
        (("steps", 1, "emitted", "origin", 0), "prompt pass", "their origins"),
        (("steps", 0, "final", "draw"), 0.123, "draw"),
        (("steps", 0, "final", "drawn_from", "rest"), 0.9, "the sum of the distribution"),
        (("steps", 0, "labels"), {}, "the text of token"),
        (("steps", 1, "tree", "draft_draw"), [0.5], "the draft's draws"),
        (("steps", 1, "tree", "cut", "confidence", 0), 0.97, "its earlier sibling"),
    ],
)
def test_named_faults(path: PATHS, value: Any, fragment: str) -> None:
    run = stub_run(method="eagle2", temperature=1.0, tree="8/3/3", seed=3, max_new_tokens=12)
    found = sentences(edit(run, path, value))
    assert any(fragment in sentence for sentence in found), found


def test_a_valuable_candidate_that_was_cut_is_found() -> None:
    run = stub_run(method="eagle2", temperature=1.0, tree="4/3/3", seed=3, max_new_tokens=12)
    tree = run.steps[1].tree
    assert tree is not None
    child = next(i for i, parent in enumerate(tree.cut.parent) if 0 <= parent < len(tree))
    altered = edit(run, ("steps", 1, "tree", "cut", "confidence", child), 0.999)
    assert any("cut candidate" in s and "least kept" in s for s in sentences(altered))


def test_the_misreading_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that divides by the confidence, however it is recorded, does not pass."""

    def biased(p: rules.Array, offered: list[rules.Candidate], draw: rules.Draw) -> rules.Verdict:
        if not offered:
            return true_judge(p, offered, draw)
        confidences = np.full_like(p, 0.01)
        confidences[[c.token for c in offered]] = 0.3
        tokens = [c.token for c in offered]
        return true_judge(p, rules.without_replacement(tokens, confidences / confidences.sum()), draw)

    true_judge = rules.judge
    monkeypatch.setattr(stub_runs.rules, "judge", biased)
    run = stub_run(method="eagle2", temperature=1.0, tree="8/3/3", seed=3, max_new_tokens=12)
    assert any("this draft is a fixed list" in s for s in sentences(run))
    data = json.loads(run.to_json())
    for step in data["steps"]:
        for trial in step["trials"]:
            trial.pop("sampled_from")
            trial["proposal"] = 1.0
    data.pop("checksum")
    assert any("the accept probability" in s for s in sentences(RunTrace.from_json(json.dumps(data))))


def test_a_residual_that_was_not_renormalised_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second sibling tested against its first p, a fault that software has had."""
    run = stub_run(method="eagle2", temperature=1.0, tree="8/3/3", seed=3, max_new_tokens=12)
    index = step_with(run)
    first, second = run.steps[index].trials[:2]
    stale = dict(zip(first.before.token, first.before.p, strict=True))
    altered = edit(run, ("steps", index, "trials", 1, "before", "p"), [stale[t] for t in second.before.token])
    assert any("p before the trial" in s for s in sentences(altered))


def test_tokens_after_an_end_token_are_found() -> None:
    seed = next(
        s
        for s in range(50)
        if stub_run(method="eagle2", temperature=1.0, seed=s, max_new_tokens=40).finish is Finish.END_TOKEN
    )
    run = stub_run(method="eagle2", temperature=1.0, seed=seed, max_new_tokens=40)
    last = len(run.steps) - 1
    emitted = json.loads(run.to_json())["steps"][last]["emitted"]
    assert emitted["token"][-1] == END
    longer = {k: [*v, v[-1]] for k, v in emitted.items()}
    assert any("the accepted path" in s for s in sentences(edit(run, ("steps", last, "emitted"), longer)))
    assert any("the end token" in s for s in sentences(edit(run, ("steps", last, "emitted"), longer)))


def test_draws_that_are_not_the_seeds_are_found() -> None:
    """Every interval still holds its draw; only the sequence tells."""
    run = stub_run(method="vanilla", temperature=0, seed=3, max_new_tokens=5)
    altered = edit(run, ("steps", 2, "final", "draw"), 0.25)
    assert [f.what for f in audit(altered)] == ["the draw"]


def test_rounding_is_half_of_the_sixth_digit() -> None:
    rng = np.random.default_rng(0)
    for number in [*rng.random(2000).tolist(), 1.0, 0.1, 9.999995e-7, 1e-300]:
        assert abs(six(number) - number) <= rounding(number)
        assert rounding(number) <= 5.1e-6 * number
    assert rounding(0.0) == 0


# The command.


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "trace.json"
    path.write_text(HYPOTHESIS_RUN.to_json())
    return path


def test_audit_file_says_ok(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit_file(written) == 0
    steps, trials = len(HYPOTHESIS_RUN.steps), sum(len(s.trials) for s in HYPOTHESIS_RUN.steps)
    assert capsys.readouterr().out == f"ok: {steps} steps, {trials} trials\n"


def test_audit_file_prints_the_first_fault(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(written.read_text())
    data["new_tokens"] += 1
    written.write_text(json.dumps(data))
    assert audit_file(written) == 1
    out = capsys.readouterr().out
    assert out.startswith("fault: Run: new_tokens should be 8, but is 9.")
    assert out.count("\n") == 1


def test_files_that_are_no_trace_get_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = HYPOTHESIS_RUN.to_json()
    unsealed = {k: v for k, v in json.loads(good).items() if k != "checksum"}
    contents = {
        "empty": "",
        "cut short": good[: len(good) // 2],
        "another json": "[1, 2]",
        "NaN": good.replace('"rest":', '"rest":NaN,"x":', 1),
        "another version": good.replace('"version":1', '"version":2'),
        "unknown field": good.replace('"version":1', '"version":1,"extra":0'),
        "no checksum": json.dumps(unsealed),
        "a hostile string": json.dumps({"version": "<script>" * 100}),
        "too large": " " * (20 * 2**20 + 1),
    }
    for name, content in contents.items():
        path = tmp_path / "bad.json"
        path.write_text(content)
        assert audit_file(path) == 2, name
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.count("\n") == 1, name
        assert len(printed.err) < 400, name
    (tmp_path / "bytes").write_bytes(bytes(range(256)))
    for missing in (tmp_path / "bytes", tmp_path / "absent.json", tmp_path, "nul\0byte"):
        assert audit_file(missing) == 2
        assert capsys.readouterr().err.count("\n") == 1
