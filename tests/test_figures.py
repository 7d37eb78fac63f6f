"""The figures' data is the trace's: counts, statuses, labels and numbers, and what building them costs."""

from __future__ import annotations

import html
import json
import re
import time
from itertools import pairwise
from typing import Any

import pytest

from app import theme
from app.figures.candidates import SHOWN, candidates, cut_columns
from app.figures.layout import place, place_packed
from app.figures.overview import calibration, lengths, levels
from app.figures.residual import REST, Scale, filmstrip, frames, log_start, lowest, parent_of
from app.figures.steps import step_bar
from app.figures.tree import draft_tree
from app.labels import plotly_token
from app.overview import overview
from app.plotly_view import figure_from_value, figure_value
from app.session import FINAL, Look, View, opening, step_of
from app.theme import three_digits
from eagle.trace import ROOT, Origin, RunTrace, Status, StepTrace
from tests.synthetic import HOSTILE, synthetic_run

RUN = synthetic_run(seed=3, steps=14, mix=0.7)
PAPER = synthetic_run(seed=4, steps=3, tree="60/6/10")
HOSTILE_RUN = synthetic_run(seed=5, steps=8, labels=HOSTILE)
RUNS = [RUN, PAPER, HOSTILE_RUN, synthetic_run(seed=6, steps=5, tree="1/1/1")]


def drafted_steps(runs: list[RunTrace] = RUNS) -> list[tuple[RunTrace, int, StepTrace]]:
    return [(run, i, step) for run in runs for i, step in enumerate(run.steps) if step.tree is not None]


def texts(figure: Any) -> list[str]:
    return [text for trace in figure.data if trace.mode == "text" for text in trace.text]


def bare(text: str) -> str:
    return html.unescape(re.sub(r"</?b>", "", text))


def targets(figure: Any) -> dict[int, str]:
    """Node -> hover text, from the unseen markers that take clicks."""
    trace = next(trace for trace in figure.data if trace.mode == "markers")
    return dict(zip(trace.customdata, trace.hovertext, strict=True))


def node_figure(run: RunTrace, index: int, view: View = View.VERIFY, **more: Any) -> Any:
    return draft_tree(run.steps[index], run.labels(), Look(step=index, view=view, **more))


def test_the_tree_has_a_box_for_every_node_and_the_final_token() -> None:
    for run, index, step in drafted_steps():
        assert step.tree is not None
        expected = {ROOT, *range(len(step.tree))} | ({FINAL} if step.final else set())
        assert set(targets(node_figure(run, index))) == expected


def test_the_trees_labels_and_numbers_are_the_traces() -> None:
    for run, index, step in drafted_steps():
        tree, labels = step.tree, run.labels()
        assert tree is not None
        shown = [bare(text) for text in texts(node_figure(run, index))]
        for node in range(len(tree)):
            assert three_digits(tree.confidence[node]) in shown
            mark = theme.STATUS_LOOKS[tree.status[node]].mark
            short = html.unescape(plotly_token(labels[tree.token[node]], 5)).removesuffix("…")
            assert any(text.startswith(f"{mark} {short}") for text in shown), (index, node)
        for trial in step.trials:
            assert any(
                text.startswith("draw ") and text.endswith(three_digits(trial.accept)) for text in shown
            )


def test_hover_tells_status_and_all_recorded_digits() -> None:
    for run, index, step in drafted_steps():
        assert step.tree is not None
        hovers = targets(node_figure(run, index))
        for node in range(len(step.tree)):
            assert theme.STATUS_LOOKS[step.tree.status[node]].word in hovers[node]
            assert f"confidence {step.tree.confidence[node]:.6g}" in hovers[node]
            assert f"value {step.tree.value[node]:.6g}" in hovers[node]
            assert f"target's probability {step.tree.p[node]:.6g}" in hovers[node]


def test_the_accepted_path_is_straight() -> None:
    for _, _, step in drafted_steps():
        assert step.tree is not None
        placed = place(step)
        path = [n for n, status in enumerate(step.tree.status) if status is Status.ACCEPTED]
        line = [ROOT, *path, *([FINAL] if step.final else [])]
        assert len({placed.row[node] for node in line}) == 1
        assert [placed.column[node] for node in line] == list(range(len(line)))


