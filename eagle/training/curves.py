"""The loss curve and the agreement curve of a run, as one HTML page beside its checkpoint.

plotly is imported inside the one function that draws: nothing else of ``eagle`` needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

FILE = "curves.html"


def write_curves(log: Sequence[dict[str, Any]], path: Path) -> None:
    """Draws a run's log; ``plotly.min.js`` is written once beside the page, so it opens without a network."""
    from plotly.graph_objects import Figure, Scatter
    from plotly.subplots import make_subplots

    figure: Figure = make_subplots(
        rows=2,
        cols=1,
        shared_xaxes=True,
        vertical_spacing=0.1,
        subplot_titles=("Loss", "Agreement with the target on held-out text"),
    )
    for name, title in (("loss", "training loss"), ("feature", "smooth L1 of features"), ("token", "tokens")):
        lines = [line for line in log if name in line]
        figure.add_trace(
            Scatter(x=[x["step"] for x in lines], y=[x[name] for x in lines], name=title, mode="lines"), 1, 1
        )
    lines = [line for line in log if "held_out" in line]
    steps = [line["step"] for line in lines]
    for key, title, dash in (("top1", "best token", "solid"), ("top4", "among the best four", "dot")):
        for depth in range(len(lines[0]["held_out"][key]) if lines else 0):
            values = [line["held_out"][key][depth] for line in lines]
            name = f"draft step {depth + 1}, {title}"
            figure.add_trace(
                Scatter(x=steps, y=values, name=name, mode="lines+markers", line={"dash": dash}), 2, 1
            )
    figure.update_yaxes(title_text="loss", type="log", row=1, col=1)
    figure.update_yaxes(title_text="share of positions", tickformat=".0%", row=2, col=1)
    figure.update_xaxes(title_text="step", row=2, col=1)
    figure.update_layout(template="plotly_white", height=800, title="Training of a draft head")
    figure.write_html(path, include_plotlyjs="directory", full_html=True)
