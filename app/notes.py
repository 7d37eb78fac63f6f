"""The line under the prompt: what is going on, or what is wrong."""

from __future__ import annotations

from app.labels import html_text


def note_line(words: str, fault: bool = False, fraction: float | None = None, gives_way: bool = False) -> str:
    """One sentence, with a bar where a fraction is known; ``gives_way`` hides it beside another note."""
    bar = "" if fraction is None else f'<progress max="1" value="{fraction:.3f}"></progress>'
    kind = "note-line" + " fault" * fault + " gives-way" * gives_way
    return f'<div class="{kind}" role="status">{html_text(words)}{bar}</div>'
