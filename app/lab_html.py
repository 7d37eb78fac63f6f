"""Small pieces of the lab's HTML. Everything that a visitor typed is escaped here or in ``app.labels``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from app.labels import html_text


def act(**action: Any) -> str:
    """The attribute that makes an element send an action: ``data-act='{"do": ...}'``."""
    return f'data-act="{html_text(json.dumps(action))}"'


def button(
    words: str, css: str = "", *, key: str = "", disabled: bool = False, label: str = "", **action: Any
) -> str:
    """A button that sends an action; ``key`` is shown as its key on the keyboard. ``words`` are escaped."""
    kbd = f" <kbd>{html_text(key)}</kbd>" if key else ""
    off = " disabled" if disabled else ""
    aria = f' aria-label="{html_text(label)}"' if label else ""
    return (
        f'<button type="button" class="btn {css}" {act(**action)}{off}{aria}>{html_text(words)}{kbd}</button>'
    )


def toggle(words: str, pressed: bool, css: str = "", *, key: str = "", **action: Any) -> str:
    """A button that is on or off."""
    kbd = f" <kbd>{html_text(key)}</kbd>" if key else ""
    state = "true" if pressed else "false"
    return (
        f'<button type="button" class="btn toggle {css}" aria-pressed="{state}" {act(**action)}>'
        f"{html_text(words)}{kbd}</button>"
    )


def select(label: str, options: Mapping[str, str], chosen: str, css: str = "", **action: Any) -> str:
    """A menu; its value is sent as ``v``."""
    inner = "".join(
        f"<option "
        f'value="{html_text(value)}"{" selected" if value == chosen else ""}>{html_text(words)}</option>'
        for value, words in options.items()
    )
    return (
        f'<label class="field {css}"><span>{html_text(label)}</span>'
        f'<select {act(**action)} data-value="{html_text(chosen)}">{inner}</select></label>'
    )


def number_box(value: str, label: str, css: str = "", **action: Any) -> str:
    """A field for a number, sent as ``v`` when it is left or on Enter."""
    return (
        f'<input type="text" inputmode="decimal" autocomplete="off" spellcheck="false" class="box-in {css}" '
        f'value="{html_text(value)}" aria-label="{html_text(label)}" {act(**action)}>'
    )


def slider(
    value: float, low: float, high: float, step: float, label: str, css: str = "", **action: Any
) -> str:
    """A range; its value is sent as ``v`` while it moves."""
    return (
        f'<input type="range" class="range {css}" min="{low:g}" max="{high:g}" step="{step:g}" '
        f'value="{value:.6g}" aria-label="{html_text(label)}" {act(**action)}>'
    )


def card(title: str, body: str, css: str = "", extra: str = "") -> str:
    """A titled part of the page; ``title`` and ``body`` are HTML."""
    head = f'<header class="card-head"><h3>{title}</h3>{extra}</header>'
    return f'<section class="lab-card {css}">{head}{body}</section>'


def table(head: Iterable[str], rows: Iterable[Iterable[str]], css: str = "") -> str:
    """A table of HTML cells; the first of each row is its header."""
    top = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    body = ""
    for cells in rows:
        first, *others = cells
        body += f'<tr><th scope="row">{first}</th>' + "".join(f"<td>{cell}</td>" for cell in others) + "</tr>"
    return f'<table class="{css}"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>'


def save_buttons() -> str:
    """SVG and PNG of the picture in the nearest element of class ``pictured``."""
    one = (
        '<button type="button" class="btn l-small plain" data-local="{0}" '
        'aria-label="Save the picture as {1}">{1}</button>'
    )
    return f'<span class="save">save {one.format("svg", "SVG")}{one.format("png", "PNG")}</span>'
