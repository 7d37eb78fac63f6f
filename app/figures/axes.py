"""What figures with numbers along an axis share: the axis itself, and marks that stand upright on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app import theme


def number_axis(title: str, **own: Any) -> dict[str, Any]:
    """An axis that stays in the background; ``own`` adds to it or replaces."""
    quiet = {"size": theme.SMALL_TEXT, "color": theme.light("muted")}
    return {
        "title": {"text": title, "font": quiet, "standoff": 8},
        "tickfont": quiet,
        "fixedrange": True,
        "zeroline": False,
        "gridcolor": theme.light("line"),
        **own,
    }


def upright_marks(
    name: str, x: Sequence[float | None], y: Sequence[Any], hovertext: list[str], size: int
) -> dict[str, Any]:
    """A short upright line at each x in its row: what a bar is to be compared with. ``size`` in pixels."""
    ink = theme.light("ink")
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": list(x),
        "y": list(y),
        "marker": {"symbol": "line-ns", "size": size, "color": ink, "line": {"width": 2.5, "color": ink}},
        "hovertext": hovertext,
        "hoverinfo": "text",
        "cliponaxis": False,
    }
