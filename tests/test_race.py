"""The race and the width of the tree: meters from recorded times, reasons, figures, hostile text, jobs."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app import race as tab
from app import race_view, width
from app.figures import width as width_figures
from app.figures.race import step_cost
from app.jobs import Said, carry_out
from app.race_view import NAMES
from app.runner import Runner
from eagle import costs as paying
from eagle import race as racing
from eagle import width as widths
from eagle.bench import tokens_per_s
from eagle.methods import DRAFTERS
from eagle.race import Going, Race
from eagle.settings import Method, Settings, SettingsError, Tree
from eagle.text import encode
from eagle.trace import ROOT, Costs, RunTrace, Times
from tests.stubs import audited, info
from tests.tiny import tiny_pair

TREE = Tree(total=8, depth=3, width=3)
SETTINGS = Settings(seed=1, max_new_tokens=12, tree=TREE)
METHODS = (Method.VANILLA, Method.CHAIN, Method.EAGLE2)
COSTS = Costs(
    nodes=[1, 2, 4, 8, 64], pass_ms=[50, 60, 58, 90, 300], level_ms=10.0, typical_confidence=[0.5, 0.2]
)


def items(
    settings: Settings = SETTINGS, methods: tuple[Method, ...] = METHODS, repeats: int = 2
) -> list[Any]:
    pair = tiny_pair()
    return list(
        racing.race(pair, encode(pair.tokenizer, "Hi"), settings, methods, repeats, threading.Event())
    )


def timed(method: Method, times: list[tuple[float, float, float]], tokens: int = 2) -> RunTrace:
    """A run of a method with these times a step, each bringing ``tokens`` tokens."""
    run = audited(tiny_pair(), [1, 2, 3], method=method, tree=TREE, max_new_tokens=4)
    base, step = run.steps[0], run.steps[1]
    emitted = step.emitted.model_copy(
        update={
            name: [getattr(step.emitted, name)[0]] * tokens for name in ("token", "origin", "node", "text")
        }
    )
    steps = [base.model_copy(update={"times": Times(verify_ms=40.0)})]
    steps += [
        step.model_copy(
            update={
                "index": i + 1,
                "emitted": emitted,
                "times": Times(draft_ms=draft, verify_ms=verify, commit_ms=commit),
            }
        )
        for i, (draft, verify, commit) in enumerate(times)
    ]
    return run.model_copy(update={"steps": steps, "target_passes": len(times)})


def slow_race() -> Race:
    """EAGLE-2 brings 2 tokens for 30 + 60 + 10 ms, vanilla 1 for 40; EAGLE-2 loses at .8x."""
    return racing.result(
        {
            Method.VANILLA: [timed(Method.VANILLA, [(0, 38, 2)] * 4, 1)] * 2,
            Method.EAGLE2: [
                timed(Method.EAGLE2, [(30, 60, 10)] * 3),
                timed(Method.EAGLE2, [(20, 40, 20)] * 3),
            ],
        }
    )


def test_every_method_on_offer_can_draft_and_has_a_name() -> None:
    assert set(tab.METHODS) <= set(DRAFTERS)
    assert set(NAMES) == set(Method)


def test_a_race_warms_up_then_takes_turns_with_the_order_rotated() -> None:
    *going, end = items()
    assert isinstance(end, Race) and all(isinstance(one, Going) for one in going)
    assert [one.method for one in going if one.warming] == list(METHODS)
    order = [one.method for one in going if not one.warming]
    assert order == [*METHODS, Method.CHAIN, Method.EAGLE2, Method.VANILLA]
    assert [one.done for one in going if not one.warming] == list(range(6))
    assert end.repeats == 2 and end.same_text and [lane.method for lane in end.lanes] == list(METHODS)


def test_a_stopped_race_has_no_result() -> None:
    stop = threading.Event()
    seen = []
    pair = tiny_pair()
    for one in racing.race(pair, encode(pair.tokenizer, "Hi"), SETTINGS, METHODS, 2, stop):
        seen.append(one)
        if len(seen) == 4:
            stop.set()
    assert not any(isinstance(one, Race) for one in seen) and len(seen) == 4


def test_meters_are_what_the_times_say() -> None:
    race = slow_race()
    vanilla, eagle = race.meters
    assert vanilla.tokens_per_s == 25 and vanilla.tau == 1 and vanilla.overhead == 0 and vanilla.speedup == 1
    assert eagle.tokens_per_s_range == (20, 25) and eagle.speedup_range == (0.8, 1.0)
    assert eagle.tau == 2 and eagle.tokens == 6 and eagle.passes == 3
    assert eagle.speedup == pytest.approx(0.9) and eagle.overhead == pytest.approx(2 / 0.9 - 1, abs=1e-3)
    assert (eagle.draft_ms, eagle.verify_ms, eagle.commit_ms) == (25, 50, 15)
    assert eagle.step_ms == 90 and eagle.break_even_ms == 2 * 40
    assert eagle.prefill_ms == 40, "the prompt's pass is apart"
    assert eagle.elsewhere(0.25) == 1.6
    assert eagle.nodes == 8 and eagle.tokens_read == 9


def test_the_lane_is_the_run_of_median_speed_and_the_sample_is_the_benchs() -> None:
    runs = [timed(Method.EAGLE2, [(1, ms, 1)] * 2) for ms in (9, 30, 3)]
    assert racing.median_run(runs) is runs[0]
    assert racing.median_run(runs[:2]) is runs[1], "of two the slower one"
    assert tokens_per_s([racing.sample_of(runs[0])]) == pytest.approx(runs[0].tokens_per_s)


def test_a_race_without_vanilla_or_without_a_step_says_so() -> None:
    alone = racing.result({Method.EAGLE2: [timed(Method.EAGLE2, [(1, 2, 1)])]})
    assert alone.meters[0].speedup is None and alone.meters[0].break_even_ms is None
    assert "Without vanilla there is no ratio" in race_view.meters(alone)
    assert "no vanilla to compare with" in race_view.lanes(alone, live=True)
    *_, none = items(SETTINGS.model_copy(update={"max_new_tokens": 1}), repeats=1)
    assert none.meters[0].tau is None and "decoded no step" in race_view.meters(none)
    assert step_cost(none).layout.meta["alt"].startswith("No step")


def test_below_one_it_says_why_with_the_measured_numbers() -> None:
    said = race_view.meters(slow_race())
    text = re.sub(r"<[^>]+>", "", said)
    assert "EAGLE-2 is slower here: a step drafts for 25 ms" in text
    assert "read 9 tokens in 50 ms (vanilla reads 1 in 38 ms)" in text
    assert "that costs 1 + ω = 2.22 of vanilla’s steps, but brings only τ = 2 tokens" in text
    assert "Most of the extra time goes into drafting" in text
    assert ".9× (.8–1)" in text and "2 repeats" in text
    assert 'class="ratio slower"' in race_view.lanes(slow_race(), live=True)


def test_another_machine_is_a_labelled_formula() -> None:
    text = re.sub(r"<[^>]+>", "", race_view.elsewhere(slow_race()))
    assert "A formula, not a measurement" in text and "2 / (1 + .13) = 1.77" in text


def test_the_figures_numbers_are_the_meters() -> None:
    race = slow_race()
    figure = step_cost(race)
    bars = {trace.name: list(trace.x) for trace in figure.data}
    assert bars["draft"] == [m.draft_ms for m in race.meters]
    assert bars["verify"] == [m.verify_ms for m in race.meters]
    assert bars["commit"] == [m.commit_ms for m in race.meters]
    assert bars["break even"] == [m.break_even_ms for m in race.meters]


def test_lanes_carry_the_recorded_pace_and_hostile_text_stays_text() -> None:
    run = timed(Method.EAGLE2, [(1, 2.5, 1)])
    emitted = run.steps[1].emitted.model_copy(update={"text": ["<img src=x onerror=alert(1)>", "\"'&lt;"]})
    run = run.model_copy(
        update={
            "steps": [run.steps[0], run.steps[1].model_copy(update={"emitted": emitted})],
            "prompt": run.prompt.model_copy(update={"text": "<b>hi</b>"}),
        }
    )
    page = race_view.lanes(racing.result({Method.EAGLE2: [run]}), live=False)
    assert "<img" not in page and "<b>hi" not in page and "recorded race" in page
    import html

    (data,) = re.findall(r'data-race="([^"]*)"', page)
    (lane,) = json.loads(html.unescape(data))
    used = {origin for step in run.steps for origin in step.emitted.origin}
    assert page.count('class="key-item"') == len(used), "what the lines under the tokens mean"
    assert lane[0][0] == 0, "the clock starts at the first token"
    assert lane[1][0] == 4.5 and lane[1][1][0][0] == "<img src=x onerror=alert(1)>"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"methods": []}, "methods must name at least one"),
        ({"methods": None}, "methods must name at least one"),
        ({"methods": ["eagle9"]}, "methods must name at least one"),
        ({"repeats": 6}, "repeats must be a whole number from 1 to 5"),
        ({"repeats": 1.5}, "repeats must be"),
        ({"repeats": "2"}, "repeats must be"),
        ({"temperature": 3}, "temperature must be a number from 0 to 2"),
        ({"tree": "9/9"}, "tree must be"),
        ({"seed": "-1"}, "seed must be"),
    ],
)
def test_a_bad_wish_is_one_sentence(change: dict[str, Any], words: str) -> None:
    good = {
        "prompt": "Hi",
        "methods": ["vanilla", "eagle2"],
        "repeats": 2,
        "temperature": 0,
        "max_new_tokens": 8,
        "seed": "1",
        "tree": "auto",
    }
    assert tab.entry_from(good).methods == (Method.VANILLA, Method.EAGLE2)
    with pytest.raises(SettingsError, match=words):
        tab.entry_from({**good, **change})


def test_a_race_through_the_runner_and_a_blank_prompt() -> None:
    runner = Runner(lambda say: tiny_pair())
    entry = tab.Entry("Hi", SETTINGS, (Method.VANILLA, Method.EAGLE2), 1)
    *_, end = carry_out(runner, tab.job_of(entry), "me")
    assert isinstance(end, Race)
    *_, said = carry_out(runner, tab.job_of(tab.Entry("  ", SETTINGS, METHODS, 1)), "me")
    assert said == Said("The prompt is empty: write a question or the beginning of a text.", fault=True)


# The width of the tree.


def eagle_run() -> RunTrace:
    return audited(tiny_pair(), [1, 2, 3], tree=Tree(total=6, depth=3, width=3), max_new_tokens=8)


def test_costs_are_read_as_the_automatic_tree_reads_them() -> None:
    from eagle.costs import pass_ms

    assert widths.pass_cost(COSTS).tolist() == pass_ms(COSTS).tolist()


def test_values_of_all_candidates_are_products_along_their_paths() -> None:
    trees = [step.tree for step in eagle_run().steps if step.tree]
    assert any(tree.cut.token for tree in trees)
    for tree in trees:
        value, depth = widths.all_values(tree)
        assert value[: len(tree)] == pytest.approx(tree.value, rel=1e-4)
        assert depth[: len(tree)].tolist() == tree.depth
        for i, parent in enumerate(tree.cut.parent):
            above = 1.0 if parent == ROOT else value[parent]
            assert value[len(tree) + i] == pytest.approx(above * tree.cut.confidence[i])


def test_the_curves_are_reckoned_from_values_and_costs() -> None:
    run = eagle_run()
    found = widths.width(COSTS, run)
    assert found is not None
    trees = [step.tree for step in run.steps if step.tree]
    best_three = sum(1 + sum(sorted(widths.all_values(tree)[0])[-3:]) for tree in trees) / len(trees)
    assert found.tokens[2][3] == pytest.approx(best_three)
    assert found.tokens[0][0] == 1 and found.tokens[0][3] == found.tokens[0][4], "one level has 3 candidates"
    assert found.pass_ms[3] == 60, "never falling"
    assert found.rate[2][3] == pytest.approx(1000 * best_three / (3 * 10 + 60))
    assert found.best_rate == max(max(line) for line in found.rate)
    assert found.rate[found.best_levels - 1][found.best_nodes] == found.best_rate
    assert found.plain_rate == 20 and found.tau == run.tau and found.steps == len(trees)


def test_no_draft_no_width() -> None:
    vanilla = audited(tiny_pair(), [1, 2, 3], method=Method.VANILLA, max_new_tokens=4)
    assert widths.width(COSTS, vanilla) is None and width.from_run(vanilla) is None
    said = width.words(width.Measured(COSTS, None, live=True))
    assert "there is no tree to size" in said


def test_the_width_figures_show_the_measured_costs_and_the_chosen_point() -> None:
    found = widths.width(COSTS, eagle_run())
    assert found is not None
    latency = width_figures.latency(COSTS, found)
    assert list(latency.data[0].x) == COSTS.nodes and list(latency.data[0].y) == COSTS.pass_ms
    for figure, y in (
        (width_figures.expected_tokens(found), found.best_tokens),
        (width_figures.rate(found), found.best_rate),
    ):
        (chosen,) = [trace for trace in figure.data if trace.name == "chosen"]
        assert (list(chosen.x), list(chosen.y)) == ([found.best_nodes], [y])


def test_measuring_gives_costs_and_curves_and_stops(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EAGLE_CACHE", str(tmp_path))
    pair = tiny_pair()
    pair = replace(pair, info=info().model_copy(update={"costs": COSTS}))
    *told, end = width.measuring(pair, threading.Event())
    assert all(isinstance(one, Said) for one in told)
    assert end.width is not None and end.used == COSTS and end.costs.nodes[0] == 1
    assert "measured when the model was loaded" in width.words(end)
    stop = threading.Event()
    stop.set()
    assert all(isinstance(one, Said) for one in width.measuring(pair, stop))
    *_, said = carry_out(Runner(lambda say: replace(tiny_pair(), head=None)), width.measuring, "me")
    assert said.fault and "no draft head" in said.words


@pytest.mark.parametrize(
    ("again", "kept"), [([9.0, 10.0, 11.0, 12.0, 13.0], True), ([9, 10, 3, 12, 13], False)]
)
def test_measuring_again_replaces_what_the_next_start_recalls(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, again: list[float], kept: bool
) -> None:
    monkeypatch.setenv("EAGLE_CACHE", str(tmp_path))
    pair = tiny_pair()
    assert paying.keep(pair, COSTS) and paying.probe(pair) == COSTS
    later = COSTS.model_copy(update={"pass_ms": again})
    monkeypatch.setattr(paying, "measure", lambda _pair: later)
    *_, end = width.measuring(pair, threading.Event())
    assert end.kept == kept and paying.probe(pair) == (later if kept else COSTS)
    assert ("kept for the next start" in width.words(end)) == kept