def test_a_phones_tree_tells_the_same_downwards() -> None:
    for run, index, step in drafted_steps():
        for view in View:
            across, down = node_figure(run, index, view), node_figure(run, index, view, narrow=True)
            assert targets(across) == targets(down), "the same nodes with the same words"
            assert down.layout.meta["down"]
            assert not across.layout.meta["down"]
        assert step.tree is not None
        trace = next(trace for trace in node_figure(run, index, narrow=True).data if trace.mode == "markers")
        height = dict(zip(trace.customdata, trace.y, strict=True))
        levels = {node: 1 + (step.tree.depth[node] if node >= 0 else -1) for node in height if node != FINAL}
        for a, b in ((a, b) for a in levels for b in levels if levels[a] < levels[b]):
            assert height[a] < height[b], "a later guess stands lower"


def test_a_phones_tree_is_narrow_straight_and_in_order() -> None:
    for _, _, step in drafted_steps():
        tree = step.tree
        assert tree is not None
        placed = place_packed(step)
        places = [(placed.column[node], placed.row[node]) for node in placed.order]
        assert len(set(places)) == len(places) == len(tree) + 1 + (step.final is not None)
        assert min(placed.row.values()) == 0
        path = [n for n, status in enumerate(tree.status) if status is Status.ACCEPTED]
        line = [ROOT, *path, *([FINAL] if step.final else [])]
        assert len({placed.row[node] for node in line}) == 1
        for node in placed.order:
            rows = [placed.row[child] for child in tree.children(node)]
            assert rows == sorted(rows)
        assert placed.rows <= place(step).rows, "never wider than a row a leaf"


def test_the_log_scale_starts_below_the_lowest_value_and_grows_by_decades() -> None:
    for run, _, step in drafted_steps():
        assert step.tree is not None
        parent = parent_of(step, 0)
        least = lowest(step, run.labels(), parent)
        values = [p for frame in frames(step, run.labels(), parent) for _, p in frame.entries]
        values += [step.tree.confidence[child] for child in step.tree.children(parent)]
        assert least == min(p for p in values if p > 0)
        scale = Scale(200.0, log_start(least))
        assert scale.start is not None
        assert scale.start < least <= scale.start * 10 * (1 + 1e-9)
        assert scale.length(least) > 0
        assert scale.length(1) == pytest.approx(200)
        ends = [scale.length(value) for value in scale.decades()]
        steps = [b - a for a, b in pairwise(ends)]
        assert steps == pytest.approx([200 / len(steps)] * len(steps))
        shown = texts(filmstrip(step, run.labels(), parent, log=True))
        assert three_digits(scale.start) in shown
    assert Scale(100.0, log_start(1e-30)).length(1e-30) == 0, "too small for a bar, yet no error"
    assert Scale(100.0, log_start(1.0)).length(0) == 0


def test_no_two_boxes_share_a_place_and_siblings_keep_their_order() -> None:
    for _, _, step in drafted_steps():
        assert step.tree is not None
        placed = place(step)
        places = [(placed.row[node], placed.column[node]) for node in placed.order]
        assert len(set(places)) == len(places)
        for node in placed.order:
            rows = [placed.row[child] for child in step.tree.children(node)]
            assert rows == sorted(rows)


def test_the_draft_view_judges_nothing() -> None:
    figure = node_figure(RUN, opening(RUN).step, View.DRAFT)
    assert FINAL not in targets(figure)
    for hover in targets(figure).values():
        assert not any(look.word in hover for look in theme.STATUS_LOOKS.values())
        assert "target's probability" not in hover


def test_the_draft_is_told_level_by_level() -> None:
    step = RUN.steps[1]
    assert step.tree is not None
    for level in range(max(step.tree.depth) + 1):
        nodes = set(targets(node_figure(RUN, 1, View.DRAFT, shown=level))) - {ROOT}
        assert nodes == {n for n, depth in enumerate(step.tree.depth) if depth <= level}


def test_a_trial_that_is_not_told_yet_gives_nothing_away() -> None:
    index = opening(RUN).step
    step = RUN.steps[index]
    for told in range(len(step.trials) + 1):
        hovers = targets(node_figure(RUN, index, shown=told))
        assert FINAL not in hovers
        for place_, trial in enumerate(step.trials):
            word = "accepted" if trial.accepted else "rejected"
            assert (word in hovers[trial.node]) == (place_ < told)


def test_a_step_without_a_tree_shows_one_pass_and_one_token() -> None:
    figure = node_figure(RUN, 0)
    assert set(targets(figure)) == {ROOT, FINAL}
    assert any("prompt" in text for text in texts(figure))


