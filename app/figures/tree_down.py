"""The draft tree for a phone: levels from top to bottom, the accepted path straight down and bold.

Coordinates are pixels: x to the right, y downwards. A tree that is wider than the page scrolls sideways.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app import theme
from app.figures.boxes import Box, draw_boxes
from app.figures.layout import Placed, place_packed
from app.figures.story import Story, alt, hover, style
from app.labels import name_of, plotly_text, plotly_token
from app.plotly_view import hidden_axis, make_figure
from app.session import FINAL, Look, View
from app.theme import three_digits, told_apart
from eagle.trace import ROOT, StepTrace

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

ROOM = 346  # the width that the tree has on a 400 pixel screen
GUTTER = 26.0  # at the left, for the names of the levels
GAP, LEVEL_GAP = 8.0, 26.0
PITCHES = (80.0, 150.0)  # from one box to the next of a level, least and most
HEIGHT, TALL = 47.0, 61.0  # of a box, and of those of a level where something was tested
CHARACTER, AROUND_LABEL = 6.6, 26.0
TOP = 6.0


def tree_down(step: StepTrace, labels: dict[int, str], look: Look) -> Figure:
    """The tree of ``step`` as ``look`` tells it. Needs a step with a tree."""
    placed, story = place_packed(step), Story.of(step, look)
    pitch = min(max((ROOM - GUTTER) / placed.rows, PITCHES[0]), PITCHES[1])
    width = max(GUTTER + placed.rows * pitch, ROOM)
    left = GUTTER + (width - GUTTER - placed.rows * pitch) / 2 + GAP / 2
    tops, bottom = _tops(placed, story)
    boxes = [
        _box(
            story,
            labels,
            node,
            (left + placed.row[node] * pitch, tops[placed.column[node]]),
            (pitch - GAP, _height(placed, story, placed.column[node])),
        )
        for node in placed.order
        if story.visible(node)
    ]
    return _figure(boxes, placed, story, look, (width, bottom), tops)


def _height(placed: Placed, story: Story, level: int) -> float:
    tested = any(placed.column[node] == level for node in story.order) and story.view is View.VERIFY
    return TALL if tested else HEIGHT


def _tops(placed: Placed, story: Story) -> tuple[list[float], float]:
    """The top of each level, and the bottom of the last."""
    tops, y = [], TOP
    for level in range(placed.columns):
        tops.append(y)
        y += _height(placed, story, level) + LEVEL_GAP
    return tops, y - LEVEL_GAP


def _box(
    story: Story, labels: dict[int, str], node: int, corner: tuple[float, float], size: tuple[float, float]
) -> Box:
    step, tree = story.step, story.step.tree
    assert tree is not None
    room = int((size[0] - AROUND_LABEL) / CHARACTER)
    words = hover(story, labels, node)
    if node in (ROOT, FINAL):
        token = tree.root if node == ROOT else (step.final.token if step.final else 0)
        mark, kind = ("●", "root") if node == ROOT else (theme.FINAL_LOOK.mark, "final")
        below = step.final.origin.value if node == FINAL and step.final is not None else "last token"
        label = f"{mark} {plotly_token(name_of(labels, token), room)}"
        return Box(node, *corner, *size, kind, label, caption=below, hover=words)
    status = story.status(node)
    mark = theme.STATUS_LOOKS[status].mark + " " if status is not None else ""
    return Box(
        node,
        *corner,
        *size,
        style(story, node),
        mark + plotly_token(name_of(labels, tree.token[node]), room),
        number=three_digits(tree.confidence[node]),
        bar=tree.confidence[node],
        second_bar=tree.p[node] if story.view is View.VERIFY else None,
        caption=_test(story, node),
        hover=words,
    )


def _test(story: Story, node: int) -> str:
    """The draw against the accept probability, in the few letters that a narrow box holds."""
    trial = story.trials.get(node)
    if trial is None or story.view is not View.VERIFY:
        return ""
    draw, accept = told_apart(trial.draw, trial.accept)
    return plotly_text(f"{draw} {'<' if trial.accepted else '≥'} {accept}")


def _figure(
    boxes: list[Box],
    placed: Placed,
    story: Story,
    look: Look,
    size: tuple[float, float],
    tops: list[float],
) -> Figure:
    by_node = {box.node: box for box in boxes}
    bold = {trial.node for trial in story.trials.values() if trial.accepted}
    edges = [
        (by_node[placed.parent[box.node]], box, box.node in bold or (box.node == FINAL and story.final))
        for box in boxes
        if box.node in placed.parent
    ]
    chosen = by_node.get(look.node) if look.node is not None else None
    width, height = size[0], size[1] + TOP
    heights = [_height(placed, story, level) for level in range(placed.columns)]
    return make_figure(
        [_level_names(tops, heights), *draw_boxes(boxes, edges, chosen, down=True)],
        int(height),
        alt=alt(story),
        min_width=int(width),
        **_frame(width, height),
        uirevision=f"{story.step.index}-{story.view}-down",
        meta={
            "focus": [chosen.x / width, (chosen.x + chosen.width) / width] if chosen else None,
            "down": True,
        },
    )


def _frame(width: float, height: float) -> dict[str, Any]:
    return {
        "xaxis": hidden_axis(range=[0, width]),
        "yaxis": hidden_axis(range=[height, 0]),
        "margin": {"l": 0, "r": 0, "t": 0, "b": 0},
        "hovermode": "closest",
        "dragmode": "zoom",
    }


def _level_names(tops: list[float], heights: list[float]) -> dict[str, Any]:
    """1st, 2nd, ... guess, at the left of each level."""
    levels = range(1, len(tops))
    return {
        "type": "scatter",
        "mode": "text",
        "x": [0.0] * len(levels),
        "y": [tops[level] + heights[level] / 2 for level in levels],
        "text": [{1: "1st", 2: "2nd", 3: "3rd"}.get(level, f"{level}th") for level in levels],
        "textposition": "middle right",
        "hoverinfo": "skip",
        "cliponaxis": False,
        "textfont": {"size": 11, "color": theme.light("muted")},
    }


def no_tree_down(step: StepTrace, labels: dict[int, str], look: Look, root: int | None) -> Figure:
    """The prompt's pass, or a step of plain decoding: one token from one pass, nothing drafted."""
    width, left = 170.0, (ROOM - 170.0) / 2
    text = "● the prompt" if step.index == 0 else "● " + plotly_token(name_of(labels, root or 0), 14)
    boxes = [Box(ROOT, left, TOP, width, 24.0, "root", text, hover="what came before")]
    edges, bottom = [], TOP + 24.0
    if step.final is not None:
        token = plotly_token(name_of(labels, step.final.token), 14)
        words = f"the target's own token<br>draw {step.final.draw:.6g}"
        below = step.final.origin.value
        own = Box(FINAL, left, TOP + 50, width, HEIGHT, "final", f"◆ {token}", caption=below, hover=words)
        boxes.append(own)
        edges, bottom = [(boxes[0], own, True)], own.y + own.height
    chosen = next((box for box in boxes if box.node == look.node), None)
    return make_figure(
        draw_boxes(boxes, edges, chosen, down=True),
        int(bottom + TOP),
        alt="No tree: the target gave one token in one pass.",
        **_frame(ROOM, bottom + TOP),
        min_width=ROOM,
        uirevision=f"{step.index}-down",
        meta={"down": True},
    )
