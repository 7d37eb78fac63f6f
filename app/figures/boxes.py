"""Boxes with a label, a number and bars, joined by curves: few traces however many boxes.

Annotations and shapes are drawn one by one and get slow with their number; one trace that holds many
outlines with gaps between them does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from app import theme

CORNER = 6.0
BAR = 3.0
LOW = 28.0  # a lower box has smaller text
FIRST_LINE, LINE = 12.0, 14.5  # where the lines of a box with several stand
CURVE = (0.0, 0.12, 0.25, 0.38, 0.5, 0.62, 0.75, 0.88, 1.0)
Path = tuple[list[float | None], list[float | None]]


@dataclass(frozen=True)
class Box:
    """One node. ``bar`` and ``second_bar`` are lengths from 0 to 1; texts are already escaped."""

    node: int
    x: float
    y: float
    width: float
    height: float
    style: str
    label: str
    number: str = ""
    bar: float | None = None
    second_bar: float | None = None
    caption: str = ""
    hover: str = ""

    @property
    def middle(self) -> float:
        return self.y + self.height / 2

    @property
    def centre(self) -> float:
        return self.x + self.width / 2


@dataclass(frozen=True)
class Style:
    """Names of colours: outline, inside, text; the outline's width and dash; bold text or not."""

    line: str
    fill: str
    text: str
    width: float = 1.0
    dash: str = "solid"
    bold: bool = False


STYLES: dict[str, Style] = {
    "draft": Style("draft", "card", "ink"),
    "accepted": Style("accepted", "accepted_fill", "ink", 2.2, "solid", True),
    "rejected": Style("rejected", "rejected_fill", "ink", 1.6, "dash"),
    "not_tested": Style("line", "not_tested_fill", "not_tested"),
    "emitted": Style("accepted", "accepted", "on_final", 2.0, "solid", True),
    "passed_over": Style("line", "not_tested_fill", "cut"),
    "root": Style("edge", "sunken", "ink", 1.0, "solid", True),
    "final": Style("final", "final", "on_final", 1.5, "solid", True),
}
NUMBERS = {"emitted": "on_final", "passed_over": "cut"}
CAPTIONS = {"accepted": "accepted", "rejected": "rejected", "final": "ink", "emitted": "accepted"}


def draw_boxes(
    boxes: Sequence[Box], edges: Iterable[tuple[Box, Box, bool]], chosen: Box | None, *, down: bool = False
) -> list[dict[str, Any]]:
    """Plotly traces, back to front: curves, boxes, bars, texts, the selection, and what reacts to clicks.

    ``edges`` holds (parent, child, bold). ``down``: curves run downwards, and each box holds its texts
    in lines, one below the other.
    """
    return [
        *_edges(list(edges), down),
        *_outlines(boxes),
        *_bars(boxes),
        *(_lines_of_text(boxes) if down else _texts(boxes)),
        *_selection(chosen),
        _targets(boxes),
    ]


def _line(
    path: Path, colour: str, width: float, dash: str = "solid", fill: str | None = None
) -> dict[str, Any]:
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "lines",
        "x": path[0],
        "y": path[1],
        "hoverinfo": "skip",
        "cliponaxis": False,
        "line": {"color": theme.light(colour), "width": width, "dash": dash},
    }
    if fill is not None:
        trace |= {"fill": "toself", "fillcolor": theme.light(fill)}
    return trace


def _edges(edges: list[tuple[Box, Box, bool]], down: bool) -> list[dict[str, Any]]:
    thin: Path = ([], [])
    bold: Path = ([], [])
    for parent, child, strong in edges:
        path = bold if strong else thin
        x0, y0, x1, y1 = parent.x + parent.width, parent.middle, child.x, child.middle
        if down:
            x0, y0, x1, y1 = parent.centre, parent.y + parent.height, child.centre, child.y
        for t in CURVE:
            ease = t * t * (3 - 2 * t)
            path[0].append(round(x0 + (x1 - x0) * (ease if down else t), 1))
            path[1].append(round(y0 + (y1 - y0) * (t if down else ease), 1))
        path[0].append(None)
        path[1].append(None)
    out = []
    if thin[0]:
        out.append(_line(thin, "edge", 1.2))
    if bold[0]:
        out.append(_line(bold, "accepted", 3.5))
    return out


def _rounded(path: Path, x: float, y: float, width: float, height: float, corner: float = CORNER) -> None:
    """Adds a closed outline with cut corners to the path."""
    c, k = min(corner, width / 2, height / 2), 0.29 * min(corner, width / 2, height / 2)
    right, bottom = x + width, y + height
    xs = [x + c, right - c, right - k, right, right, right - k, right - c, x + c, x + k, x, x, x + k, x + c]
    ys = [y, y, y + k, y + c, bottom - c, bottom - k, bottom, bottom, bottom - k, bottom - c, y + c, y + k, y]
    path[0].extend([*(round(v, 1) for v in xs), None])
    path[1].extend([*(round(v, 1) for v in ys), None])


