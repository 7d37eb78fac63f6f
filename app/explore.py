"""The Explore tab: a run, its steps, the tree of one step, and every number behind a node.

Wiring only. What is selected is decided in :mod:`app.session`, pictures are made in :mod:`app.figures`
and :mod:`app.panels`, runs come from :mod:`app.runner`.
"""

from __future__ import annotations

from typing import Any

import gradio as gr

from app import controls, panels, session
from app.figures.residual import filmstrip, parent_of
from app.figures.steps import step_bar
from app.figures.tree import draft_tree
from app.gallery import Gallery
from app.plotly_view import figure_value, plotly_view
from app.runner import RunSource
from app.session import Look, Source, View, Visit

QUICK: dict[str, Any] = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
ACTIONS = "window.eaglePage.mountActions(element, trigger, ['act']);"


def build(demo: gr.Blocks, runner: RunSource, gallery: Gallery) -> None:
    """Adds the tab's components and events to the open Blocks context."""
    visit = first_visit(gallery)
    look = session.opening(visit.run)
    view = render(visit, look)
    visit_state, look_state = gr.State(visit), gr.State(look)

    source = _actions(view["source"], "source")
    meters = gr.HTML(view["meters"], elem_id="meters", apply_default_css=False)
    answer = _actions(view["answer"], "answer", ["card"])
    with gr.Column(elem_id="run-steps", elem_classes=["card"]):
        nav = _actions(view["nav"], "nav")
        steps = plotly_view(view["steps_figure"], elem_id="steps", label="The steps of the run")
    with gr.Row(elem_id="step-row"):
        with gr.Column(elem_id="tree-card", elem_classes=["card"], scale=5, min_width=320):
            tabs = _actions(view["views"], "views")
            tree = plotly_view(view["tree_figure"], elem_id="tree", label="The draft tree of the step", keys=True)
        with gr.Column(elem_id="node-card", elem_classes=["card"], scale=2, min_width=300):
            node = gr.HTML(view["node"], elem_id="node", apply_default_css=False)
    with gr.Column(elem_id="strip-card", elem_classes=["card"]):
        strip_title = gr.HTML(view["strip_title"], elem_id="strip-title", apply_default_css=False)
        strip = plotly_view(view["strip_figure"], elem_id="strip", label="What was left to sample from")

    parts = {
        "source": source, "meters": meters, "answer": answer, "nav": nav, "steps": steps, "views": tabs,
        "tree": tree, "node": node, "strip_title": strip_title, "strip": strip,
    }  # fmt: skip
    outputs = [look_state, *parts.values()]

    def on_event(visit: Visit, look: Look, event: gr.EventData) -> list[Any]:
        new = session.act(visit.run, look, dict(event._data or {}))
        return _updates(parts, visit, new, look)

    for part in (source, answer, nav, tabs):
        part.act(on_event, [visit_state, look_state], outputs, trigger_mode="always_last", **QUICK)

    def on_tree(visit: Visit, look: Look, event: gr.EventData) -> list[Any]:
        return _updates(parts, visit, session.act(visit.run, look, {"act": "node", "node": event.point}), look)

    def on_key(visit: Visit, look: Look, event: gr.EventData) -> list[Any]:
        return _updates(parts, visit, session.act(visit.run, look, {"act": "key", "key": event.key}), look)

    def on_step(visit: Visit, look: Look, event: gr.EventData) -> list[Any]:
        return _updates(parts, visit, session.act(visit.run, look, {"act": "step", "step": event.point}), look)

    tree.click(on_tree, [visit_state, look_state], outputs, **QUICK)
    tree.press(on_key, [visit_state, look_state], outputs, trigger_mode="multiple", **QUICK)
    steps.click(on_step, [visit_state, look_state], outputs, **QUICK)


def first_visit(gallery: Gallery) -> Visit:
    """The recorded run of the first paint."""
    name = gallery.names()[0]
    run = gallery.read(name)
    assert run is not None
    return Visit(run=run, source=Source.RECORDED, name=name)


def _actions(value: str, elem_id: str, classes: list[str] | None = None) -> gr.HTML:
    """Markup whose elements with ``data-act`` are events (``act``)."""
    return gr.HTML(value, elem_id=elem_id, elem_classes=classes, js_on_load=ACTIONS, apply_default_css=False)


def render(visit: Visit, look: Look) -> dict[str, Any]:
    """Everything on screen for a visit and a look."""
    run = visit.run
    step = session.step_of(run, look)
    labels = run.labels()
    told = look.shown if look.view is View.VERIFY else None
    parent = parent_of(step, look.node)
    root = run.steps[look.step - 1].emitted.token[-1] if look.step > 0 else None
    return {
        "source": controls.source_line(visit),
        "meters": panels.meters(run, visit.baseline, visit.source is Source.LIVE),
        "answer": panels.answer(run, look.step, look.node, visit.running),
        "nav": controls.nav(run, look),
        "steps_figure": step_bar(run, look.step),
        "views": controls.views(run, look),
        "tree_figure": draft_tree(step, labels, look, root),
        "node": panels.node_panel(run, step, labels, look.node),
        "strip_title": controls.strip_title(step, labels, parent),
        "strip_figure": filmstrip(step, labels, parent, told),
    }


def _updates(parts: dict[str, gr.HTML], visit: Visit, look: Look, before: Look) -> list[Any]:
    """One update a component; what a change of selection can't alter is skipped."""
    if look == before:
        return [look, *([gr.skip()] * len(parts))]
    drawn = render(visit, look)
    same_step = look.step == before.step
    values: list[Any] = [look]
    for name in parts:
        if name in ("source", "meters") or (same_step and name in ("steps", "nav")):
            values.append(gr.skip())
        elif f"{name}_figure" in drawn:
            values.append(figure_value(drawn[f"{name}_figure"]))
        else:
            values.append(drawn[name])
    return values
