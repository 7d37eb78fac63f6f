"""How events of the page reach the server, who sent them, and what Start and Stop have in common."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import gradio as gr

from app.crowd import LIVE_AT_ONCE
from app.notes import note_line

if TYPE_CHECKING:
    from app.runner import RunSource

# Answered at once, past gradio's queue: nothing here waits for the model.
QUICK: dict[str, Any] = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
# They wait in the runner's line, which tells their place, so gradio lets many in at a time.
LIVE: dict[str, Any] = {
    "show_progress": "hidden",
    "concurrency_limit": LIVE_AT_ONCE,
    "concurrency_id": "model",
    "api_visibility": "private",
}


def visitor_of(request: gr.Request) -> str:
    """The browser session's name, which stops only its own runs."""
    return request.session_hash or "nobody"


def buttons(running: bool) -> list[Any]:
    """Updates of a Start and a Stop button, of which one is seen."""
    return [gr.update(visible=not running), gr.update(visible=running)]


def wire_stop(runner: RunSource, stop: gr.Button, note: gr.HTML) -> None:
    """The button ends what this visitor has running, and says so before the server has heard of it."""

    def halt(request: gr.Request) -> None:
        runner.stop(visitor_of(request))

    stop.click(None, None, note, js=f"() => {json.dumps(note_line('Stopping after this step…'))}", **QUICK)
    stop.click(halt, None, None, **QUICK)
