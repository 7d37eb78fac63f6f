"""The panels print the trace's numbers, the words of the terms, and nothing hostile."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from app import controls, panels
from app.figures.residual import log_start, lowest, parent_of
from app.node_panel import node_panel, verdict
from app.session import FINAL, Look, Source, View, Visit, opening, step_of
from app.theme import three_digits, told_apart
from eagle.settings import Settings
from eagle.trace import ROOT, Origin, RunTrace, Status, StepTrace
from tests.synthetic import HOSTILE, synthetic_run

RUN = synthetic_run(seed=3, steps=14, mix=0.7)
HOSTILE_RUN = synthetic_run(seed=5, steps=8, labels=HOSTILE, prompt='<img src=x onerror="alert(1)">')
ALLOWED = {"div", "span", "p", "b", "i", "dl", "dt", "dd", "br", "button", "h2", "h3", "input", "progress"}


class Markup(HTMLParser):
    """Collects tags, attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.words: list[str] = []
        self.titles: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)
        self.titles += [value or "" for name, value in attrs if name == "title"]

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return "".join(self.words)


def every_panel(run: RunTrace) -> list[str]:
    labels, made = run.labels(), []
    for index, step in enumerate(run.steps):
        nodes = [ROOT, FINAL, *range(len(step.tree) if step.tree else 0)]
        made += [node_panel(run, step, labels, node) for node in nodes]
        made += [controls.nav(run, Look(step=index)), panels.status_counts(step)]
        made += [
            controls.views(run, Look(step=index, view=view, narrow=narrow))
            for view in View
            for narrow in (False, True)
        ]
        made += [controls.strip_title(step, labels, ROOT, Look(log=log)) for log in (False, True)]
        made.append(panels.answer(run, index, 0, running=True))
    made += [controls.source_line(Visit(run)), panels.meters(run, run, live=True)]
    return made


def test_panels_are_free_of_markup_from_tokens() -> None:
    for panel in every_panel(HOSTILE_RUN):
        markup = Markup(panel)
        assert markup.tags <= ALLOWED, panel
        assert not any(name.startswith("on") for name in markup.attributes)


def panel_of(run: RunTrace, step: StepTrace, node: int) -> Markup:
    return Markup(node_panel(run, step, run.labels(), node))


def test_a_nodes_panel_prints_each_number_with_its_own_name() -> None:
    for step in RUN.steps:
        tree = step.tree
        if tree is None:
            continue
        for node in range(len(tree)):
            markup = panel_of(RUN, step, node)
            assert re.search(
                rf"draft's confidence\?.*?{re.escape(three_digits(tree.confidence[node]))}", markup.text
            )
            assert re.search(
                rf"value along the path\?.*?{re.escape(three_digits(tree.value[node]))}", markup.text
            )
            assert re.search(
                rf"target's probability\?.*?{re.escape(three_digits(tree.p[node]))}", markup.text
            )
            for number in (tree.confidence[node], tree.value[node], tree.p[node]):
                assert repr(number) in markup.titles, "all digits on hover"
            trial = next((t for t in step.trials if t.node == node), None)
            assert ("proposal probability" in markup.text) == (trial is not None)
            if trial is not None:
                assert repr(trial.draw) in markup.titles
                assert repr(trial.accept) in markup.titles
                assert repr(trial.proposal) in markup.titles


def test_confidence_is_never_called_proposal_probability() -> None:
    look = opening(RUN)
    step = step_of(RUN, look)
    assert step.tree is not None
    assert look.node is not None
    text = panel_of(RUN, step, look.node).text
    named = re.search(r"proposal probability\?(.*?)accept probability", text)
    assert named is not None
    assert named[1].endswith("1"), "a top-k candidate was put forward for certain"
    assert "min(1, p / q) = min(1, " in text
    assert re.search(r"min\(1, p / q\) = min\(1, \S+ / 1\)", text)


def test_after_a_rejection_the_formula_shows_where_p_comes_from() -> None:
    look = opening(RUN)
    step = step_of(RUN, look)
    assert step.tree is not None
    assert look.node is not None
    parent = step.tree.parent[look.node]
    last = [t for t in step.trials if step.tree.parent[t.node] == parent and not t.accepted][-1]
    token = step.tree.token[look.node]
    before = last.before.p[last.before.token.index(token)]
    text = panel_of(RUN, step, look.node).text
    assert f"p now = {three_digits(before)} / {three_digits(last.normaliser)}" in text
    assert before / last.normaliser == pytest.approx(
        next(t.accept for t in step.trials if t.node == look.node), rel=1e-4
    )


