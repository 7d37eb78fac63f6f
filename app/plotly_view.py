"""The one component that shows a Plotly figure: drawn in place, and clicks and keys come back to Python.

>>> view = plotly_view(figure, elem_id="tree", label="The draft tree", keys=True)
>>> view.click(on_click, ...)   # handler takes gr.EventData; ``event.point`` is the point's customdata
>>> view.press(on_key, ...)     # ``event.key`` is "ArrowUp", "Enter", ...; only with keys=True
>>> return figure_value(figure)  # from a handler whose output is the view

The browser's half is ``assets/page.js``; :mod:`app.ui` puts it and plotly's own ``plotly.min.js`` on
the page, so nothing comes from another host. A figure must have ``layout.height``. It is as wide as
its container, but never narrower than ``layout.meta["min_width"]`` (it scrolls then); with
``layout.meta["pixels"]`` one unit of x is one pixel at any width. Zoom is kept as long as
``layout.uirevision`` stays the same. ``layout.meta["alt"]`` is read to screen readers.
"""

from __future__ import annotations

import html
import json
from typing import TYPE_CHECKING, Any

from app import theme

if TYPE_CHECKING:
    import gradio as gr
    from plotly.graph_objects import Figure

MARGIN = 8


def make_figure(
    traces: list[dict[str, Any]], height: int, *, alt: str, min_width: int = 0, **layout: Any
) -> Figure:
    """A figure in the page's style: our fonts, no background, no template, no legend.

    ``traces`` and ``layout`` are plotly's own; ``alt`` says in words what is drawn; sizes in pixels.
    """
    from plotly.graph_objects import Figure

    base: dict[str, Any] = {
        "template": {},  # no default template: everything drawn is said here
        "height": height,
        "font": {"family": theme.SANS, "size": theme.TEXT_SIZE, "color": theme.light("ink")},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": MARGIN, "r": MARGIN, "t": MARGIN, "b": MARGIN},
        "showlegend": False,
        "modebar": {
            "bgcolor": "rgba(0,0,0,0)",
            "color": theme.light("edge"),
            "activecolor": theme.light("ink"),
        },
        "hoverlabel": {
            "bgcolor": theme.light("card"),
            "bordercolor": theme.light("edge"),
            "font": {"family": theme.SANS, "size": theme.TEXT_SIZE, "color": theme.light("ink")},
            "align": "left",
        },
        "meta": {"alt": alt, "min_width": min_width},
    }
    meta = {**base["meta"], **layout.pop("meta", {})}
    # Unchecked here, in a third of the time; the tests have plotly check what is drawn.
    return Figure(data=traces, layout={**base, **layout, "meta": meta}, _validate=False)


def hidden_axis(**more: Any) -> dict[str, Any]:
    """An axis with no line, ticks or grid."""
    return {"visible": False, "fixedrange": False, **more}


def figure_value(figure: Figure) -> str:
    """The component's value. A string, so that the page compares and keeps it cheaply."""
    from plotly.io.json import to_json_plotly

    text = to_json_plotly(figure.to_plotly_json())
    # The page parses this as JSON and never as markup; the escape keeps a token such as "<script>"
    # from looking like markup to anything on the way.
    return text.replace("<", "\\u003c")


def figure_from_value(value: str) -> dict[str, Any]:
    """What :func:`figure_value` wrote, for tests and tools."""
    return dict(json.loads(value))


def plotly_view(
    figure: Figure, *, elem_id: str, label: str, keys: bool = False, order: int = 1, **more: Any
) -> gr.HTML:
    """A component showing ``figure``. ``label`` names it to screen readers; ``keys`` makes it focusable.

    Several may stand on a page, drawn lowest ``order`` first when they change together; one in a
    closed tab is drawn at full size when the tab opens.
    """
    import gradio as gr

    height = int(figure.layout.height)
    focus = "0" if keys else "-1"
    name = html.escape(label, quote=True).replace("{", "&#123;").replace("`", "&#96;").replace("$", "&#36;")
    template = (
        f'<div class="fig-scroll"><div class="fig" tabindex="{focus}" role="group" aria-label="{name}" '
        f'style="height:{height}px"></div><p class="fig-alt" aria-live="off"></p></div>'
    )
    return gr.HTML(
        value=figure_value(figure),
        html_template=template,
        # gradio learns a component's own events from the quoted names in its script
        js_on_load=f"window.eaglePage.mountFigure(element, props, trigger, watch, {order}); // 'press'",
        elem_id=elem_id,
        elem_classes=["figure-view"],
        apply_default_css=False,
        **more,
    )
