"""The Race tab: methods decode the same prompt one after the other, then are replayed side by side.

Wiring only. The numbers are made in :mod:`eagle.race`, the markup in :mod:`app.race_view`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gradio as gr

from app import ask, job_tab, race_view, width
from app.figures.race import step_cost
from app.job_tab import Show
from app.jobs import Said, Stop
from app.plotly_view import figure_value, make_figure, plotly_view
from app.race_view import NAMES
from eagle.settings import Method, Settings, SettingsError

if TYPE_CHECKING:
    from app.gallery import Gallery
    from app.jobs import Job
    from app.runner import RunSource
    from eagle.decoder import Pair
    from eagle.race import Going, Race

ASSETS = Path(__file__).resolve().parent.parent / "assets"
RECORDED = ASSETS / "race.json"
METHODS = tuple(method for method in Method if method in ask.BUILT_IN_METHODS)
DEFAULT_PROMPT = "Why is the sky blue?"
MOST_REPEATS = 5
INTRO = (
    "Each method decodes the same prompt alone, one after the other. Then you watch them side by side at the "
    "pace that was measured."
)


@dataclass(frozen=True)
class Form:
    """The components whose values make a race, in the order their values arrive."""

    prompt: gr.Textbox
    methods: gr.CheckboxGroup
    repeats: gr.Slider
    temperature: gr.Slider
    max_new_tokens: gr.Slider
    seed: gr.Textbox
    tree: gr.Dropdown

    def inputs(self) -> list[Any]:
        return [getattr(self, field.name) for field in fields(self)]


@dataclass(frozen=True)
class Entry:
    """A checked wish for a race."""

    prompt: str
    settings: Settings
    methods: tuple[Method, ...]
    repeats: int


def entry_from(values: dict[str, Any]) -> Entry:
    """Checked values of the form; SettingsError names what is wrong."""
    chosen = values["methods"] if isinstance(values["methods"], list) else []
    methods = tuple(method for method in METHODS if method.value in chosen)
    if not methods:
        raise SettingsError("methods must name at least one: take vanilla and the one to compare with it.")
    repeats = values["repeats"]
    if not isinstance(repeats, int | float) or repeats not in range(1, MOST_REPEATS + 1):
        raise SettingsError(
            f"repeats must be a whole number from 1 to {MOST_REPEATS}, but is {repeats!r:.40}."
        )
    settings = ask.settings_from(
        {
            "method": Method.EAGLE2,
            "top_p": 1,
            "top_k": 0,
            **{name: values[name] for name in ("temperature", "seed", "max_new_tokens", "tree")},
        }
    )
    return Entry(str(values["prompt"] or ""), settings, methods, int(repeats))


# What happens.


def job_of(entry: Entry) -> Job:
    """The race as work on the pair."""

    def job(pair: Pair, stop: Stop) -> Iterator[Going | Race]:
        from eagle.decoder import with_seed
        from eagle.race import race
        from eagle.text import encode

        prompt = encode(pair.tokenizer, entry.prompt)
        yield from race(pair, prompt, with_seed(entry.settings), entry.methods, entry.repeats, stop)

    return job


def going_words(going: Going) -> Said:
    """What a race is doing, for the line under the button."""
    name = NAMES[going.method]
    if going.warming:
        return Said(f"Warming up {name}; this is not counted…", 0.0)
    words = f"Run {going.done + 1} of {going.runs}: {name} decodes, alone on the machine…"
    return Said(words, going.done / going.runs)


def shown(race: Race, live: bool) -> list[str]:
    """The contents of the four result components."""
    return [
        race_view.lanes(race, live),
        race_view.meters(race),
        figure_value(step_cost(race)),
        race_view.elsewhere(race),
    ]


# The tab.


def build(runner: RunSource, gallery: Gallery) -> None:
    """Adds the tab's components and events to the open Blocks context."""
    with gr.Column(elem_id="race-ask", elem_classes=["card"]):
        gr.HTML(f'<p class="lead">{INTRO}</p>', apply_default_css=False)
        form = _build_form()
        buttons = job_tab.build_buttons("race", "Start the race")
    first = recorded()
    values = shown(first, live=False) if first else ["", "", "", ""]
    with gr.Column(elem_id="race-card", elem_classes=["card"], visible=first is not None) as card:
        script = (ASSETS / "race.js").read_text(encoding="utf-8")
        lanes = gr.HTML(values[0], elem_id="race-lanes", js_on_load=script, apply_default_css=False)
        meters = gr.HTML(values[1], elem_id="race-meters", apply_default_css=False)
        figure = step_cost(first) if first else make_figure([], 40, alt="No race yet.")
        cost = plotly_view(figure, elem_id="race-cost", label="What a step costs under each method", order=3)
        formula = gr.HTML(values[3], elem_id="race-elsewhere", apply_default_css=False)
    names = [field.name for field in fields(form)]

    def job_from(values: list[Any]) -> Job:
        return job_of(entry_from(dict(zip(names, values, strict=True))))

    def show(item: Going | Race) -> Show:
        from eagle.race import Going

        if isinstance(item, Going):
            return Show(said=going_words(item))
        return Show(values=[gr.update(visible=True), *shown(item, live=True)], over=True)

    job_tab.wire(runner, form.inputs(), job_from, show, buttons, [card, lanes, meters, cost, formula])
    with gr.Column(elem_id="width-card", elem_classes=["card"]):
        width.build(runner, gallery)


def _build_form() -> Form:
    with gr.Row():
        prompt = gr.Textbox(DEFAULT_PROMPT, label="Prompt", lines=1, max_lines=6, scale=2, min_width=280)
        methods = gr.CheckboxGroup(
            [(NAMES[method], method.value) for method in METHODS],
            value=[Method.VANILLA.value, Method.CHAIN.value, Method.EAGLE2.value],
            label="Methods",
            min_width=420,  # all of them in one line on a wide screen
            scale=2,
        )
        repeats = gr.Slider(1, MOST_REPEATS, 2, step=1, label="Repeats", min_width=140)
    with gr.Accordion("Settings of all lanes", open=False, elem_classes=["plain-accordion"]), gr.Row():
        temperature = gr.Slider(0, 2, 0, step=0.05, label="Temperature", min_width=160)
        tokens = gr.Slider(1, 256, 64, step=1, label="Most new tokens", min_width=160)
        seed = gr.Textbox("1", label="Seed", placeholder="blank: a fresh one", max_lines=1, min_width=120)
        tree = gr.Dropdown(
            [(words, value) for words, value in ask.TREE_WORDS if value != "custom"],
            value="auto",
            allow_custom_value=True,
            label="Tree: total/levels/width",
            min_width=180,
        )
    return Form(prompt, methods, repeats, temperature, tokens, seed, tree)


def recorded() -> Race | None:
    """The race that the page shipped with, for a first look without the model; None where there is none."""
    from eagle.race import Race

    try:
        return Race.model_validate_json(RECORDED.read_bytes())
    except (OSError, ValueError):
        return None
