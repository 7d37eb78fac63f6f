"""The run as a whole: calibration of the confidence, acceptance by level, tokens per pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app import theme
from app.figures.axes import number_axis
from app.plotly_view import make_figure
from app.theme import three_digits

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from app.overview import Overview, Rate

HEIGHT = 270


def calibration(counts: Overview) -> Figure:
    """Confidence against acceptance, with 95% intervals and counts; dashes are the target's own mean p."""
    rates = counts.calibration
    x = [(rate.low + rate.high) / 2 for rate in rates]
    diagonal = {
        "type": "scatter",
        "mode": "lines",
        "x": [0, 1],
        "y": [0, 1],
        "hoverinfo": "skip",
        "line": {"color": theme.light("edge"), "width": 1, "dash": "dot"},
    }
    expected = {
        "type": "scatter",
        "mode": "markers",
        "x": x,
        "y": [rate.expected / rate.count for rate in rates],
        "hoverinfo": "text",
        "hovertext": [f"mean target p {rate.expected / rate.count:.4g}" for rate in rates],
        "marker": {
            "symbol": "line-ew-open",
            "size": 18,
            "color": theme.light("target"),
            "line": {"width": 3},
        },
    }
    return _chart(
        [diagonal, expected, _points(x, rates, [f"confidence {r.low:g} to {r.high:g}" for r in rates])],
        "draft's confidence",
        "share accepted",
        alt="Acceptance against confidence: "
        + "; ".join(f"{rate.low:g} to {rate.high:g}: {rate.hits} of {rate.count}" for rate in rates),
        xaxis={"range": [-0.04, 1.04], "tickvals": [0, 0.25, 0.5, 0.75, 1]},
        yaxis={"range": [-0.04, 1.1], "tickvals": [0, 0.25, 0.5, 0.75, 1]},
    )


def levels(counts: Overview) -> Figure:
    """For each level: of the steps that had a guess to try there, the share that got through."""
    rates = counts.levels
    x = [rate.low for rate in rates]
    bars = {
        "type": "bar",
        "x": x,
        "y": [rate.share for rate in rates],
        "marker": {"color": theme.light("accepted")},
        "text": [f"{rate.hits} of {rate.count}" for rate in rates],
        "textposition": "outside",
        "cliponaxis": False,
        "hoverinfo": "text",
        "hovertext": [_tip(rate, f"guess {rate.low:g}") for rate in rates],
        "textfont": {"size": theme.SMALL_TEXT, "color": theme.light("muted")},
        "width": 0.62,
        "error_y": _error(rates),
    }
    bars["textposition"] = "inside"
    bars["insidetextanchor"] = "start"
    bars["textfont"] = {"size": theme.SMALL_TEXT, "color": theme.light("on_final")}
    return _chart(
        [bars],
        "level of the tree",
        "share that got through",
        alt="Acceptance by level: "
        + "; ".join(f"level {rate.low:g}: {rate.hits} of {rate.count}" for rate in rates),
        xaxis={"dtick": 1, "range": [0.4, max(x, default=1) + 0.6]},
        yaxis={"range": [0, 1.1], "tickvals": [0, 0.25, 0.5, 0.75, 1]},
    )


def lengths(counts: Overview, tau: float | None) -> Figure:
    """How many passes brought 1, 2, 3, ... tokens, and their mean, τ."""
    x, y = list(counts.lengths), list(counts.lengths.values())
    bars = {
        "type": "bar",
        "x": x,
        "y": y,
        "text": [str(count) for count in y],
        "textposition": "outside",
        "marker": {"color": theme.light("accepted")},
        "cliponaxis": False,
        "hoverinfo": "skip",
        "width": 0.62,
        "textfont": {"size": theme.SMALL_TEXT, "color": theme.light("ink")},
    }
    more: dict[str, Any] = {}
    if tau is not None:
        more["shapes"] = [
            {
                "type": "line",
                "x0": tau,
                "x1": tau,
                "y0": 0,
                "y1": 1,
                "yref": "paper",
                "line": {"color": theme.light("selection"), "width": 2, "dash": "dash"},
            }
        ]
        more["annotations"] = [
            {
                "x": tau,
                "y": 1,
                "yref": "paper",
                "text": f"τ {three_digits(tau)}",
                "showarrow": False,
                "xanchor": "left",
                "yanchor": "top",
                "xshift": 4,
                "font": {"color": theme.light("selection"), "size": 14},
            }
        ]
    return _chart(
        [bars],
        "tokens from one pass",
        "passes",
        alt="Tokens per pass: "
        + "; ".join(f"{count} passes brought {n}" for n, count in counts.lengths.items()),
        xaxis={"dtick": 1, "range": [0.4, max(x, default=1) + 0.6]},
        yaxis={"range": [0, max(y, default=1) * 1.22], "nticks": 5},
        **more,
    )


def _points(x: list[float], rates: list[Rate], names: list[str]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers+text",
        "x": x,
        "y": [rate.share for rate in rates],
        "error_y": _error(rates),
        "text": [str(rate.count) for rate in rates],
        "textposition": "middle right",
        "textfont": {"size": theme.SMALL_TEXT, "color": theme.light("muted")},
        "cliponaxis": False,
        "marker": {"size": 10, "color": theme.light("accepted")},
        "hoverinfo": "text",
        "hovertext": [_tip(rate, name) for rate, name in zip(rates, names, strict=True)],
    }


def _error(rates: list[Rate]) -> dict[str, Any]:
    spans = [rate.interval() for rate in rates]
    return {
        "type": "data",
        "symmetric": False,
        "thickness": 1.3,
        "width": 4,
        "color": theme.light("not_tested"),
        "array": [max(0.0, high - rate.share) for rate, (_, high) in zip(rates, spans, strict=True)],
        "arrayminus": [max(0.0, rate.share - low) for rate, (low, _) in zip(rates, spans, strict=True)],
    }


def _tip(rate: Rate, name: str) -> str:
    low, high = rate.interval()
    return f"<b>{name}</b><br>{rate.hits} of {rate.count} accepted<br>95% interval {low:.3f} to {high:.3f}"


def _chart(
    traces: list[dict[str, Any]],
    x_title: str,
    y_title: str,
    *,
    alt: str,
    xaxis: dict[str, Any],
    yaxis: dict[str, Any],
    **more: Any,
) -> Figure:
    return make_figure(
        traces,
        HEIGHT,
        alt=alt,
        margin={"l": 56, "r": 12, "t": 10, "b": 44},
        dragmode=False,
        hovermode="closest",
        xaxis=number_axis(x_title, showgrid=False, **xaxis),
        yaxis=number_axis(y_title, **yaxis),
        **more,
    )
