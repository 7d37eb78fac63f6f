"""What one step costs under each method, against what it may cost to be as fast as vanilla."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app import theme
from app.figures.axes import number_axis, upright_marks
from app.plotly_view import make_figure
from app.race_view import NAMES

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from eagle.race import Meter, Race

PARTS = (("draft_ms", "draft", "draft"), ("verify_ms", "verify", "target"), ("commit_ms", "commit", "commit"))
ROW, TOP, BOTTOM = 54, 26, 46


def step_cost(race: Race) -> Figure:
    """A bar a method, the mean milliseconds of a step by part; a mark where it would break even."""
    meters = [meter for meter in race.meters if meter.step_ms is not None]
    if not meters:
        return make_figure([], 60, alt="No step was decoded, so there is nothing to compare.")
    names = [NAMES[meter.method] for meter in meters]
    traces = [_part(meters, names, *part) for part in PARTS]
    even = [meter for meter in meters if meter.break_even_ms is not None]
    traces += [_break_even(even)] if even else []
    longest = max(max(meter.step_ms or 0, meter.break_even_ms or 0) for meter in meters)
    return make_figure(
        traces,
        TOP + ROW * len(meters) + BOTTOM,
        alt=_alt(meters),
        barmode="stack",
        bargap=0.45,
        margin={"l": 78, "r": 16, "t": TOP, "b": BOTTOM},
        xaxis=number_axis("milliseconds of one step", range=[0, longest * 1.06], nticks=6),
        yaxis={
            "autorange": "reversed",
            "fixedrange": True,
            "showgrid": False,
            "zeroline": False,
            "ticks": "",
            "tickfont": {"size": theme.TEXT_SIZE, "color": theme.light("ink")},
        },
        dragmode=False,
        hovermode="closest",
        uirevision="race",
    )


def _part(meters: list[Meter], names: list[str], field: str, word: str, colour: str) -> dict[str, Any]:
    values = [getattr(meter, field) for meter in meters]
    return {
        "type": "bar",
        "orientation": "h",
        "name": word,
        "x": values,
        "y": names,
        "marker": {"color": theme.light(colour), "line": {"width": 0}},
        "hovertext": [
            f"{name}: {word} {value:.2f} ms a step" for name, value in zip(names, values, strict=True)
        ],
        "hoverinfo": "text",
    }


def _break_even(meters: list[Meter]) -> dict[str, Any]:
    """The mark a method's bar must not pass, with a word at it."""
    words = [
        f"τ {theme.three_digits(meter.tau or 0)}: up to {theme.three_digits(meter.break_even_ms or 0)} ms "
        "a step it is at least as fast as vanilla"
        for meter in meters
    ]
    rows = [NAMES[meter.method] for meter in meters]
    return upright_marks("break even", [meter.break_even_ms for meter in meters], rows, words, size=34)


def _alt(meters: list[Meter]) -> str:
    parts = []
    for meter in meters:
        mark = "" if meter.break_even_ms is None else f", break-even at {meter.break_even_ms:.1f} ms"
        parts.append(f"{NAMES[meter.method]}: a step takes {meter.step_ms or 0:.1f} ms{mark}")
    return "; ".join(parts) + "."