def _outlines(boxes: Sequence[Box]) -> list[dict[str, Any]]:
    paths: dict[str, Path] = {}
    for box in boxes:
        _rounded(paths.setdefault(box.style, ([], [])), box.x, box.y, box.width, box.height)
    out = []
    for name, path in paths.items():
        style = STYLES[name]
        out.append(_line(path, style.line, style.width, style.dash, style.fill))
    return out


def _bars(boxes: Sequence[Box]) -> list[dict[str, Any]]:
    """The draft's confidence, and under it the target's probability, along the lower edge of the box."""
    out = []
    for field, colour, above in (("bar", "draft", 1), ("second_bar", "target", 0)):
        path: Path = ([], [])
        for box in boxes:
            share = getattr(box, field)
            if share is None or box.style in ("emitted", "passed_over"):
                continue
            both = box.second_bar is not None
            y = box.y + box.height - 3.5 - BAR - (above * (BAR + 0.5) if both else 0)
            x0 = box.x + 7
            x1 = x0 + (box.width - 14) * share
            path[0].extend([x0, round(x1, 1), round(x1, 1), x0, x0, None])
            path[1].extend([y, y, y + BAR, y + BAR, y, None])
        if path[0]:
            out.append(_line(path, colour, 0.0, fill=colour))
    return out


def _texts(boxes: Sequence[Box]) -> list[dict[str, Any]]:
    numbered = [box for box in boxes if box.number]
    captioned = [box for box in boxes if box.caption]
    low = any(box.height < LOW for box in boxes)
    out = [
        _text(
            [(box.x + 3, box.middle - _lift(box)) for box in boxes],
            [f"<b>{box.label}</b>" if STYLES[box.style].bold else box.label for box in boxes],
            [STYLES[box.style].text for box in boxes],
            "right",
            12 if low else 13,
        )
    ]
    if numbered:
        places = [(box.x + box.width - 4, box.middle - _lift(box)) for box in numbered]
        colours = [NUMBERS.get(box.style, "draft") for box in numbered]
        out.append(_text(places, [box.number for box in numbered], colours, "left", 11 if low else 12))
    if captioned:
        places = [(box.x - 1, box.y + box.height + 9) for box in captioned]
        colours = [CAPTIONS.get(box.style, "muted") for box in captioned]
        out.append(_text(places, [box.caption for box in captioned], colours, "right", 11.5))
    return out


def _lines_of_text(boxes: Sequence[Box]) -> list[dict[str, Any]]:
    """Label, number and caption of each box in centred lines from its top."""
    out = []
    lines: dict[str, list[tuple[float, float, str, str]]] = {"label": [], "number": [], "caption": []}
    for box in boxes:
        y = box.y + FIRST_LINE
        label = f"<b>{box.label}</b>" if STYLES[box.style].bold else box.label
        lines["label"].append((box.centre, y, label, STYLES[box.style].text))
        if box.number:
            y += LINE
            lines["number"].append((box.centre, y, box.number, NUMBERS.get(box.style, "draft")))
        if box.caption:
            ink = STYLES[box.style].text if box.style == "final" else CAPTIONS.get(box.style, "muted")
            lines["caption"].append((box.centre, y + LINE, box.caption, ink))
    for name, size in (("label", 12), ("number", 12), ("caption", 10.5)):
        if rows := lines[name]:
            places = [(x, y) for x, y, _, _ in rows]
            out.append(_text(places, [row[2] for row in rows], [row[3] for row in rows], "center", size))
    return out


def _text(
    places: list[tuple[float, float]], texts: list[str], colours: list[str], runs_to: str, size: float
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "text",
        "x": [x for x, _ in places],
        "y": [y for _, y in places],
        "text": texts,
        "textposition": f"middle {runs_to}",
        "hoverinfo": "skip",
        "cliponaxis": False,
        "textfont": {"size": size, "color": [theme.light(colour) for colour in colours]},
    }


def _lift(box: Box) -> float:
    """How far a box's text moves up to make room for its bars."""
    if box.bar is None:
        return 0.0
    return 4.0 if box.second_bar is not None else 2.5


def _selection(chosen: Box | None) -> list[dict[str, Any]]:
    if chosen is None:
        return []
    path: Path = ([], [])
    _rounded(path, chosen.x - 3.5, chosen.y - 3.5, chosen.width + 7, chosen.height + 7, CORNER + 3)
    return [_line(path, "selection", 2.4)]


def _targets(boxes: Sequence[Box]) -> dict[str, Any]:
    """Unseen markers along each box that take the hover and the click; customdata is the node."""
    shares = (0.12, 0.37, 0.63, 0.88)
    return {
        "type": "scatter",
        "mode": "markers",
        "cliponaxis": False,
        "x": [round(box.x + box.width * share, 1) for box in boxes for share in shares],
        "y": [box.middle for box in boxes for _ in shares],
        "customdata": [box.node for box in boxes for _ in shares],
        "hovertext": [box.hover for box in boxes for _ in shares],
        "hoverinfo": "text",
        "marker": {"size": 26, "opacity": 0, "color": theme.light("accent")},
    }