def test_the_filmstrip_is_the_recorded_distributions() -> None:
    for run, _, step in drafted_steps():
        tree = step.tree
        assert tree is not None
        for parent in {tree.parent[trial.node] for trial in step.trials}:
            trials = [trial for trial in step.trials if tree.parent[trial.node] == parent]
            strip = frames(step, run.labels(), parent)
            ends_here = step.final is not None and step.final.node == parent
            assert len(strip) == len(trials) + ends_here
            for frame, trial in zip(strip, trials, strict=False):
                assert frame.distribution is trial.before
                assert frame.offered == tree.token[trial.node]
                assert frame.entries[-1] == (REST, trial.before.rest)
                assert sum(p for _, p in frame.entries) == pytest.approx(1, abs=1e-5)
            if ends_here:
                assert step.final is not None
                assert strip[-1].distribution is step.final.drawn_from


def test_the_filmstrip_prints_the_numbers_of_its_frames() -> None:
    look = opening(RUN)
    step = step_of(RUN, look)
    parent = parent_of(step, look.node)
    shown = [bare(text) for text in texts(filmstrip(step, RUN.labels(), parent))]
    for frame in frames(step, RUN.labels(), parent):
        for token, p in frame.entries:
            assert (three_digits(p) if token not in frame.gone else "out") in shown
    told = frames(step, RUN.labels(), parent, told=1)
    assert len(told) == 1, "later frames are not told yet"


def test_bars_of_a_frame_are_as_long_as_its_probabilities() -> None:
    step = next(step for step in RUN.steps if step.trials)
    strip = frames(step, RUN.labels(), ROOT)[:1]
    figure = filmstrip(step, RUN.labels(), ROOT, told=1)
    drawn: list[float] = []
    for trace in figure.data:
        if trace.fill == "toself" and trace.name in ("target", "rest", "accepted", "rejected"):
            xs = list(trace.x)
            drawn += [xs[i + 1] - xs[i] for i in range(0, len(xs), 6)]
    expected = [p for _, p in strip[0].entries if p > 0]
    scale = sum(drawn) / sum(expected)
    assert sorted(drawn) == pytest.approx(sorted(p * scale for p in expected), abs=0.2)


def test_the_step_bar_is_the_runs_tokens_and_times() -> None:
    figure = step_bar(RUN, 3)
    bars = [trace for trace in figure.data if trace.type == "bar"]
    upper = [trace for trace in bars if trace.yaxis == "y"]
    heights = [sum(trace.y[i] for trace in upper) for i in range(len(RUN.steps))]
    assert heights == [len(step.emitted) for step in RUN.steps]
    lower = [trace for trace in bars if trace.yaxis == "y2"]
    for i, step in enumerate(RUN.steps):
        assert sum(trace.y[i] for trace in lower) == pytest.approx(step.times.total_ms)
    assert figure.layout.shapes[0].x0 == RUN.steps[3].index - 0.5
    clicks = next(trace for trace in figure.data if trace.type == "scatter")
    assert list(clicks.customdata) == list(range(len(RUN.steps)))


def test_the_overview_counts_every_guess_whose_parent_was_accepted() -> None:
    counts = overview(RUN)
    nodes = hits = 0
    for _, _, step in drafted_steps([RUN]):
        tree = step.tree
        assert tree is not None
        for node, parent in enumerate(tree.parent):
            if parent == ROOT or tree.status[parent] is Status.ACCEPTED:
                nodes += 1
                hits += tree.status[node] is Status.ACCEPTED
    assert sum(rate.count for rate in counts.calibration) == nodes
    assert sum(rate.hits for rate in counts.calibration) == hits == counts.paid
    assert counts.paid == sum(step.emitted.origin.count(Origin.DRAFT) for step in RUN.steps)
    assert sum(n * count for n, count in counts.lengths.items()) == RUN.new_tokens - 1
    for rate in counts.calibration:
        low, high = rate.interval()
        assert 0 <= low <= rate.share <= high <= 1


def test_the_overviews_figures_show_its_counts() -> None:
    counts = overview(RUN)
    points = next(trace for trace in calibration(counts).data if trace.mode == "markers+text")
    assert list(points.y) == [rate.share for rate in counts.calibration]
    assert list(levels(counts).data[0].y) == [rate.share for rate in counts.levels]
    assert list(lengths(counts, RUN.tau).data[0].y) == list(counts.lengths.values())


