"""The run as a row of steps: tokens each brought, and what it cost in time. Click one to go there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app import theme
from app.figures.axes import number_axis
from app.plotly_view import make_figure
from eagle.trace import Origin, RunTrace

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

HEIGHT = 132
TIMES = (("draft_ms", "draft", "draft"), ("verify_ms", "verify", "target"), ("commit_ms", "commit", "commit"))


def step_bar(run: RunTrace, selected: int) -> Figure:
    """Tokens per step by origin above, draft, verify and commit time stacked below."""
    index = [step.index for step in run.steps]
    hover = [_hover(run, position) for position in range(len(run.steps))]
    traces: list[dict[str, Any]] = []
    for origin, look in theme.ORIGIN_LOOKS.items():
        counts = [sum(one is origin for one in step.emitted.origin) for step in run.steps]
        if any(counts):
            traces.append(
                _bars(index, counts, "y", look.colour, look.colour if origin is Origin.DRAFT else look.fill)
            )
    for field, _, colour in TIMES:
        traces.append(_bars(index, [getattr(step.times, field) for step in run.steps], "y2", colour, colour))
    most = max(len(step.emitted) for step in run.steps)
    longest = max((step.times.total_ms for step in run.steps[1:]), default=run.steps[0].times.total_ms) or 1.0
    for axis, top in (("y", most), ("y2", longest)):
        traces.append(_targets(run, index, hover, axis, top))
    return make_figure(
        traces,
        HEIGHT,
        alt=f"{len(run.steps)} steps; step {run.steps[selected].index} is selected.",
        barmode="stack",
        bargap=0.18,
        margin={"l": 58, "r": 8, "t": 6, "b": 22},
        xaxis=_x_axis(index),
        yaxis=_y_axis("tokens", [0.46, 1.0], most, dtick=1 if most <= 4 else 2),
        yaxis2=_y_axis("ms", [0.0, 0.34], longest, nticks=2),
        shapes=[_band(run.steps[selected].index)],
        hovermode="closest",
        dragmode=False,
        uirevision="steps",
    )


def _bars(x: list[int], y: list[Any], axis: str, colour: str, fill: str) -> dict[str, Any]:
    """Bars with an outline. No patterns: they refer to the page's address, which changes with the step."""
    outline = {"width": 0 if fill == colour else 1.6, "color": theme.light(colour)}
    marker = {"color": theme.light(fill), "line": outline}
    return {"type": "bar", "x": x, "y": y, "yaxis": axis, "marker": marker, "hoverinfo": "skip"}


def _targets(run: RunTrace, x: list[int], hover: list[str], axis: str, top: float) -> dict[str, Any]:
    """Unseen bars of full height above the stacks that take hover and click."""
    del run
    return {
        "type": "scatter",
        "mode": "markers",
        "x": x,
        "y": [top / 2] * len(x),
        "yaxis": axis,
        "customdata": list(range(len(x))),
        "hovertext": hover,
        "hoverinfo": "text",
        "marker": {"size": 40, "opacity": 0, "color": theme.light("accent"), "symbol": "square"},
    }


def _hover(run: RunTrace, position: int) -> str:
    step = run.steps[position]
    parts = [f"{len(step.emitted)} token{'s' if len(step.emitted) != 1 else ''}"]
    for field, name, _ in TIMES:
        if getattr(step.times, field):
            parts.append(f"{name} {getattr(step.times, field):.1f} ms")
    title = "the prompt's pass" if step.index == 0 else f"step {step.index}"
    return f"<b>{title}</b><br>" + "<br>".join(parts)


def _x_axis(index: list[int]) -> dict[str, Any]:
    return {
        "range": [-0.5, max(index[-1], 11) + 0.5],
        "fixedrange": True,
        "showgrid": False,
        "zeroline": False,
        "tickfont": {"size": theme.SMALL_TEXT, "color": theme.light("muted")},
        "ticks": "",
        "anchor": "y2",
        "tickmode": "linear",
        "tick0": 0,
        "dtick": max(1, len(index) // 16),
    }


def _y_axis(title: str, domain: list[float], top: float, **more: Any) -> dict[str, Any]:
    return number_axis(title, domain=domain, range=[0, top * 1.05], **more)


def _band(index: int) -> dict[str, Any]:
    """The light column behind the selected step."""
    return {
        "type": "rect",
        "xref": "x",
        "yref": "paper",
        "x0": index - 0.5,
        "x1": index + 0.5,
        "y0": 0,
        "y1": 1,
        "fillcolor": theme.light("sunken"),
        "line": {"color": theme.light("selection"), "width": 2},
        "layer": "below",
    }
