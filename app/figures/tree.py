"""The draft tree of one step: a box a node, levels left to right, the accepted path straight and bold.

Coordinates are pixels: x to the right, y downwards. One figure for the three views; what differs is
which boxes are told yet and how they look (``_Story``).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app import theme
from app.figures.boxes import Box, draw_boxes
from app.figures.layout import Placed, place
from app.labels import name_of, plotly_text, plotly_token, shorten, visible
from app.plotly_view import hidden_axis, make_figure
from app.session import FINAL, Look, View
from app.theme import three_digits
from eagle.trace import ROOT, Status, StepTrace, Trial

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

ROOM = 808  # the width that the tree has beside its panel on a 1280 pixel screen
GAP = 22
PITCHES = (114, 172)  # from one column to the next, least and most
HEADER = 30
EDGE_PADDING = 6
MANY_NODES = 24  # more than this, and boxes get lower
CHARACTER = 7.0  # a generous mean width of the label's characters


def draft_tree(step: StepTrace, labels: dict[int, str], look: Look, root: int | None = None) -> Figure:
    """The tree of ``step`` as ``look`` tells it; ``root`` is the last token where the step has no tree."""
    if step.tree is None:
        return _no_tree(step, labels, look, root)
    placed = place(step)
    pitch = min(max(ROOM // placed.columns, PITCHES[0]), PITCHES[1])
    low = len(step.tree) > MANY_NODES
    story = _Story.of(step, look)
    tops, bottom = _row_tops(placed, story, low)
    boxes = [
        _box(step, labels, story, node, EDGE_PADDING + placed.column[node] * pitch, tops[placed.row[node]],
             pitch - GAP, low)
        for node in placed.order if story.visible(node)
    ]  # fmt: skip
    width = EDGE_PADDING * 2 + placed.columns * pitch - GAP
    return _figure(boxes, placed, story, look, step, width, bottom, pitch)


@dataclass(frozen=True)
class _Story:
    """Which trials and levels are told."""

    step: StepTrace
    view: View
    trials: dict[int, Trial]
    order: dict[int, int]
    levels: int | None
    final: bool

    @classmethod
    def of(cls, step: StepTrace, look: Look) -> _Story:
        told = step.trials
        if look.view is View.VERIFY and look.shown is not None:
            told = told[: look.shown]
        if look.view is View.DRAFT:
            told = []
        return cls(
            step=step,
            view=look.view,
            trials={trial.node: trial for trial in told},
            order={trial.node: index for index, trial in enumerate(step.trials)},
            levels=look.shown if look.view is View.DRAFT else None,
            final=step.final is not None and look.view is not View.DRAFT and look.shown is None,
        )

    def visible(self, node: int) -> bool:
        if node == FINAL:
            return self.final
        if node == ROOT or self.levels is None or self.step.tree is None:
            return True
        return self.step.tree.depth[node] <= self.levels

    def status(self, node: int) -> Status | None:
        """What is known of a node by now; None in the draft view, where nothing is judged."""
        if self.view is View.DRAFT:
            return None
        trial = self.trials.get(node)
        if trial is None:
            return Status.NOT_TESTED
        return Status.ACCEPTED if trial.accepted else Status.REJECTED

    def has_caption(self, node: int) -> bool:
        return self.view is View.VERIFY and node in self.order


def _row_tops(placed: Placed, story: _Story, low: bool) -> tuple[list[float], float]:
    """The top of each row, rows with a caption under a box being taller; and the bottom of the last."""
    tall: dict[int, bool] = defaultdict(bool)
    for node, row in placed.row.items():
        tall[row] |= story.has_caption(node)
    tops, y = [], float(HEADER)
    for row in range(placed.rows):
        tops.append(y)
        y += (26 if low else 37) + (17 if tall[row] else 0)
    return tops, y


def _box(
    step: StepTrace, labels: dict[int, str], story: _Story, node: int, x: float, y: float, width: float, low: bool
) -> Box:
    assert step.tree is not None
    height = 22.0 if low else 30.0
    room = int((width - 58) / CHARACTER)
    if node in (ROOT, FINAL):
        token = step.tree.root if node == ROOT else (step.final.token if step.final else 0)
        mark = "●" if node == ROOT else theme.FINAL_LOOK.mark
        text = plotly_token(name_of(labels, token), room + 4)
        caption = ""
        if node == FINAL and step.final is not None:
            caption = step.final.origin.value if not low or story.view is View.VERIFY else ""
        style = "root" if node == ROOT else "final"
        return Box(node, x, y, width, height, style, f"{mark} {text}", caption=caption,
                   hover=_hover(step, labels, node, story))  # fmt: skip
    status = story.status(node)
    style = {None: "draft", Status.ACCEPTED: "accepted", Status.REJECTED: "rejected", Status.NOT_TESTED: "not_tested"}[
        status
    ]
    if story.view is View.OUTCOME:
        style = "emitted" if status is Status.ACCEPTED else "passed_over"
    mark = theme.STATUS_LOOKS[status].mark + " " if status is not None else ""
    tree = step.tree
    return Box(
        node, x, y, width, height, style,
        mark + plotly_token(name_of(labels, tree.token[node]), room),
        number=three_digits(tree.confidence[node]),
        bar=tree.confidence[node],
        second_bar=tree.p[node] if story.view is View.VERIFY and not low else None,
        caption=_caption(story, node),
        hover=_hover(step, labels, node, story),
    )  # fmt: skip


def _caption(story: _Story, node: int) -> str:
    """The test under a box: the draw against the accept probability."""
    trial = story.trials.get(node)
    if trial is None or story.view is not View.VERIFY:
        return ""
    sign = "<" if trial.accepted else "≥"
    return plotly_text(f"draw {three_digits(trial.draw)} {sign} {three_digits(trial.accept)}")


def _hover(step: StepTrace, labels: dict[int, str], node: int, story: _Story) -> str:
    """Everything about a node with all recorded digits."""
    tree = step.tree
    assert tree is not None
    if node == ROOT:
        return f"<b>{plotly_token(name_of(labels, tree.root))}</b><br>the last token before this step"
    if node == FINAL:
        assert step.final is not None
        return (
            f"<b>{plotly_token(name_of(labels, step.final.token))}</b><br>the target's own token: "
            f"{step.final.origin.value}<br>draw {step.final.draw:.6g}"
        )
    lines = [
        f"<b>{plotly_text(shorten(visible(name_of(labels, tree.token[node])), 80))}</b>",
        f"confidence {tree.confidence[node]:.6g}",
        f"value {tree.value[node]:.6g}",
    ]
    status = story.status(node)
    if status is not None:
        lines.insert(1, f"{theme.STATUS_LOOKS[status].mark} {theme.STATUS_LOOKS[status].word}")
        lines.append(f"target's probability {tree.p[node]:.6g}")
    trial = story.trials.get(node)
    if trial is not None:
        lines.append(f"accept probability {trial.accept:.6g}, draw {trial.draw:.6g}")
    return "<br>".join(lines)


def _figure(
    boxes: list[Box], placed: Placed, story: _Story, look: Look, step: StepTrace, width: float, bottom: float, pitch: int
) -> Figure:
    by_node = {box.node: box for box in boxes}
    bold = {trial.node for trial in story.trials.values() if trial.accepted}
    if story.final:
        bold.add(FINAL)
    edges = [
        (by_node[placed.parent[box.node]], box, box.node in bold) for box in boxes if box.node in placed.parent
    ]
    height = int(bottom + 6)
    chosen = by_node.get(look.node) if look.node is not None else None
    focus = [chosen.x / width, (chosen.x + chosen.width) / width] if chosen else None
    return make_figure(
        [*_headers(placed, pitch), *draw_boxes(boxes, edges, chosen)],
        height,
        alt=_alt(step, story, len(boxes)),
        min_width=int(width),
        xaxis=hidden_axis(range=[0, width]),
        yaxis=hidden_axis(range=[height, 0]),
        margin={"l": 0, "r": 0, "t": 0, "b": 0},
        hovermode="closest",
        dragmode="zoom",
        uirevision=f"{step.index}-{story.view}",
        meta={"focus": focus},
    )


def _headers(placed: Placed, pitch: int) -> list[dict[str, Any]]:
    names = ["last token", *(f"{_ordinal(level)} guess" for level in range(1, placed.columns))]
    x = [EDGE_PADDING + column * pitch for column in range(placed.columns)]
    return [
        {
            "type": "scatter", "mode": "text", "x": x, "y": [HEADER / 2] * len(x), "text": names,
            "textposition": "middle right", "hoverinfo": "skip", "cliponaxis": False,
            "textfont": {"size": theme.SMALL_TEXT, "color": theme.light("muted")},
        }
    ]  # fmt: skip


def _ordinal(number: int) -> str:
    return {1: "1st", 2: "2nd", 3: "3rd"}.get(number, f"{number}th")


def _alt(step: StepTrace, story: _Story, count: int) -> str:
    assert step.tree is not None
    told = list(story.trials.values())
    accepted = sum(trial.accepted for trial in told)
    return (
        f"Draft tree of step {step.index}, {story.view} view: {len(step.tree)} guesses in "
        f"{max(step.tree.depth, default=0)} levels, {accepted} accepted, {len(told) - accepted} rejected. "
        "Arrow keys walk from node to node."
    )


def _no_tree(step: StepTrace, labels: dict[int, str], look: Look, root: int | None) -> Figure:
    """The prompt's pass, or a step of plain decoding: one token from one pass, nothing drafted."""
    width, height = 150.0, 30.0
    text = "● the prompt" if step.index == 0 else "● " + plotly_token(name_of(labels, root or 0), 14)
    boxes = [Box(ROOT, EDGE_PADDING, HEADER, width, height, "root", text, hover="what came before")]
    edges = []
    if step.final is not None:
        token = plotly_token(name_of(labels, step.final.token), 14)
        boxes.append(
            Box(FINAL, EDGE_PADDING + width + 40, HEADER, width, height, "final", f"◆ {token}",
                caption=step.final.origin.value, hover=f"the target's own token<br>draw {step.final.draw:.6g}")
        )  # fmt: skip
        edges = [(boxes[0], boxes[1], True)]
    chosen = next((box for box in boxes if box.node == look.node), None)
    return make_figure(
        draw_boxes(boxes, edges, chosen),
        HEADER + 62,
        alt="No tree: the target gave one token in one pass.",
        xaxis=hidden_axis(range=[0, ROOM]),
        yaxis=hidden_axis(range=[HEADER + 62, 0]),
        margin={"l": 0, "r": 0, "t": 0, "b": 0},
        hovermode="closest",
        min_width=360,
        uirevision=str(step.index),
    )
