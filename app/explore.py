"""The Explore tab: a run, its steps, the tree of one step, and every number behind a node.

Wiring only. What is selected is decided in :mod:`app.session`, pictures are made in :mod:`app.figures`
and :mod:`app.panels`, runs come from :mod:`app.live`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import gradio as gr

from app import ask, controls, live, panels, session
from app.figures.residual import filmstrip, parent_of
from app.figures.steps import step_bar
from app.figures.tree import draft_tree
from app.gallery import Gallery
from app.labels import html_text
from app.node_panel import node_panel
from app.plotly_view import figure_value, plotly_view
from app.runner import RunSource, State
from app.session import Look, Source, View, Visit
from eagle.settings import SettingsError

QUICK: dict[str, Any] = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
ACTIONS = "window.eaglePage.mountActions(element, trigger, ['act']);"


@dataclass(frozen=True)
class Parts:
    """The components that show a visit, by the names that :func:`render` uses."""

    source: gr.HTML
    answer: gr.HTML
    meters: gr.HTML
    nav: gr.HTML
    steps: gr.HTML
    views: gr.HTML
    tree: gr.HTML
    node: gr.HTML
    strip_title: gr.HTML
    strip: gr.HTML

    def all(self) -> list[gr.HTML]:
        return [getattr(self, field.name) for field in fields(self)]


def build(demo: gr.Blocks, runner: RunSource, gallery: Gallery) -> None:
    """Adds the tab's components and events to the open Blocks context."""
    visit = first_visit(gallery)
    look = session.opening(visit.run)
    visit_state, look_state = gr.State(visit), gr.State(look)
    form, run, stop, note, examples = _build_ask(runner)
    parts = _build_parts(render(visit, look))
    tick = gr.HTML("0", elem_id="tick", visible="hidden", apply_default_css=False)
    shown = [look_state, *parts.all()]
    _selection_events(parts, visit_state, look_state, shown)
    _run_events(runner, form, run, stop, note, visit_state, look_state, tick)

    def on_tick(visit: Visit, look: Look) -> list[Any]:
        new = session.newest(visit.run, look) if look.follow else look
        return updates(visit, new, None)

    tick.change(on_tick, [visit_state, look_state], shown, trigger_mode="always_last", **QUICK)

    prompts = ask.examples()

    def on_example(event: gr.EventData) -> Any:
        index = int(event.index) if str(event.index).isdigit() else 0
        return prompts[min(index, len(prompts) - 1)][1]

    examples.act(on_example, None, form.prompt, **QUICK)
    _loading_events(demo, runner, note)


def first_visit(gallery: Gallery) -> Visit:
    """The recorded run of the first paint."""
    name = gallery.names()[0]
    run = gallery.read(name)
    assert run is not None
    return Visit(run=run, source=Source.RECORDED, name=name)


def _build_ask(runner: RunSource) -> tuple[ask.Form, gr.Button, gr.Button, gr.HTML, gr.HTML]:
    with gr.Column(elem_id="ask", elem_classes=["card"]):
        with gr.Row(elem_id="ask-row"):
            prompt = gr.Textbox(
                show_label=False, placeholder="Ask something, or take an example", lines=1, max_lines=8,
                container=False, scale=8, elem_id="prompt", label="Prompt", submit_btn=False,
            )  # fmt: skip
            run = gr.Button("Run", variant="primary", elem_id="run", scale=0, min_width=110)
            stop = gr.Button("Stop", variant="stop", elem_id="stop", scale=0, min_width=110, visible=False)
        with gr.Row(elem_id="ask-line"):
            examples = _actions(ask.chips(ask.examples()), "examples")
            note = gr.HTML(note_line(runner.status().words), elem_id="note", apply_default_css=False)
        with gr.Accordion("Settings", open=False, elem_id="settings"):
            form = ask.build_settings(prompt)
    return form, run, stop, note, examples


def _build_parts(view: dict[str, Any]) -> Parts:
    with gr.Column(elem_id="run-card", elem_classes=["card"]):
        source = _actions(view["source"], "source")
        answer = _actions(view["answer"], "answer")
        meters = gr.HTML(view["meters"], elem_id="meters", apply_default_css=False)
    with gr.Column(elem_id="steps-card", elem_classes=["card"]):
        nav = _actions(view["nav"], "nav")
        steps = plotly_view(view["steps"], elem_id="steps", label="The steps of the run", order=2)
    with gr.Row(elem_id="step-row"):
        with gr.Column(elem_id="tree-card", elem_classes=["card"], min_width=0):
            views = _actions(view["views"], "views")
            tree = plotly_view(view["tree"], elem_id="tree", label="The draft tree of the step", keys=True, order=0)
        with gr.Column(elem_id="node-card", elem_classes=["card"], min_width=0):
            node = gr.HTML(view["node"], elem_id="node", apply_default_css=False)
    with gr.Column(elem_id="strip-card", elem_classes=["card"]):
        strip_title = gr.HTML(view["strip_title"], elem_id="strip-title", apply_default_css=False)
        strip = plotly_view(view["strip"], elem_id="strip", label="What was left to sample from")
    return Parts(source, answer, meters, nav, steps, views, tree, node, strip_title, strip)


