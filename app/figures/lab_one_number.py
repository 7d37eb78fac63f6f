"""Why it works, as a picture: one bar read with one number u, and the trials as magnified rests of it."""

from __future__ import annotations

from collections.abc import Sequence

from app.figures.lab_svg import block, figure, fit, marker, text
from app.labels import quoted
from app.theme import three_digits
from eagle.rules import Array, OneNumber

TOP, HEIGHT, GAP = 2.3, 2.1, 4.4


def one_number_figure(
    names: Sequence[str], p: Array, tokens: Sequence[int], read: OneNumber, u: float
) -> str:
    """The whole bar above; below it each trial, which is the part right of the last cut, stretched to 1."""
    rest = [i for i in range(len(names)) if i not in tokens and p[i] > 0]
    order = [*tokens, *rest]
    body = _bar(names, p, order, set(tokens), TOP, read.token)
    body += marker(100 * u, TOP, HEIGHT, f"u = {three_digits(u)}", "u")
    left = p.astype(float)
    y, u_now = TOP, u
    for level, draw in enumerate(read.draws[1:], 1):
        gone = tokens[level - 1]
        cut = float(left[gone])
        below = y + HEIGHT + GAP
        body += _stretch(cut, y + HEIGHT, below)
        rest_mass = float(left.sum()) - cut
        left = left.copy()
        left[gone] = 0.0
        left = left / rest_mass if rest_mass > 0 else left
        body += _bar(names, left, order, set(tokens), below, read.token)
        c = three_digits(cut)
        formula = f"({three_digits(u_now)} − {c}) / (1 − {c}) = {three_digits(draw)}"
        body += marker(100 * draw, below, HEIGHT, formula, f"u{level}")
        y, u_now = below, draw
    verdict = "accepted" if read.accepted is not None else "the last draw"
    alt = (
        f"u = {three_digits(u)} falls in the piece of {quoted(names[read.token])}; tried one by one, "
        f"the same token comes out ({verdict})."
    )
    return figure("one number", y + HEIGHT + 0.6, alt, body, "one-number")


def _bar(
    names: Sequence[str], p: Array, order: Sequence[int], children: set[int], y: float, chosen: int
) -> str:
    body, left = "", 0.0
    for i in order:
        width = float(p[i])
        if width <= 0:
            continue
        css = "accept" if i in children else "final-piece"
        mark = "✓" if i in children else "◆"
        name = quoted(names[i], 10)[1:-1]
        css += " chosen" if i == chosen else ""
        body += _piece(left, y, width, css, (f"{mark} {name} {three_digits(width)}", name, mark))
        left += width
    return body


def _piece(left: float, y: float, width: float, css: str, options: tuple[str, ...]) -> str:
    def lines(room: float) -> tuple[str, ...]:
        return (fit(room, *options),)

    return block(100 * left, y, 100 * width, HEIGHT, css, lines, hover=options[0], pixels=1000)


def _stretch(cut: float, y1: float, y2: float) -> str:
    """The trapezium between the part right of the cut and the whole bar below it."""
    tall = y2 - y1
    shape = f"M{100 * cut:.4g} 0 L100 0 L100 100 L0 100 Z"
    words = text(50, y1 + 1.25, "cut off the first piece, stretch the rest to length 1", "stretch-text")
    return (
        f'<svg y="{y1:g}em" width="100%" height="{tall:g}em" viewBox="0 0 100 100" '
        f'preserveAspectRatio="none">'
        f'<path class="stretch" d="{shape}"/></svg>'
    ) + (words if cut > 0 else "")
