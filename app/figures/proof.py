"""Sampled shares against the exact law: a row an outcome, a bar a rule, the law a mark in its noise band."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from app import theme
from app.figures.axes import number_axis, upright_marks
from app.labels import plotly_text, plotly_token
from app.plotly_view import make_figure

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from eagle.goodness import Comparison

ROW, TOP, BOTTOM = 34, 10, 44
COLOURS = {"eagle2": "accepted", "misreading": "rejected"}
LABEL_ROOM = 150
ENDED = -1  # as eagle.lossless has it


def shares(found: list[Comparison], labels: Mapping[int, str]) -> Figure:
    """Each comparison's shares of the same outcomes, the most likely at the top."""
    if not found:
        return make_figure([], 40, alt="Nothing was sampled yet.")
    first = found[0]
    rows = list(range(len(first.law)))
    bars = rows[:-1] if first.merged else rows  # all others together would dwarf them: a line of numbers
    traces = [_band(first, bars)]
    traces += [_bars(one, bars, index, len(found), labels) for index, one in enumerate(found)]
    traces.append(_law(first, bars, labels))
    if first.merged:
        traces.append(_others(found, rows[-1]))
    return make_figure(
        traces,
        TOP + ROW * len(rows) + BOTTOM,
        alt=_alt(found, labels),
        barmode="overlay",
        margin={"l": LABEL_ROOM, "r": 20, "t": TOP, "b": BOTTOM},
        xaxis=_x_axis(found),
        yaxis={
            "range": [len(rows) - 0.4, -0.6],
            "tickvals": rows,
            "ticktext": [name(outcome, labels, first.merged) for outcome in first.outcome],
            "tickfont": {"size": 13, "family": theme.MONO, "color": theme.light("ink")},
            "fixedrange": True,
            "showgrid": False,
            "zeroline": False,
            "ticks": "outside",
            "ticklen": 7,
            "tickcolor": "rgba(0,0,0,0)",
        },
        dragmode=False,
        hovermode="closest",
        uirevision="proof",
    )


def name(outcome: tuple[int, ...], labels: Mapping[int, str], merged: int = 0, limit: int = 9) -> str:
    """An outcome as a figure's label: its tokens, or how many others stand here together."""
    if not outcome:
        return plotly_text(f"{merged} others")
    limit = limit if len(outcome) > 1 else 2 * limit
    parts = ["(end)" if token == ENDED else labels.get(token, f"#{token}") for token in outcome]
    return " ".join(plotly_token(part, limit) for part in parts)


def _others(found: list[Comparison], row: int) -> dict[str, Any]:
    """What the cells beyond the shown ones add up to, in words."""
    first = found[0]
    shares = " · ".join(f"{one.judge} {theme.three_digits(one.share[-1])}" for one in found)
    return {
        "type": "scatter",
        "mode": "text",
        "name": "others",
        "x": [0],
        "y": [row],
        "text": [f" together: law {theme.three_digits(first.law[-1])} · {shares}"],
        "textposition": "middle right",
        "textfont": {"size": 13, "color": theme.light("muted")},
        "hoverinfo": "skip",
        "cliponaxis": False,
    }


def _band(one: Comparison, rows: list[int]) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "name": "band",
        "y": rows,
        "base": one.low[: len(rows)],
        "x": [high - low for low, high in zip(one.low, one.high, strict=True)][: len(rows)],
        "width": 0.92,
        "marker": {"color": theme.light("target_soft"), "line": {"width": 0}},
        "hoverinfo": "skip",
    }


def _bars(
    one: Comparison, rows: list[int], index: int, count: int, labels: Mapping[int, str]
) -> dict[str, Any]:
    thick = 0.34 if count > 1 else 0.46
    shift = (index - (count - 1) / 2) * (thick + 0.06)
    marker: dict[str, Any] = {"color": theme.light(COLOURS[one.judge]), "line": {"width": 0}}
    if one.judge == "misreading":
        marker["pattern"] = {
            "shape": "/",
            "size": 6,
            "solidity": 0.3,
            "fillmode": "overlay",
            "fgcolor": theme.light("card"),
        }
    return {
        "type": "bar",
        "orientation": "h",
        "name": one.judge,
        "y": [row + shift for row in rows],
        "x": one.share[: len(rows)],
        "width": thick,
        "marker": marker,
        "hovertext": [
            f"<b>{name(outcome, labels, one.merged, 40)}</b><br>{one.judge}: {count:,} of {one.n:,}"
            f"<br>exact law of this judging {own:.6g}"
            for outcome, count, own in zip(one.outcome, one.count, one.own, strict=True)
        ][: len(rows)],
        "hoverinfo": "text",
    }


def _law(one: Comparison, rows: list[int], labels: Mapping[int, str]) -> dict[str, Any]:
    words = [
        f"<b>{name(outcome, labels, one.merged, 40)}</b><br>the target’s exact law {law:.6g}"
        f"<br>95% of sound experiments: {low:.4g} to {high:.4g}"
        for outcome, law, low, high in zip(one.outcome, one.law, one.low, one.high, strict=True)
    ]
    return upright_marks("law", one.law[: len(rows)], rows, words[: len(rows)], size=27)


def _x_axis(found: list[Comparison]) -> dict[str, Any]:
    shown = len(found[0].law) - (1 if found[0].merged else 0)
    largest = max(max(one.share[:shown] + one.law[:shown] + one.high[:shown]) for one in found)
    return number_axis("share of the judgements", range=[0, 1.05 * largest], nticks=6)


def _alt(found: list[Comparison], labels: Mapping[int, str]) -> str:
    first = found[0]
    parts = []
    for index, (outcome, law) in enumerate(zip(first.outcome[:6], first.law, strict=False)):
        shares = ", ".join(f"{one.judge} {one.share[index]:.3f}" for one in found)
        parts.append(f"{name(outcome, labels, first.merged)}: law {law:.3f}, {shares}")
    return f"{first.n} judgements. " + "; ".join(parts) + "."
