"""The components that show a run, and what they show for a visit and a look."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import gradio as gr

from app import controls, panels, session
from app.figures import overview as over
from app.figures.candidates import candidates
from app.figures.residual import filmstrip, parent_of
from app.figures.steps import step_bar
from app.figures.tree import draft_tree
from app.node_panel import node_panel
from app.overview import overview
from app.plotly_view import figure_value, plotly_view
from app.session import Look, Source, View, Visit

ACTIONS = "window.eaglePage.mountActions(element, trigger, watch); // 'act'"
LINK = "watch('value', () => window.eaglePage.setQuery(props.value));"


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
    candidates: gr.HTML
    node: gr.HTML
    strip_title: gr.HTML
    strip: gr.HTML
    over_line: gr.HTML
    calibration: gr.HTML
    levels: gr.HTML
    lengths: gr.HTML
    link: gr.HTML

    def all(self) -> list[gr.HTML]:
        return [getattr(self, field.name) for field in fields(self)]


# What a change of selection can not alter; the rest of the names depend on the step or the node.
OF_THE_RUN = frozenset({"source", "meters", "over_line", "calibration", "levels", "lengths"})
OF_THE_STEP = frozenset({"nav", "steps"})
WHILE_RUNNING = ("source", "answer", "meters", "nav")


def actions(value: str, elem_id: str) -> gr.HTML:
    """Markup whose elements with ``data-act`` are events (``act``)."""
    return gr.HTML(value, elem_id=elem_id, js_on_load=ACTIONS, apply_default_css=False)


def build_parts(drawn: dict[str, Any]) -> Parts:
    """The components in the open context, showing ``drawn``."""
    made: dict[str, gr.HTML] = {}

    def act(name: str) -> None:
        made[name] = actions(drawn[name], name.replace("_", "-"))

    def plain(name: str) -> None:
        made[name] = gr.HTML(drawn[name], elem_id=name.replace("_", "-"), apply_default_css=False)

    def figure(name: str, label: str, **more: Any) -> None:
        made[name] = plotly_view(drawn[name], elem_id=name, label=label, **more)

    with gr.Column(elem_id="run-card", elem_classes=["card"]):
        act("source")
        act("answer")
        plain("meters")
    with gr.Column(elem_id="steps-card", elem_classes=["card"]):
        act("nav")
        figure("steps", "The steps of the run", order=2)
    with gr.Row(elem_id="step-row"):
        with gr.Column(elem_id="tree-card", elem_classes=["card"], min_width=0):
            act("views")
            figure("tree", "The draft tree of the step", keys=True, order=0)
            figure("candidates", "Everything drafted, kept and cut", visible=False)
        with gr.Column(elem_id="node-card", elem_classes=["card"], min_width=0):
            act("node")
    with gr.Column(elem_id="strip-card", elem_classes=["card"]):
        act("strip_title")
        figure("strip", "What was left to sample from")
    with gr.Column(elem_id="over-card", elem_classes=["card"]):
        plain("over_line")
        with gr.Row(elem_id="over-row"):
            for name, title in (
                ("calibration", "Does confidence keep its word?"),
                ("levels", "How deep do guesses carry?"),
                ("lengths", "Tokens from one pass"),
            ):
                with gr.Column(min_width=0):
                    gr.HTML(f"<h3>{title}</h3>", apply_default_css=False)
                    figure(name, title, order=3)
    made["link"] = gr.HTML(
        drawn["link"], elem_id="link", visible="hidden", js_on_load=LINK, apply_default_css=False
    )
    return Parts(**made)


def render(visit: Visit, look: Look, run_too: bool = True) -> dict[str, Any]:
    """Everything on screen: markup and figures. Without ``run_too`` only what a selection alters."""
    run = visit.run
    step = session.step_of(run, look)
    labels = run.labels()
    told = controls.told_in(look)
    parent = parent_of(step, look.node)
    root = run.steps[look.step - 1].emitted.token[-1] if look.step > 0 else None
    drawn: dict[str, Any] = {
        "answer": panels.answer(run, look.step, look.node, visit.running),
        "nav": controls.nav(run, look, behind=visit.running and look.follow),
        "steps": step_bar(run, look.step),
        "views": controls.views(run, look),
        "tree": draft_tree(step, labels, look, root),
        "candidates": candidates(step.tree if cut_shown(look) else None, labels),
        "node": node_panel(run, step, labels, look.node),
        "strip_title": controls.strip_title(step, labels, parent, look),
        "strip": filmstrip(step, labels, parent, told, look.log),
        "link": controls.query(visit, look),
    }
    if run_too:
        counts = overview(run)
        drawn |= {
            "source": controls.source_line(visit),
            "meters": panels.meters(run, visit.baseline, visit.source is Source.LIVE),
            "over_line": panels.over_line(counts),
            "calibration": over.calibration(counts),
            "levels": over.levels(counts),
            "lengths": over.lengths(counts, run.tau),
        }
    return drawn


def values(visit: Visit, look: Look, run_too: bool = True) -> dict[str, str]:
    """What :func:`render` draws, as the components' values. A recorded run's are shared by all visitors:
    a class that steps through one run has each picture drawn once."""
    if visit.source is Source.RECORDED and not visit.running:
        return _recorded_values(_Same(visit), look, run_too)
    return _values(visit, look, run_too)


def _values(visit: Visit, look: Look, run_too: bool) -> dict[str, str]:
    drawn = render(visit, look, run_too)
    return {name: value if isinstance(value, str) else figure_value(value) for name, value in drawn.items()}


@dataclass(frozen=True, eq=False)
class _Same:
    """A visit by the identity of its run, as the key of what is drawn of it: comparing contents is slow."""

    visit: Visit

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[int, int, str | None]:
        return id(self.visit.run), id(self.visit.baseline), self.visit.name


@lru_cache(maxsize=400)  # at most about 60 kB each
def _recorded_values(same: _Same, look: Look, run_too: bool) -> dict[str, str]:
    return _values(same.visit, look, run_too)


def cut_shown(look: Look) -> bool:
    """Whether what rerank cut is on screen."""
    return look.cut and look.view is View.DRAFT


def updates(visit: Visit, look: Look, before: Look | None) -> list[Any]:
    """The new look and one update a component; ``before`` None means that the run changed too."""
    if look == before:
        return [look, *(gr.skip() for _ in fields(Parts))]
    drawn = values(visit, look, run_too=before is None)
    skipped: frozenset[str] = frozenset()
    if before is not None:
        same_step = look.step == before.step and look.follow == before.follow
        skipped = OF_THE_RUN | (OF_THE_STEP if same_step else frozenset())
    out: list[Any] = [look]
    for field in fields(Parts):
        if field.name in skipped:
            out.append(gr.skip())
        elif field.name == "candidates":
            out.append(gr.update(value=drawn["candidates"], visible=cut_shown(look)))
        else:
            out.append(drawn[field.name])
    return out


def progress(visit: Visit, look: Look) -> list[Any]:
    """The look, then what ``WHILE_RUNNING`` names: a run's text and numbers while it decodes.

    Drawing takes the cores that the run is timed on, in this process and in a browser on the same machine.
    So pictures wait until the timing is over, or until somebody asks for a step.
    """
    run = visit.run
    drawn = {
        "source": controls.source_line(visit),
        "answer": panels.answer(run, look.step, look.node, visit.running),
        "meters": panels.meters(run, visit.baseline, live=True, waiting="not timed yet"),
        "nav": controls.nav(run, look, behind=look.follow),
    }
    return [look, *(drawn[name] for name in WHILE_RUNNING)]