def test_the_verdict_says_what_happened_to_every_node() -> None:
    for step in RUN.steps:
        if step.tree is None:
            continue
        for node, status in enumerate(step.tree.status):
            words = verdict(step, RUN.labels(), node)
            ending = {Status.ACCEPTED: "accepted.", Status.REJECTED: "rejected."}.get(status)
            if ending:
                assert words.endswith(ending)
                assert "the draw" in words
            else:
                assert words.startswith("Never tried")


def test_a_sibling_of_an_accepted_guess_says_who_was_accepted_first() -> None:
    look = opening(RUN)
    step = step_of(RUN, look)
    assert step.tree is not None
    assert look.node is not None
    later = [n for n in step.tree.children(step.tree.parent[look.node]) if n > look.node]
    assert later
    assert "was accepted first" in verdict(step, RUN.labels(), later[0])


def test_a_sentence_for_every_step_counts_right() -> None:
    for step in RUN.steps[1:]:
        assert step.tree is not None
        text = Markup(panels.step_sentence(step)).text
        accepted = step.emitted.origin.count(Origin.DRAFT)
        assert f"Guessed {len(step.tree)} tokens, {accepted or 'none'} accepted" in text
        assert re.search(rf"{len(step.emitted)} tokens? for one pass", text)


def test_the_answer_is_the_runs_text_token_by_token() -> None:
    markup = panels.answer(RUN, 3, None, running=False)
    spans = re.findall(r'data-step="(\d+)" data-node="(-?\d+)"', markup)
    expected = [
        (str(i), str(FINAL if node == ROOT else node))
        for i, step in enumerate(RUN.steps)
        for node in step.emitted.node
    ]
    assert spans == expected
    body = markup.split('<div class="key">')[0]
    assert Markup(body).text.replace("↵", "") == RUN.text


def test_meters_show_a_dash_where_there_is_nothing_to_divide_by() -> None:
    nothing = RUN.model_copy(update={"steps": RUN.steps[:1], "target_passes": 0})
    assert Markup(panels.meters(nothing, None, live=True)).text.count("–") >= 3


def test_a_ratio_below_one_is_shown_as_it_is() -> None:
    fast = RUN.model_copy(
        update={
            "steps": [
                s.model_copy(update={"times": s.times.model_copy(update={"verify_ms": 1.0})})
                for s in RUN.steps
            ]
        }
    )
    text = Markup(panels.meters(RUN, fast, live=True)).text
    assert RUN.tokens_per_s is not None
    assert fast.tokens_per_s is not None
    assert f"{three_digits(RUN.tokens_per_s / fast.tokens_per_s)}×" in text
    assert "slower" in text
    cost = (RUN.decode_ms / RUN.target_passes) / (fast.decode_ms / (fast.new_tokens - 1))
    assert f"1 + ω = {three_digits(cost)} of vanilla’s steps" in text
    assert "costs more than it brings" in text and "The tree auto" in text
    assert "so it pays" in Markup(panels.meters(fast, RUN, live=True)).text


def test_at_temperature_zero_the_panel_says_so() -> None:
    greedy = RUN.model_copy(update={"settings": Settings(temperature=0.0)})
    step = RUN.steps[1]
    assert "every accept probability is 0 or 1" in panel_of(greedy, step, 0).text
    assert "0 or 1" not in panel_of(RUN, step, 0).text


def test_the_source_is_labelled() -> None:
    for source, word in (
        (Source.RECORDED, "recorded run"),
        (Source.LIVE, "live run"),
        (Source.IMPORTED, "imported run"),
    ):
        assert word in Markup(controls.source_line(Visit(RUN, source))).text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (1.0, "1"),
        (0.5926, ".593"),
        (0.51, ".51"),
        (0.00012, ".00012"),
        (1.24e-7, "1.2e-7"),
        (6e-5, "6e-5"),
        (12.345, "12.3"),
        (1234.5, "1230"),
        (0.99996, ">.999"),
        (-0.25, "-.25"),
    ],
)
def test_numbers_have_three_digits(number: float, text: str) -> None:
    assert three_digits(number) == text


def test_compared_numbers_are_told_apart() -> None:
    assert told_apart(0.31, 0.58) == (".31", ".58")
    assert told_apart(0.47912, 0.47913) == ("0.47912", "0.47913")
    assert told_apart(0.5, 0.5) == (".5", ".5")


def test_the_log_scale_states_its_lowest_value_and_its_start() -> None:
    look = opening(RUN)
    step = step_of(RUN, look)
    parent = parent_of(step, look.node)
    plain = Markup(controls.strip_title(step, RUN.labels(), parent, look)).text
    assert "Log scale" not in plain
    told = Markup(controls.strip_title(step, RUN.labels(), parent, replace(look, log=True)))
    least = lowest(step, RUN.labels(), parent)
    assert f"the lowest value here above 0 is {three_digits(least)}" in told.text
    assert f"bars start at {three_digits(log_start(least))}" in told.text
    assert repr(least) in told.titles