def _actions(value: str, elem_id: str) -> gr.HTML:
    """Markup whose elements with ``data-act`` are events (``act``)."""
    return gr.HTML(value, elem_id=elem_id, js_on_load=ACTIONS, apply_default_css=False)


def _selection_events(parts: Parts, visit_state: gr.State, look_state: gr.State, shown: list[Any]) -> None:
    """Clicks, keys and sliders: one pure function decides what is selected."""

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

    inputs = [visit_state, look_state]
    for part in (parts.source, parts.answer, parts.nav, parts.views):
        part.act(on_act, inputs, shown, trigger_mode="always_last", **QUICK)
    parts.tree.click(on_node, inputs, shown, trigger_mode="always_last", **QUICK)
    parts.tree.press(on_key, inputs, shown, trigger_mode="multiple", **QUICK)
    parts.steps.click(on_step, inputs, shown, trigger_mode="always_last", **QUICK)


def _run_events(
    runner: RunSource, form: ask.Form, run: gr.Button, stop: gr.Button, note: gr.HTML,
    visit_state: gr.State, look_state: gr.State, tick: gr.HTML,
) -> None:  # fmt: skip
    """Run, Stop, and the end of a visit. The run writes the visit; what is selected stays the visitor's."""
    names = [field.name for field in fields(form)]

    def start() -> list[Any]:
        return [gr.update(visible=False), gr.update(visible=True), note_line("Waiting for its turn…"), Look(follow=True)]

    def go(request: gr.Request, *values: Any) -> Iterator[list[Any]]:
        given = dict(zip(names, values, strict=True))
        buttons = [gr.skip(), gr.skip()]
        try:
            settings = ask.settings_from(given)
        except SettingsError as error:
            yield [gr.skip(), note_line(str(error), fault=True), gr.skip(), gr.update(visible=True), gr.update(visible=False)]
            return
        visitor = request.session_hash or "nobody"
        for count, event in enumerate(live.run_events(runner, given["prompt"] or "", settings, visitor, bool(given["compare"]))):
            if event.over:
                buttons = [gr.update(visible=True), gr.update(visible=False)]
            changed = event.visit is not None
            yield [event.visit if changed else gr.skip(), note_line(event.note, event.fault),
                   str(count) if changed else gr.skip(), *buttons]  # fmt: skip

    outputs = [visit_state, note, tick, run, stop]
    for trigger in (run.click, form.prompt.submit):
        trigger(start, None, [run, stop, note, look_state], **QUICK).then(
            go, form.inputs(), outputs, show_progress="hidden", concurrency_limit=1, concurrency_id="model",
            api_visibility="private",
        )  # fmt: skip

    def halt(request: gr.Request) -> None:
        runner.stop(request.session_hash or "nobody")

    stop.click(halt, None, None, **QUICK)


def _loading_events(demo: gr.Blocks, runner: RunSource, note: gr.HTML) -> None:
    """The pair loads in the background once the page is seen; its state is told until it is ready."""
    timer = gr.Timer(1.0)

    def on_load(request: gr.Request) -> None:
        runner.start_loading()

    def on_timer() -> list[Any]:
        status = runner.status()
        waiting = status.state in (State.LOADING, State.ABSENT)
        line = note_line(status.words, status.state is State.FAILED, status.fraction)
        return [line, gr.skip() if waiting else gr.Timer(active=False)]

    demo.load(on_load, None, None, **QUICK)
    timer.tick(on_timer, None, [note, timer], **QUICK)
    demo.unload(lambda request=None: None)


def note_line(words: str, fault: bool = False, fraction: float | None = None) -> str:
    """One line under the prompt: what is going on, or what is wrong."""
    bar = "" if fraction is None else f'<progress max="1" value="{fraction:.3f}"></progress>'
    kind = "note-line fault" if fault else "note-line"
    return f'<div class="{kind}" role="status">{html_text(words)}{bar}</div>'


def render(visit: Visit, look: Look) -> dict[str, Any]:
    """Everything on screen for a visit and a look: markup, and figures."""
    run = visit.run
    step = session.step_of(run, look)
    labels = run.labels()
    told = look.shown if look.view is View.VERIFY else None
    parent = parent_of(step, look.node)
    root = run.steps[look.step - 1].emitted.token[-1] if look.step > 0 else None
    return {
        "source": controls.source_line(visit),
        "answer": panels.answer(run, look.step, look.node, visit.running),
        "meters": panels.meters(run, visit.baseline, visit.source is Source.LIVE),
        "nav": controls.nav(run, look),
        "steps": step_bar(run, look.step),
        "views": controls.views(run, look),
        "tree": draft_tree(step, labels, look, root),
        "node": node_panel(run, step, labels, look.node),
        "strip_title": controls.strip_title(step, labels, parent),
        "strip": filmstrip(step, labels, parent, told),
    }


def updates(visit: Visit, look: Look, before: Look | None) -> list[Any]:
    """The new look and one update a component; what this change can't alter is skipped."""
    if look == before:
        return [look, *(gr.skip() for _ in fields(Parts))]
    drawn = render(visit, look)
    values: list[Any] = [look]
    for field in fields(Parts):
        value = drawn[field.name]
        unchanged = before is not None and (
            field.name in ("source", "meters") or (look.step == before.step and field.name in ("steps", "nav"))
        )
        values.append(gr.skip() if unchanged else value if isinstance(value, str) else figure_value(value))
    return values
