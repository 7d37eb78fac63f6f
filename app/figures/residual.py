"""What was left to sample from: the target's distribution before each trial, as a filmstrip.

Frame by frame: what the target gave, then what remained after each rejection, then what the final
token was drawn from. Every bar is an entry of a recorded distribution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.figures.canvas import Canvas
from app.labels import name_of, plotly_text, plotly_token
from app.plotly_view import hidden_axis, make_figure
from app.session import FINAL
from app.theme import three_digits, told_apart
from eagle.trace import ROOT, Distribution, StepTrace

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

LABEL, NUMBER, GAP = 96.0, 58.0, 24.0
BAR_LENGTHS = {1: 300.0, 2: 260.0, 3: 190.0}  # of probability 1, by how many frames there are
SHORTEST_BARS = 112.0
ROW, BAR, TITLE, LEFT = 24.0, 12.0, 54.0, 4.0
REST = -1
LEAST_START = 1e-12  # a log scale starts no lower; what is smaller has no bar


@dataclass(frozen=True)
class Scale:
    """How long a probability's bar is: in proportion, or on a log scale that starts at ``start``."""

    bars: float  # of probability 1, in pixels
    start: float | None = None

    def length(self, p: float) -> float:
        if self.start is None:
            return self.bars * p
        return self.bars * (1 - math.log10(p) / math.log10(self.start)) if p > self.start else 0.0

    def decades(self) -> list[float]:
        """The powers of ten from the start of a log scale to 1."""
        if self.start is None:
            return []
        return [10.0**power for power in range(round(math.log10(self.start)), 1)]


@dataclass(frozen=True)
class Frame:
    """One picture of the strip: a distribution, what is tried or drawn from it, and what came of that."""

    title: str
    note: str
    distribution: Distribution
    offered: int
    colour: str
    gone: tuple[int, ...]

    @property
    def entries(self) -> list[tuple[int, float]]:
        """(token, probability), unlisted tokens summed at the end."""
        return [
            *zip(self.distribution.token, self.distribution.p, strict=True),
            (REST, self.distribution.rest),
        ]


def parent_of(step: StepTrace, node: int | None) -> int:
    """The node whose children the strip is about: where the selected node was tested, or the last place."""
    last = step.final.node if step.final else ROOT
    tree = step.tree
    if tree is None or node is None or node == FINAL:
        return last
    tested_below = {tree.parent[trial.node] for trial in step.trials}
    if node >= 0 and tree.parent[node] in tested_below:
        return tree.parent[node]
    return node if node in tested_below else last


def frames(step: StepTrace, labels: dict[int, str], parent: int, told: int | None = None) -> list[Frame]:
    """The frames below ``parent``; with ``told`` trials told, only what is known by then."""
    tree = step.tree
    out: list[Frame] = []
    gone: list[int] = []
    for trial in step.trials if told is None else step.trials[:told]:
        if tree is None or tree.parent[trial.node] != parent:
            continue
        token = tree.token[trial.node]
        sign, word = ("<", "accepted") if trial.accepted else ("≥", "rejected")
        draw, accept = told_apart(trial.draw, trial.accept)
        test = plotly_text(f"draw {draw} {sign} {accept}")
        note = f"{_name(labels, token)}: {test}, {word}"
        out.append(Frame(_title(labels, gone), note, trial.before, token, word, tuple(gone)))
        if not trial.accepted:
            gone.append(token)
    final = step.final
    if final is not None and final.node == parent and told is None:
        note = f"draw {three_digits(final.draw)} picks {_name(labels, final.token)}"
        out.append(Frame(_title(labels, gone), note, final.drawn_from, final.token, "final", tuple(gone)))
    return out


def _title(labels: dict[int, str], gone: list[int]) -> str:
    return f"without {_name(labels, gone[-1])}" if gone else "the target's distribution"


def _name(labels: dict[int, str], token: int) -> str:
    return plotly_token(name_of(labels, token), 12)


def lowest(step: StepTrace, labels: dict[int, str], parent: int, told: int | None = None) -> float:
    """The least probability or confidence above 0 in the strip; 1 in an empty one."""
    shown = [p for frame in frames(step, labels, parent, told) for _, p in frame.entries]
    return min((p for p in [*shown, *_confidences(step, parent).values()] if p > 0), default=1.0)


def log_start(least: float) -> float:
    """The power of ten below the least value, where a log scale starts."""
    return max(10.0 ** (math.ceil(math.log10(least)) - 1), LEAST_START)


