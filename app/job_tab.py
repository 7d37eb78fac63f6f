"""What every tab with a long job has: a button to start, one to stop, a line that tells, and the events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from app import faults
from app.events import LIVE, QUICK, buttons, visitor_of, wire_stop
from app.jobs import Said, carry_out
from app.notes import note_line

if TYPE_CHECKING:
    from app.jobs import Job
    from app.runner import RunSource


@dataclass(frozen=True)
class Buttons:
    """Start, stop, and the line beside them."""

    go: gr.Button
    stop: gr.Button
    note: gr.HTML


@dataclass(frozen=True)
class Show:
    """What an item of a job changes: new values for the outputs (None: nothing), and what is said.

    ``over``: this is the job's result, not a part of it.
    """

    values: list[Any] | None = None
    said: Said | None = None
    over: bool = False


def build_buttons(name: str, words: str) -> Buttons:
    """The components, in the open context; their ids begin with ``name``."""
    with gr.Row(elem_classes=["job-row"]):
        go = gr.Button(words, variant="primary", elem_id=f"{name}-go", scale=0, min_width=150)
        stop = gr.Button(
            "Stop", variant="stop", elem_id=f"{name}-stop", scale=0, min_width=150, visible=False
        )
        note = gr.HTML("", elem_id=f"{name}-note", elem_classes=["job-note"], apply_default_css=False)
    return Buttons(go, stop, note)


def wire(
    runner: RunSource,
    inputs: list[Any],
    job_from: Callable[[list[Any]], Job],
    show: Callable[[Any], Show],
    parts: Buttons,
    outputs: list[Any],
) -> None:
    """Start does the job that ``job_from`` makes of the inputs' values; ``show`` says what an item changes.

    ``job_from`` may raise errors with one plain sentence. A stopped job leaves what was shown last.
    """
    unchanged = [gr.skip()] * len(outputs)

    def start() -> list[Any]:
        return [*buttons(running=True), note_line("Waiting for its turn…")]

    def go(request: gr.Request, *values: Any) -> Iterator[list[Any]]:
        try:
            job = job_from(list(values))
        except Exception as error:
            yield [*buttons(running=False), note_line(faults.sentence(error), fault=True), *unchanged]
            return
        last = Said("Stopped.")
        for item in carry_out(runner, job, visitor_of(request)):
            now = Show(said=item) if isinstance(item, Said) else show(item)
            if now.said is not None:
                yield [gr.skip(), gr.skip(), line(now.said), *(now.values or unchanged)]
            elif now.values is not None:
                yield [gr.skip(), gr.skip(), gr.skip(), *now.values]
            last = now.said if now.said and now.said.fault else Said("Done." if now.over else "Stopped.")
        yield [*buttons(running=False), line(last), *unchanged]

    parts.go.click(start, None, [parts.go, parts.stop, parts.note], **QUICK).then(
        go,
        inputs,
        [parts.go, parts.stop, parts.note, *outputs],
        **LIVE,
    )
    wire_stop(runner, parts.stop, parts.note)


def line(said: Said) -> str:
    """A sentence as the page shows it."""
    return note_line(said.words, said.fault, said.fraction)
