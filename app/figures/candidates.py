"""Everything the head drafted in a step, level by level: what rerank kept, and what it cut.

A dot a candidate, its height the value (the product of confidences along its path, on a log axis).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app import theme
from app.figures.axes import number_axis
from app.labels import name_of, plotly_token
from app.plotly_view import make_figure
from eagle.trace import ROOT, TreeTrace

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

HEIGHT = 340
SHOWN = 300  # cut candidates drawn in a level, the most valuable; the others are counted
SWARM = 15  # dots side by side


def candidates(tree: TreeTrace | None, labels: dict[int, str]) -> Figure:
    """Kept and cut candidates by level; past ``SHOWN`` cut ones in a level the rest are only counted."""
    if tree is None:
        return make_figure(
            [],
            60,
            alt="Nothing was drafted in this step.",
            xaxis={"visible": False},
            yaxis={"visible": False},
        )
    depth, value = cut_columns(tree)
    kept = [(tree.depth[n], tree.value[n], tree.token[n], tree.confidence[n]) for n in range(len(tree))]
    cut = [
        (depth[i], value[i], tree.cut.token[i], tree.cut.confidence[i]) for i in range(len(tree.cut.token))
    ]
    levels = max((row[0] for row in kept + cut), default=1)
    shown, counted = _most_valuable(cut, levels)
    least = min((row[1] for row in kept), default=1.0)
    return make_figure(
        [_dots(shown, labels, "cut"), _dots(kept, labels, "kept")],
        HEIGHT,
        alt=f"{len(kept)} candidates kept and {len(cut)} cut; the least value kept is {least:.3g}.",
        margin={"l": 62, "r": 12, "t": 26, "b": 40},
        hovermode="closest",
        xaxis=number_axis("level", range=[0.4, levels + 0.6], dtick=1, showgrid=False),
        yaxis=number_axis("value (log)", type="log", showgrid=True, exponentformat="power", nticks=6),
        shapes=[
            {
                "type": "line",
                "xref": "paper",
                "x0": 0,
                "x1": 1,
                "y0": least,
                "y1": least,
                "line": {"color": theme.light("draft"), "width": 1.5, "dash": "dash"},
            }
        ],
        annotations=[_counted(level, count) for level, count in counted.items()],
    )


def cut_columns(tree: TreeTrace) -> tuple[list[int], list[float]]:
    """Level and value of each cut candidate, from its parent's and its own confidence."""
    depth, value = list(tree.depth), list(tree.value)
    for parent, confidence in zip(tree.cut.parent, tree.cut.confidence, strict=True):
        depth.append(1 if parent == ROOT else depth[parent] + 1)
        value.append(confidence if parent == ROOT else value[parent] * confidence)
    return depth[len(tree) :], value[len(tree) :]


Row = tuple[int, float, int, float]  # level, value, token, confidence


def _most_valuable(cut: list[Row], levels: int) -> tuple[list[Row], dict[int, int]]:
    """The cut candidates to draw, and how many in each level are only counted."""
    shown: list[Row] = []
    counted: dict[int, int] = {}
    for level in range(1, levels + 1):
        here = sorted((row for row in cut if row[0] == level), key=lambda row: -row[1])
        shown += here[:SHOWN]
        if len(here) > SHOWN:
            counted[level] = len(here) - SHOWN
    return shown, counted


def _dots(rows: list[Row], labels: dict[int, str], name: str) -> dict[str, Any]:
    kept = name == "kept"
    seen: dict[int, int] = {}
    x = []
    for level, *_ in rows:
        place = seen[level] = seen.get(level, -1) + 1
        x.append(round(level + 0.36 * (2 * (place % SWARM) / (SWARM - 1) - 1), 3))
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": x,
        "y": [max(row[1], 1e-30) for row in rows],
        "hoverinfo": "text",
        "hovertext": [
            f"<b>{plotly_token(name_of(labels, token))}</b><br>{'kept' if kept else 'cut by rerank'}"
            f"<br>confidence {confidence:.6g}<br>value {value:.6g}"
            for _, value, token, confidence in rows
        ],
        "marker": {
            "size": 8 if kept else 5,
            "symbol": "circle" if kept else "circle-open",
            "color": theme.light("draft" if kept else "cut"),
        },
    }


def _counted(level: int, count: int) -> dict[str, Any]:
    return {
        "x": level,
        "y": 1.0,
        "yref": "paper",
        "yanchor": "bottom",
        "showarrow": False,
        "text": f"and {count:,} of less value",
        "font": {"size": theme.SMALL_TEXT, "color": theme.light("muted")},
    }
