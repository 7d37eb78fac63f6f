"""The panel that shows which target and head decode here, and exchanges them for another pair."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gradio as gr

from app import ask, faults, pair_choice
from app.jobs import NoModelError
from app.labels import html_text
from app.notes import note_line
from app.pair_choice import PairChoice
from app.pair_holder import NoPairError, PairStatus, State
from app.policy import ANY, VARIABLE, NotAllowedError, Policy
from app.runner import RunSource
from eagle.trace import ModelInfo, PairInfo

OTHER = "another pair, by its hub ids"


def build(runner: RunSource, policy: Policy, method: gr.Dropdown) -> gr.HTML:
    """Adds the panel to the open context; the method menu follows the pair. Returns the facts of the pair."""
    choices = pair_choice.offered(policy)
    with gr.Accordion("Model pair", open=False, elem_id="pair"):
        facts = gr.HTML(pair_facts(runner.status()), elem_id="pair-facts", apply_default_css=False)
        if len(choices) == 1 and not policy.any_id:
            gr.HTML(f'<p class="view-hint">{html_text(_closed())}</p>', apply_default_css=False)
            return facts
        labels = [choice.label for choice in choices] + ([OTHER] if policy.any_id else [])
        with gr.Row():
            menu = gr.Dropdown(labels, value=labels[0], label="Pair", min_width=320, scale=4)
            load = gr.Button("Load this pair", elem_id="load-pair", min_width=160, scale=1)
        with gr.Row(visible=False) as names:
            target = gr.Textbox("", label="Target: owner/name on the hub", max_lines=1)
            head = gr.Textbox("", label="Head: owner/name (blank: plain decoding only)", max_lines=1)
        said = gr.HTML(note_line(_what_happens()), elem_id="pair-note", apply_default_css=False)
    menu.change(
        None,
        menu,
        names,
        js=f"(label) => ({{__type__: 'update', visible: label === '{OTHER}'}})",
        show_progress="hidden",
        api_visibility="private",
    )

    def on_load(label: str, target: str, head: str) -> Iterator[list[Any]]:
        named = None if label == OTHER else next((c for c in choices if c.label == label), choices[0])
        for status, note in exchange(runner, policy, named, target, head):
            yield [note, pair_facts(status), method_update(status), gr.update(interactive=not _going(note))]

    load.click(
        on_load,
        [menu, target, head],
        [said, facts, method, load],
        show_progress="hidden",
        concurrency_limit=4,
        concurrency_id="exchange",
        api_visibility="private",
    )
    return facts


def exchange(
    runner: RunSource, policy: Policy, named: PairChoice | None, target: str, head: str
) -> Iterator[tuple[PairStatus, str]]:
    """The pair's status and a line about it, until the named pair (or the typed one) is there or refused."""
    try:
        choice = named or pair_choice.typed(policy, target, head)
        for status in runner.exchange(choice):
            yield status, note_line(status.words, fraction=status.fraction)
    except (NoPairError, NotAllowedError, NoModelError) as error:
        yield runner.status(), note_line(f"{faults.public(str(error))} {_still(runner.status())}", fault=True)
        return
    yield runner.status(), note_line(runner.status().words)


def method_update(status: PairStatus) -> Any:
    """The method menu for the pair that is there; nothing while none is."""
    if status.state is not State.READY or not status.methods:
        return gr.skip()
    best = status.methods[-1]
    return gr.update(choices=ask.method_choices(status.methods), value=best.value)


def pair_facts(status: PairStatus) -> str:
    """What decodes here, as a short list; the status's words while nothing is loaded."""
    if status.info is None:
        return f'<p class="view-hint">{html_text(status.words)}</p>'
    return f'<ul class="facts">{"".join(f"<li>{line}</li>" for line in _lines(status.info))}</ul>'


def _lines(info: PairInfo) -> Iterator[str]:
    yield f"<b>Target</b> {_model(info.target)}"
    if info.head is None:
        yield "<b>Head</b> none: this pair decodes plainly, one token a pass"
    else:
        vocabulary = (
            f"; it can propose the {info.draft_vocabulary:,} most frequent tokens"
            if info.draft_vocabulary
            else ""
        )
        yield f"<b>Head</b> {_model(info.head)}{vocabulary}"
    yield from (html_text(note) for note in info.notes)


def _model(model: ModelInfo) -> str:
    weights = "8-bit weights" if model.weights == "int8" else model.dtype
    source = f", sha256 {model.hash[:12]}…" if model.hash else ""
    size = f"{model.parameters / 1e6:,.1f} million parameters"
    return html_text(f"{model.name}: {size}, {weights}, on {model.device}{source}")


def _going(note: str) -> bool:
    return "…" in note and "fault" not in note


def _still(status: PairStatus) -> str:
    return f"The page keeps {status.info.target.name}." if status.info else ""


def _what_happens() -> str:
    return (
        "Loading waits for the run in progress; while it loads nobody can decode. A pair that can not be "
        "loaded leaves the one that is there."
    )


def _closed() -> str:
    return (
        "This server decodes with this pair only. Whoever runs it can offer others: "
        f"python app.py --models known-pairs, --models {ANY}, or the variable {VARIABLE}."
    )