def test_cut_candidates_hang_on_their_parents() -> None:
    tree = PAPER.steps[1].tree
    assert tree is not None
    depth, value = cut_columns(tree)
    assert len(depth) == len(tree.cut.token) == 450
    for i, parent in enumerate(tree.cut.parent):
        if parent == ROOT:
            assert (depth[i], value[i]) == (1, tree.cut.confidence[i])
        elif parent < len(tree):
            assert depth[i] == tree.depth[parent] + 1
            assert value[i] == pytest.approx(tree.value[parent] * tree.cut.confidence[i])
    assert max(value) <= min(tree.value) * (1 + 1e-4), "rerank kept the most valuable"


def test_the_widest_draft_is_cut_down_and_says_so() -> None:
    tree = synthetic_run(seed=1, steps=1, tree="256/16/32", labels=[f"w{i}" for i in range(40)]).steps[1].tree
    assert tree is not None
    figure = candidates(tree, {})
    cut, kept = figure.data
    assert len(kept.x) == 256
    assert len(cut.x) <= 16 * SHOWN
    counted = sum(int(re.sub(r"\D", "", note.text)) for note in figure.layout.annotations)
    assert len(cut.x) + counted == len(tree.cut.token)


def every_figure(run: RunTrace) -> list[Any]:
    labels, counts = run.labels(), overview(run)
    made = [step_bar(run, 1), calibration(counts), levels(counts), lengths(counts, run.tau)]
    for index, step in enumerate(run.steps):
        for view in View:
            for narrow in (False, True):
                made.append(draft_tree(step, labels, Look(step=index, node=0, view=view, narrow=narrow)))
        for log in (False, True):
            made.append(filmstrip(step, labels, parent_of(step, 0), log=log))
        made.append(candidates(step.tree, labels))
    return made


def test_nothing_hostile_survives_as_markup_or_template() -> None:
    ours = re.compile(r"</?b>|<br>")
    for figure in every_figure(HOSTILE_RUN):
        data = figure_from_value(figure_value(figure))
        for trace in data["data"]:
            assert "hovertemplate" not in trace
            assert "texttemplate" not in trace
            for field in ("text", "hovertext"):
                shown = trace.get(field, [])
                for text in [shown] if isinstance(shown, str) else shown:
                    assert "<" not in ours.sub("", text), text
                    assert "$" not in text, text
        for axis in ("xaxis", "yaxis"):
            assert data["layout"].get(axis, {}).get("type") in (None, "log", "linear")
        assert "<" not in figure_value(figure), "nor in the component's value"


@pytest.mark.slow
def test_plotly_finds_every_figure_valid() -> None:
    """Figures are made unchecked, for speed; plotly's own checks run here."""
    from plotly.graph_objects import Figure

    for run in (RUN, HOSTILE_RUN):
        for figure in every_figure(run):
            Figure(figure_from_value(figure_value(figure)))
    with pytest.raises(ValueError, match="mode"):
        Figure(data=[{"type": "scatter", "mode": "no such mode"}])


@pytest.mark.slow
def test_every_figure_has_a_height_words_and_plain_lists() -> None:
    for run in RUNS:
        for figure in every_figure(run):
            value = figure_value(figure)
            assert "bdata" not in value
            data = json.loads(value)
            assert data["layout"]["height"] > 0
            assert data["layout"]["meta"]["alt"]
            assert "NaN" not in value


def test_every_colour_has_a_dark_twin() -> None:
    twins = theme.dark_twins()
    assert len(twins) == len(theme.COLOURS), "light values must be unique"
    for figure in every_figure(RUN):
        for colour in re.findall(r"#[0-9a-fA-F]{6}\b", figure_value(figure)):
            assert colour in twins, colour


@pytest.mark.parametrize(
    ("tree", "milliseconds", "kilobytes"), [("60/6/10", 50, 300), ("256/16/32", 300, 1000)]
)
@pytest.mark.parametrize("narrow", [False, True])
def test_a_steps_figures_are_quick_and_small(
    tree: str, milliseconds: float, kilobytes: float, narrow: bool
) -> None:
    run = synthetic_run(seed=2, steps=1, tree=tree)
    step, labels = run.steps[1], run.labels()

    def build() -> list[Any]:
        look = Look(step=1, node=0, narrow=narrow)
        strip = filmstrip(step, labels, parent_of(step, 0), log=narrow)
        return [draft_tree(step, labels, look), strip, step_bar(run, 1)]

    build()
    best = min(_seconds(build) for _ in range(5))
    assert 1000 * best < milliseconds
    assert sum(len(figure_value(figure)) for figure in build()) < 1000 * kilobytes


def _seconds(work: Any) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began
