"""The unit bars: one trial's accept and reject pieces, a draw cut by tokens, and the bar of one number."""

from __future__ import annotations

from collections.abc import Sequence

from app.figures.lab_svg import block, figure, fit, marker, near, rect, text
from app.labels import quoted
from app.theme import three_digits
from eagle.rules import Array

TOP, HEIGHT, BELOW = 2.1, 2.0, 1.35  # em
PIXELS = 340  # the usual width of such a bar


def trial_bar(name: str, accept: float, draw: float | None, *, hidden: bool = False, key: str = "t") -> str:
    """[0, 1) cut at the accept probability; the draw, once it has fallen, as a pin.

    ``hidden`` leaves the cut out, for a prediction still to be made.
    """
    cut = 100 * accept
    if hidden:
        body = block(0, TOP, 100, HEIGHT, "unknown", lambda room: ("where is the cut?",))
        alt = f"The bar for {quoted(name)}; the cut is hidden until you have predicted."
    else:
        yes, no = f"✓ accept {three_digits(accept)}", f"✗ reject {three_digits(1 - accept)}"
        body = block(0, TOP, cut, HEIGHT, "accept", lambda room: (fit(room, yes, "✓"),), "start", yes, PIXELS)
        body += block(
            cut, TOP, 100 - cut, HEIGHT, "reject", lambda room: (fit(room, no, "✗"),), "end", no, PIXELS
        )
        body += _ticks([accept])
        alt = f"A bar of length 1 for {quoted(name)}: accepted below {three_digits(accept)}."
    if draw is not None:
        body += marker(100 * draw, TOP, HEIGHT, f"r = {three_digits(draw)}", f"{key}-pin")
        alt += f" The draw is {three_digits(draw)}."
    return figure(f"trial {name}", TOP + HEIGHT + BELOW, alt, body, "unit-bar")


def draw_bar(
    names: Sequence[str], p: Array, draw: float | None, chosen: int | None, css: str, what: str, key: str
) -> str:
    """[0, 1) cut in token order by p [V]: where a draw picks a token. ``css`` is its colour's class."""
    body, left, edges = "", 0.0, []
    for i, name in enumerate(names):
        width = float(p[i])
        if width > 0:
            mark = f"{css} chosen" if i == chosen else css
            body += _piece(left, width, mark, name)
            left += width
            edges.append(left)
    body += _ticks(edges[:-1])
    said = ", ".join(
        f"{quoted(name)} {three_digits(float(p[i]))}" for i, name in enumerate(names) if p[i] > 0
    )
    alt = f"A bar of length 1 for {what}: {said}."
    if draw is not None:
        body += marker(100 * draw, TOP, HEIGHT, f"r = {three_digits(draw)}", f"{key}-pin")
        alt += f" The draw is {three_digits(draw)}."
    return figure(what, TOP + HEIGHT + BELOW, alt, body, "unit-bar")


def _piece(left: float, width: float, css: str, name: str) -> str:
    share, word = three_digits(width), _short(name)

    def lines(room: float) -> tuple[str, ...]:
        return (fit(room, f"{word} {share}", word, share),)

    hover = f"{word} {share}"
    return block(100 * left, TOP, 100 * width, HEIGHT, css, lines, hover=hover, pixels=PIXELS)


def _short(name: str) -> str:
    bare = quoted(name, 10)
    return bare[1:-1]


def _ticks(cuts: Sequence[float]) -> str:
    """0, 1 and the cuts, under the bar; cuts too near to another label are left to the pieces' own text."""
    y = TOP + HEIGHT + 1.05
    out = text(0, y, "0", "tick", "start") + text(100, y, "1", "tick", "end")
    last = 0.0
    for cut in cuts:
        if 0.05 < cut < 0.95 and cut - last > 0.07:
            out += rect(100 * cut - 0.05, TOP + HEIGHT, 0.1, 0.25, "tick-mark")
            out += text(100 * cut, y, three_digits(cut), "tick", near(100 * cut))
            last = cut
    return out
