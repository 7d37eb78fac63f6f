"""The draft tree of one step: a box a node, levels left to right, the accepted path straight and bold.

Coordinates are pixels: x to the right, y downwards. One figure for the three views; what differs is
which boxes are told yet and how they look (``Story``).
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from app import theme
from app.figures.boxes import Box, draw_boxes
from app.figures.layout import Placed, place
from app.figures.story import Story, alt, caption, hover, style
from app.figures.tree_down import no_tree_down, tree_down
from app.labels import name_of, plotly_token
from app.plotly_view import hidden_axis, make_figure
from app.session import FINAL, Look, View
from app.theme import three_digits
from eagle.trace import ROOT, StepTrace

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

ROOM = 784  # the width that the tree has beside its panel on a 1280 pixel screen
GAP = 22
PITCHES = (114, 172)  # from one column to the next, least and most
HEADER = 30
EDGE_PADDING = 6
MANY_NODES = 24  # more than this, and boxes get lower
CHARACTER = {True: 6.4, False: 7.0}  # a generous mean width of a label's characters, low boxes or not
AROUND_LABEL = {True: 50, False: 58}  # what mark, number and padding take of a box's width


def draft_tree(step: StepTrace, labels: dict[int, str], look: Look, root: int | None = None) -> Figure:
    """The tree of ``step`` as ``look`` tells it; ``root`` is the last token where the step has no tree."""
    if step.tree is None:
        return (no_tree_down if look.narrow else _no_tree)(step, labels, look, root)
    if look.narrow:
        return tree_down(step, labels, look)
    placed = place(step)
    pitch = min(max(ROOM // placed.columns, PITCHES[0]), PITCHES[1])
    low = len(step.tree) > MANY_NODES
    story = Story.of(step, look)
    tops, bottom = _row_tops(placed, story, low)
    boxes = [
        _box(
            step,
            labels,
            story,
            node,
            EDGE_PADDING + placed.column[node] * pitch,
            tops[placed.row[node]],
            pitch - GAP,
            low,
        )
        for node in placed.order
        if story.visible(node)
    ]
    width = EDGE_PADDING * 2 + placed.columns * pitch - GAP
    return _figure(boxes, placed, story, look, step, width, bottom, pitch)


def _row_tops(placed: Placed, story: Story, low: bool) -> tuple[list[float], float]:
    """The top of each row, rows with a caption under a box being taller; and the bottom of the last."""
    tall: dict[int, bool] = defaultdict(bool)
    for node, row in placed.row.items():
        tall[row] |= story.has_caption(node)
    tops, y = [], float(HEADER)
    for row in range(placed.rows):
        tops.append(y)
        y += (27 if low else 37) + (17 if tall[row] else 0)
    return tops, y


def _box(
    step: StepTrace,
    labels: dict[int, str],
    story: Story,
    node: int,
    x: float,
    y: float,
    width: float,
    low: bool,
) -> Box:
    assert step.tree is not None
    height = 23.0 if low else 30.0
    room = int((width - AROUND_LABEL[low]) / CHARACTER[low])
    if node in (ROOT, FINAL):
        token = step.tree.root if node == ROOT else (step.final.token if step.final else 0)
        mark = "●" if node == ROOT else theme.FINAL_LOOK.mark
        text = plotly_token(name_of(labels, token), room + 4)
        below = step.final.origin.value if node == FINAL and step.final is not None else ""
        return Box(
            node,
            x,
            y,
            width,
            height,
            "root" if node == ROOT else "final",
            f"{mark} {text}",
            caption=below,
            hover=hover(story, labels, node),
        )
    status = story.status(node)
    mark = theme.STATUS_LOOKS[status].mark + " " if status is not None else ""
    tree = step.tree
    return Box(
        node,
        x,
        y,
        width,
        height,
        style(story, node),
        mark + plotly_token(name_of(labels, tree.token[node]), room),
        number=three_digits(tree.confidence[node]),
        bar=tree.confidence[node],
        second_bar=tree.p[node] if story.view is View.VERIFY and not low else None,
        caption=caption(story, node),
        hover=hover(story, labels, node),
    )


def _figure(
    boxes: list[Box],
    placed: Placed,
    story: Story,
    look: Look,
    step: StepTrace,
    width: float,
    bottom: float,
    pitch: int,
) -> Figure:
    by_node = {box.node: box for box in boxes}
    bold = {trial.node for trial in story.trials.values() if trial.accepted}
    if story.final:
        bold.add(FINAL)
    edges = [
        (by_node[placed.parent[box.node]], box, box.node in bold)
        for box in boxes
        if box.node in placed.parent
    ]
    height = int(bottom + 6)
    chosen = by_node.get(look.node) if look.node is not None else None
    focus = [chosen.x / width, (chosen.x + chosen.width) / width] if chosen else None
    return make_figure(
        [*_headers(placed, pitch), *draw_boxes(boxes, edges, chosen)],
        height,
        alt=alt(story),
        min_width=int(width),
        xaxis=hidden_axis(range=[0, width]),
        yaxis=hidden_axis(range=[height, 0]),
        margin={"l": 0, "r": 0, "t": 0, "b": 0},
        hovermode="closest",
        dragmode="zoom",
        uirevision=f"{step.index}-{story.view}",
        meta={"focus": focus, "down": False},
    )


def _headers(placed: Placed, pitch: int) -> list[dict[str, Any]]:
    names = ["last token", *(f"{_ordinal(level)} guess" for level in range(1, placed.columns))]
    x = [EDGE_PADDING + column * pitch for column in range(placed.columns)]
    return [
        {
            "type": "scatter",
            "mode": "text",
            "x": x,
            "y": [HEADER / 2] * len(x),
            "text": names,
            "textposition": "middle right",
            "hoverinfo": "skip",
            "cliponaxis": False,
            "textfont": {"size": theme.SMALL_TEXT, "color": theme.light("muted")},
        }
    ]


def _ordinal(number: int) -> str:
    return {1: "1st", 2: "2nd", 3: "3rd"}.get(number, f"{number}th")


def _no_tree(step: StepTrace, labels: dict[int, str], look: Look, root: int | None) -> Figure:
    """The prompt's pass, or a step of plain decoding: one token from one pass, nothing drafted."""
    width, height = 150.0, 30.0
    text = "● the prompt" if step.index == 0 else "● " + plotly_token(name_of(labels, root or 0), 14)
    boxes = [Box(ROOT, EDGE_PADDING, HEADER, width, height, "root", text, hover="what came before")]
    edges = []
    if step.final is not None:
        token = plotly_token(name_of(labels, step.final.token), 14)
        boxes.append(
            Box(
                FINAL,
                EDGE_PADDING + width + 40,
                HEADER,
                width,
                height,
                "final",
                f"◆ {token}",
                caption=step.final.origin.value,
                hover=f"the target's own token<br>draw {step.final.draw:.6g}",
            )
        )
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
        meta={"down": False},
    )
