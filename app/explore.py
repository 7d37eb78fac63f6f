"""The Explore tab: a run, its steps, the tree of one step, and every number behind a node.

Wiring only. What is selected is decided in :mod:`app.session`, what is shown in :mod:`app.view`, runs
come from :mod:`app.live` and :mod:`app.library`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

import gradio as gr

from app import ask, lab_view, library, live, pair_menu, session, to_lab
from app.events import LIVE, QUICK, buttons, visitor_of, wire_stop
from app.gallery import Gallery
from app.notes import note_line
from app.pair_holder import PairStatus, State
from app.policy import Policy
from app.runner import RunSource
from app.session import Look, Visit
from app.view import WHILE_RUNNING, Parts, actions, build_parts, progress, render, updates
from eagle.settings import SettingsError

SCREEN = "window.eaglePage.watchScreen(trigger); // 'act'"


@dataclass(frozen=True)
class Ask:
    """The components around the prompt."""

    form: ask.Form
    run: gr.Button
    stop: gr.Button
    note: gr.HTML
    pair: gr.HTML
    examples: gr.HTML
    facts: gr.HTML


@dataclass(frozen=True)
class News:
    """Marks whose change says what is new: a visit told in text only, or drawn too; a note, or the run's end.

    A run writes states alone. A component that it wrote to would be pending as long as it decodes, and the
    browser would count its time at every frame, on cores that the decoder needs.
    """

    told: gr.State
    drawn: gr.State
    said: gr.State


def _mark() -> str:
    """A word of no other event."""
    return str(time.monotonic_ns())


@dataclass(frozen=True)
class Said:
    """A note of a run and whether it is the last; the mark tells it from the same words said before."""

    line: str
    over: bool = False
    mark: str = field(default_factory=_mark)

    def same(self, other: Said) -> bool:
        return (self.line, self.over) == (other.line, other.over)


@dataclass(frozen=True)
class Explorer:
    """What other tabs may use of this one."""

    parts: Parts
    visit: gr.State
    look: gr.State


def build(demo: gr.Blocks, runner: RunSource, gallery: Gallery, policy: Policy | None = None) -> Explorer:
    """Adds the tab's components and events to the open Blocks context."""
    visit = library.first_visit(gallery)
    look = session.opening(visit.run)
    visit_state, look_state = gr.State(visit), gr.State(look)
    asked = _build_ask(runner, policy or Policy.from_environment())
    parts = build_parts(render(visit, look))
    with gr.Column(elem_id="library-card", elem_classes=["card"]):
        shelf = library.build(gallery)
    news = News(gr.State(""), gr.State(""), gr.State(Said("")))
    shown = [look_state, *parts.all()]
    _selection_events(parts, visit_state, look_state, shown)
    _run_events(runner, asked, visit_state, look_state, news)
    _loading_events(demo, runner, asked)
    library.wire(demo, gallery, shelf, parts, visit_state, look_state, asked.note)

    def newest(visit: Visit, look: Look) -> Look:
        return session.newest(visit.run, look) if look.follow else look

    def on_progress(visit: Visit, look: Look) -> list[Any]:
        return progress(visit, newest(visit, look))

    def on_drawn(visit: Visit, look: Look) -> list[Any]:
        return updates(visit, newest(visit, look), None)

    # Outputs that are skipped would be mounted again in the browser all the same, so progress names its few.
    told = [look_state, *(getattr(parts, name) for name in WHILE_RUNNING)]
    for new, on_new, outputs in ((news.told, on_progress, told), (news.drawn, on_drawn, shown)):
        new.change(on_new, [visit_state, look_state], outputs, trigger_mode="always_last", **QUICK)
    return Explorer(parts, visit_state, look_state)


def wire_lab(explorer: Explorer, lab: gr.HTML, tabs: gr.Tabs) -> None:
    """The node panel's button: its siblings go to the rule lab, whose tab opens."""

    def on_lab(visit: Visit, look: Look, event: gr.EventData) -> list[Any]:
        wanted = dict(event._data or {}).get("act") == "lab"
        state = to_lab.lab_state(visit.run, session.step_of(visit.run, look), look.node) if wanted else None
        if state is None:
            return [gr.skip(), gr.skip()]
        return [lab_view.handed_over(state), gr.Tabs(selected="lab")]

    explorer.parts.node.act(on_lab, [explorer.visit, explorer.look], [lab, tabs], **QUICK)


def _build_ask(runner: RunSource, policy: Policy) -> Ask:
    with gr.Column(elem_id="ask", elem_classes=["card"]):
        with gr.Row(elem_id="ask-row"):
            prompt = gr.Textbox(
                show_label=False,
                placeholder="Ask something, or take an example",
                lines=1,
                max_lines=8,
                container=False,
                scale=8,
                elem_id="prompt",
                label="Prompt",
            )
            run = gr.Button("Run", variant="primary", elem_id="run", scale=0, min_width=110)
            stop = gr.Button("Stop", variant="stop", elem_id="stop", scale=0, min_width=110, visible=False)
        with gr.Row(elem_id="ask-line"):
            prompts = ask.examples()
            examples = actions(ask.chips(prompts), "examples")
            with gr.Column(
                elem_id="notes", min_width=0
            ):  # two lines: the pair's never writes over a visitor's
                note = gr.HTML("", elem_id="note", apply_default_css=False)
                pair = gr.HTML(_pair_line(runner.status()), elem_id="pair-state", apply_default_css=False)
        with gr.Accordion("Settings", open=False, elem_id="settings"):
            form = ask.build_settings(prompt)
        facts = pair_menu.build(runner, policy, form.method)

    def on_example(event: gr.EventData) -> str:
        index = int(event.index) if str(event.index).isdigit() else 0
        return prompts[min(index, len(prompts) - 1)][1]

    examples.act(on_example, None, prompt, **QUICK)
    return Ask(form, run, stop, note, pair, examples, facts)