def filmstrip(
    step: StepTrace, labels: dict[int, str], parent: int, told: int | None = None, log: bool = False
) -> Figure:
    """The strip as a figure; a single frame where nothing was rejected. ``log``: bars on a log scale."""
    strip = frames(step, labels, parent, told)
    start = log_start(lowest(step, labels, parent, told)) if log else None
    bars = BAR_LENGTHS.get(len(strip), SHORTEST_BARS)
    pitch = LABEL + bars + NUMBER + GAP
    rows = max((len(frame.entries) for frame in strip), default=1)
    width = max(LEFT * 2 + len(strip) * pitch - GAP, 300.0)
    height = TITLE + rows * ROW + 6
    canvas = Canvas()
    for index, frame in enumerate(strip):
        drawing = _Drawing(canvas, labels, LEFT + index * pitch, Scale(bars, start))
        drawing.grid(len(frame.entries))
        drawing.frame(frame, strip[index - 1] if index else None)
        if index == 0:
            drawing.confidences(frame, _confidences(step, parent))
    if not strip:
        canvas.text(LEFT, TITLE / 2, "Nothing was tried here yet.", "muted")
    return make_figure(
        canvas.traces(),
        int(height),
        alt=f"{len(strip)} distributions: "
        + "; then ".join(f"{frame.title}, {frame.note}" for frame in strip),
        min_width=int(width) if len(strip) > 1 else 0,
        xaxis=hidden_axis(range=[0, width], fixedrange=True),
        yaxis=hidden_axis(range=[height, 0], fixedrange=True),
        margin={"l": 0, "r": 0, "t": 0, "b": 0},
        dragmode=False,
        hovermode=False,
        uirevision=f"{step.index}-{parent}-{log}",
        meta={"pixels": True},
    )


def _confidences(step: StepTrace, parent: int) -> dict[int, float]:
    """The draft's confidence in each child of ``parent``, by token."""
    tree = step.tree
    return {} if tree is None else {tree.token[n]: tree.confidence[n] for n in tree.children(parent)}


@dataclass(frozen=True)
class _Drawing:
    """Where one frame goes: its left edge, and how long its bars are."""

    canvas: Canvas
    labels: dict[int, str]
    x: float
    scale: Scale

    @property
    def zero(self) -> float:
        return self.x + LABEL

    @staticmethod
    def row(index: int) -> float:
        return TITLE + (index + 0.5) * ROW

    def grid(self, rows: int) -> None:
        """On a log scale a line at every power of ten; the first and the last with their numbers."""
        decades = self.scale.decades()
        for value in decades:
            x = self.zero + self.scale.length(value)
            self.canvas.bar(x, TITLE + rows * ROW / 2, 1, rows * ROW, "line")
        for value in decades[:1] + decades[1:][-1:]:
            x = self.zero + self.scale.length(value)
            self.canvas.text(x - 4, TITLE - 5, three_digits(value), "muted", size=10.5)

    def frame(self, frame: Frame, before: Frame | None) -> None:
        """Title, note, and a row for each entry; a dotted outline shows how long its bar was before."""
        self.canvas.text(self.x, 12, frame.title, "ink", size=14, bold=True)
        self.canvas.text(self.x, 33, frame.note, "ink" if frame.colour == "final" else frame.colour)
        earlier = dict(before.entries) if before else {}
        for index, (token, p) in enumerate(frame.entries):
            y, was = self.row(index), earlier.get(token, p)
            offered, struck = token == frame.offered, token in frame.gone
            text = "all the rest" if token == REST else plotly_token(name_of(self.labels, token), 12)
            ink = _text_colour(frame, offered, struck or token == REST)
            self.canvas.text(self.zero - 3, y, text, ink, to="left", bold=offered)
            if was != p:
                self.canvas.ghost(self.zero, y, self.scale.length(was), BAR)
            if p > 0:
                colour = frame.colour if offered else "rest" if token == REST else "target"
                self.canvas.bar(self.zero, y, self.scale.length(p), BAR, colour)
            end = self.zero + self.scale.length(max(p, was)) + 1
            self.canvas.text(end, y, "out" if struck else three_digits(p), ink, bold=offered)

    def confidences(self, frame: Frame, draft: dict[int, float]) -> None:
        """A thin bar under each drafted token: what the draft thought of it."""
        for index, (token, _) in enumerate(frame.entries):
            if token in draft:
                length = self.scale.length(draft[token])
                self.canvas.bar(self.zero, self.row(index) + BAR / 2 + 2.5, length, 3, "draft")


def _text_colour(frame: Frame, offered: bool, faint: bool) -> str:
    if offered:
        return "ink" if frame.colour == "final" else frame.colour
    return "muted" if faint else "ink"
