"""How wide the tree should be: what a pass costs, what a tree is expected to bring, and the best of both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app import theme
from app.figures.axes import number_axis
from app.plotly_view import make_figure

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from eagle.trace import Costs
    from eagle.width import Width

HEIGHT = 250


def latency(costs: Costs, width: Width | None) -> Figure:
    """Milliseconds of one target pass against the tokens it reads: the measured sizes, joined."""
    traces = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "x": costs.nodes,
            "y": costs.pass_ms,
            "line": {"color": theme.light("target"), "width": 2},
            "marker": {"size": 7, "color": theme.light("target")},
            "hovertext": [
                f"{n} tokens: {ms:.2f} ms" for n, ms in zip(costs.nodes, costs.pass_ms, strict=True)
            ],
            "hoverinfo": "text",
            "cliponaxis": False,
        }
    ]
    if width is not None:
        at = width.best_nodes
        traces.append(_reckoned(width))
        traces.append(_chosen(at + 1, width.pass_ms[at], f"the chosen tree: {at + 1} tokens"))
    first, last = costs.pass_ms[0], costs.pass_ms[-1]
    return _figure(
        traces,
        "tokens read in one pass",
        "ms",
        alt=f"A pass over 1 token takes {first:.1f} ms, over {costs.nodes[-1]} tokens {last:.1f} ms.",
        yaxis={"range": [0, 1.08 * max(costs.pass_ms)]},
    )


def _reckoned(width: Width) -> dict[str, Any]:
    """The costs as the choice reads them: between the measured sizes, and never falling."""
    tokens = [node + 1 for node in width.nodes]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "as reckoned with",
        "x": tokens,
        "y": width.pass_ms,
        "line": {"color": theme.light("muted"), "width": 1.5, "dash": "dot"},
        "hovertext": [
            f"{n} tokens: reckoned as {ms:.2f} ms" for n, ms in zip(tokens, width.pass_ms, strict=True)
        ],
        "hoverinfo": "text",
    }


def expected_tokens(width: Width) -> Figure:
    """Tokens that a step is expected to bring, by nodes, a line for each number of levels."""
    traces = [_line(width, width.tokens[level], level) for level in _levels(width)]
    at, best = width.best_nodes, width.best_tokens
    traces.append(_chosen(at, best, f"{at} nodes, {width.best_levels} levels: {best:.3f} tokens"))
    traces.append(_labels(width, [width.tokens[level] for level in _levels(width)]))
    return _figure(
        traces,
        "nodes in the tree",
        "tokens a step",
        alt=f"With {at} nodes a step is expected to bring {best:.2f} tokens.",
        yaxis={"range": [0, 1.08 * max(max(line) for line in width.tokens)]},
    )


def rate(width: Width) -> Figure:
    """Expected tokens a second, drafting and the pass paid for; vanilla's as a dashed line."""
    traces = [_line(width, width.rate[level], level) for level in _levels(width)]
    traces.append(
        {
            "type": "scatter",
            "mode": "lines",
            "x": [width.nodes[0], width.nodes[-1]],
            "y": [width.plain_rate] * 2,
            "line": {"color": theme.light("ink"), "width": 1.5, "dash": "dash"},
            "hovertext": [f"vanilla: {width.plain_rate:.2f} tokens/s"] * 2,
            "hoverinfo": "text",
        }
    )
    said = f"{width.best_nodes} nodes, {width.best_levels} levels: {width.best_rate:.2f} tokens/s"
    traces.append(_chosen(width.best_nodes, width.best_rate, said))
    traces.append(_labels(width, [width.rate[level] for level in _levels(width)]))
    return _figure(
        traces,
        "nodes in the tree",
        "expected tokens/s",
        alt=f"The best tree has {said}; vanilla makes {width.plain_rate:.1f}.",
        yaxis={"range": [0, 1.08 * max(width.best_rate, width.plain_rate)]},
    )


def _levels(width: Width) -> list[int]:
    """Which lines to draw: one level, every second one, the chosen one, the deepest."""
    deepest = len(width.tokens)
    shown = {1, 2, *range(4, deepest, 2), width.best_levels, deepest}
    return [level - 1 for level in sorted(shown) if level <= deepest]


def _line(width: Width, values: list[float], level: int) -> dict[str, Any]:
    best = level + 1 == width.best_levels
    words = "level" if level == 0 else "levels"
    return {
        "type": "scatter",
        "mode": "lines",
        "x": width.nodes,
        "y": values,
        "line": {"color": theme.light("draft" if best else "edge"), "width": 3 if best else 1.5},
        "hovertext": [
            f"{n} nodes, {level + 1} {words}: {y:.3f}" for n, y in zip(width.nodes, values, strict=True)
        ],
        "hoverinfo": "text",
    }


def _labels(width: Width, lines: list[list[float]]) -> dict[str, Any]:
    """The number of levels at the right end of each line, where two do not collide."""
    levels, ends, top = _levels(width), [line[-1] for line in lines], max(max(line) for line in lines)
    taken: list[float] = []
    texts = []
    order = sorted(range(len(levels)), key=lambda i: levels[i] + 1 != width.best_levels)
    keep = set()
    for i in order:
        if all(abs(ends[i] - other) > 0.085 * top for other in taken):
            taken.append(ends[i])
            keep.add(i)
    for i, level in enumerate(levels):
        unit = " level" if level == 0 else " levels"
        texts.append(f"{level + 1}{unit if i in keep else ''}" if i in keep else "")
    return {
        "type": "scatter",
        "mode": "text",
        "x": [width.nodes[-1]] * len(levels),
        "y": ends,
        "text": texts,
        "textposition": "middle right",
        "textfont": {"size": theme.SMALL_TEXT, "color": theme.light("muted")},
        "hoverinfo": "skip",
        "cliponaxis": False,
    }


def _chosen(x: float, y: float, words: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [x],
        "y": [y],
        "name": "chosen",
        "marker": {
            "size": 15,
            "symbol": "diamond-open",
            "color": theme.light("selection"),
            "line": {"width": 3, "color": theme.light("selection")},
        },
        "hovertext": [words],
        "hoverinfo": "text",
        "cliponaxis": False,
    }


def _figure(traces: list[dict[str, Any]], x: str, y: str, *, alt: str, yaxis: dict[str, Any]) -> Figure:
    # Room between the axes and their numbers, so that the two zeros do not touch.
    room = {"ticks": "outside", "ticklen": 6, "tickcolor": "rgba(0,0,0,0)"}
    return make_figure(
        traces,
        HEIGHT,
        alt=alt,
        margin={"l": 52, "r": 62, "t": 12, "b": 42},
        xaxis=number_axis(x, rangemode="tozero", nticks=7, **room),
        yaxis=number_axis(y, nticks=6, **room, **yaxis),
        dragmode=False,
        hovermode="closest",
        uirevision="width",
    )