def _pair_line(status: PairStatus) -> str:
    """The pair's state, which gives way to other notes once there is nothing to wait for (style.css)."""
    failed, ready = status.state is State.FAILED, status.state is State.READY
    return note_line(status.words, failed, status.fraction, gives_way=ready)


def _selection_events(parts: Parts, visit_state: gr.State, look_state: gr.State, shown: list[Any]) -> None:
    """Clicks, keys, sliders and the screen's width: one pure function decides what is selected and how."""
    screen = gr.HTML("", elem_id="screen", visible="hidden", js_on_load=SCREEN, apply_default_css=False)

    def on(visit: Visit, look: Look, event: dict[str, Any]) -> list[Any]:
        return updates(visit, session.act(visit.run, look, event), look)

    def on_act(visit: Visit, look: Look, event: gr.EventData) -> list[Any]:
        return on(visit, look, dict(event._data or {}))

    def on_node(visit: Visit, look: Look, event: gr.EventData) -> list[Any]:
        return on(visit, look, {"act": "node", "node": event.point})

    def on_key(visit: Visit, look: Look, event: gr.EventData) -> list[Any]:
        return on(visit, look, {"act": "key", "key": event.key})

    def on_step(visit: Visit, look: Look, event: gr.EventData) -> list[Any]:
        return on(visit, look, {"act": "step", "step": event.point})

    # The page sends one event at a time and waits for its answer (assets/page.js), so none is dropped here.
    every: dict[str, Any] = {"trigger_mode": "multiple", **QUICK}
    inputs = [visit_state, look_state]
    for part in (parts.source, parts.answer, parts.nav, parts.views, parts.strip_title, screen):
        part.act(on_act, inputs, shown, **every)
    parts.tree.click(on_node, inputs, shown, **every)
    parts.tree.press(on_key, inputs, shown, **every)
    parts.steps.click(on_step, inputs, shown, **every)


def _run_events(
    runner: RunSource, asked: Ask, visit_state: gr.State, look_state: gr.State, news: News
) -> None:
    """Run, Stop, and the end of a visit. The run writes the visit; what is selected stays the visitor's."""
    names = [field.name for field in fields(asked.form)]

    def start(look: Look) -> list[Any]:
        fresh = session.kept(look, Look(follow=True))
        return [*buttons(running=True), note_line("Waiting for its turn…"), fresh]

    def go(request: gr.Request, *values: Any) -> Iterator[list[Any]]:
        given = dict(zip(names, values, strict=True))
        try:
            settings = ask.settings_from(given)
        except SettingsError as error:
            yield [gr.skip(), gr.skip(), gr.skip(), Said(note_line(str(error), fault=True), over=True)]
            return
        events = live.run_events(
            runner, str(given["prompt"] or ""), settings, visitor_of(request), bool(given["compare"])
        )
        last = Said("")
        for event in events:
            visit, told, drawn = gr.skip(), gr.skip(), gr.skip()
            if event.visit is not None:
                visit = event.visit
                told, drawn = (_mark(), drawn) if visit.running else (told, _mark())
            said = Said(note_line(event.note, event.fault), event.over)
            yield [visit, told, drawn, gr.skip() if said.same(last) else said]
            last = said

    def on_said(said: Said) -> list[Any]:
        return [said.line, *(buttons(running=False) if said.over else [gr.skip(), gr.skip()])]

    for trigger in (asked.run.click, asked.form.prompt.submit):
        trigger(start, look_state, [asked.run, asked.stop, asked.note, look_state], **QUICK).then(
            go,
            asked.form.inputs(),
            [visit_state, news.told, news.drawn, news.said],
            **LIVE,
        )
    news.said.change(
        on_said, news.said, [asked.note, asked.run, asked.stop], trigger_mode="always_last", **QUICK
    )
    wire_stop(runner, asked.stop, asked.note)


def _loading_events(demo: gr.Blocks, runner: RunSource, asked: Ask) -> None:
    """The pair loads in the background once the page is seen; its state is told until it is ready."""
    timer = gr.Timer(1.0)

    def on_timer() -> list[Any]:
        status = runner.status()
        waiting = status.state in (State.LOADING, State.ABSENT)
        line = _pair_line(status)
        if waiting:
            return [line, gr.skip(), gr.skip(), gr.skip()]
        return [line, pair_menu.pair_facts(status), pair_menu.method_update(status), gr.Timer(active=False)]

    def on_leave(request: gr.Request) -> None:
        runner.stop(visitor_of(request))

    demo.load(runner.start_loading, None, None, **QUICK)
    timer.tick(on_timer, None, [asked.pair, asked.facts, asked.form.method, timer], **QUICK)
    demo.unload(on_leave)
