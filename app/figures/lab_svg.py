"""Building blocks of the lab's pictures: SVG text with percent across and em down.

Widths in percent make a picture as wide as its place, heights in em make it grow with the text, so
one picture serves a phone and a projector. Colours and strokes are classes of ``assets/lab.css``;
every mark has a word or a shape beside its colour. All text is escaped here.
"""

from __future__ import annotations

from collections.abc import Callable

from app.labels import html_text, html_token
from app.theme import three_digits


def number(value: float) -> str:
    """As printed, with all its digits on hover."""
    return f'<span class="num" title="{value:.12g}">{three_digits(value)}</span>'


def token(name: str, limit: int = 16) -> str:
    """A token as HTML, blanks made visible, the whole of it on hover."""
    return f'<b class="l-tok" title="{html_token(name)}">{html_token(name, limit)}</b>'


def figure(name: str, height: float, alt: str, body: str, extra: str = "") -> str:
    """A picture ``height`` em high. ``alt`` says in words what it shows; ``name`` names its download."""
    return (
        f'<svg class="lab-svg {extra}" data-figure="{html_text(name)}" role="img" '
        f'aria-label="{html_text(alt)}" width="100%" height="{height:g}em">{body}</svg>'
    )


def rect(x: float, y: float, width: float, height: float, css: str, key: str = "") -> str:
    """x and width in percent, y and height in em."""
    keyed = f' data-key="{html_text(key)}"' if key else ""
    return (
        f'<rect{keyed} class="{css}" x="{x:.4g}%" y="{y:g}em" width="{max(0.0, width):.4g}%" '
        f'height="{height:g}em"/>'
    )


def text(x: float, y: float, said: str, css: str = "", anchor: str = "middle") -> str:
    """Plain text, escaped; x in percent, y (baseline) in em of the picture, whatever the text's own size."""
    return (
        f'<svg x="{x:.4g}%" y="{y:g}em" overflow="visible"><text class="{css}" text-anchor="{anchor}">'
        f"{html_text(said)}</text></svg>"
    )


def line(x1: float, y1: float, x2: float, y2: float, css: str) -> str:
    return f'<line class="{css}" x1="{x1:.4g}%" y1="{y1:g}em" x2="{x2:.4g}%" y2="{y2:g}em"/>'


def block(
    x: float,
    y: float,
    width: float,
    height: float,
    css: str,
    lines: Callable[[float], tuple[str, ...]],
    anchor: str = "middle",
    hover: str = "",
    pixels: float = 560,
) -> str:
    """A box with as many words as fit it. ``lines`` gives them for a number of characters of room.

    They are chosen twice, for a picture ``pixels`` wide and for a phone; the style sheet shows one.
    The first word of ``css`` is its meaning; ``hover`` is the whole text.
    """
    at = {"start": 1.6, "end": 98.4}.get(anchor, 50)
    inner = rect(0, 0, 100, height, f"{css} box")
    wide, narrow = lines(_room(width, pixels)), lines(_room(width, PHONE))
    variants = [(wide, "")] if wide == narrow else [(wide, " for-wide"), (narrow, " for-narrow")]
    for shown, only in variants:
        top = height / 2 - 0.6 * (len(shown) - 1) + 0.32
        words = f"in-box {css.split(maxsplit=1)[0]}-text{only}"
        inner += "".join(text(at, top + 1.2 * i, said, words, anchor) for i, said in enumerate(shown) if said)
    return (
        f'<svg class="piece" x="{x:.4g}%" y="{y:g}em" width="{max(0.0, width):.4g}%" height="{height:g}em">'
        f"<title>{html_text(hover or ' '.join(wide))}</title>{inner}</svg>"
    )


PHONE = 330  # pixels


def _room(width: float, pixels: float) -> float:
    """Characters that fit ``width`` percent of so many pixels; a bold letter is about 8 wide."""
    return width / 100 * pixels / 8


def fit(room: float, *options: str) -> str:
    """The first of these texts, from long to short, that fits so many characters; or none."""
    return next((said for said in options if len(said) <= room), "")


def near(x: float) -> str:
    """The text anchor that keeps a label at x percent inside the picture."""
    return "start" if x < 12 else "end" if x > 88 else "middle"


def marker(x: float, y: float, height: float, said: str, key: str) -> str:
    """A pin at x percent: a triangle, a line at the bar's edges (the text between stays free), a label."""
    tip = f'<svg x="{x:.4g}%" y="{y:g}em" overflow="visible" class="pin" data-key="{html_text(key)}">'
    tip += '<path class="pin-head" d="M0 0 L-7 -11 L7 -11 Z"/></svg>'
    shift = {"start": 0.8, "end": -0.8}.get(near(x), 0)
    return (
        f'<g class="drop" data-key="{html_text(key)}">'
        f"{line(x, y, x, y + 0.26 * height, 'pin-line')}"
        f"{line(x, y + 0.74 * height, x, y + height, 'pin-line')}{tip}"
        f"{text(x + shift, y - 0.95, said, 'pin-text', near(x))}</g>"
    )
