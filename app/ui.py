"""Assembles the page: one tab a module, and how it is launched.

``build_demo(runner)`` loads no model; a test passes a runner that replays recorded runs.
"""

from __future__ import annotations

import html
import json
import os
from pathlib import Path
from typing import Any

import gradio as gr

from app import api, embed, explore, lab_view, proof, race, theme
from app.crowd import CrowdRunner
from app.gallery import Gallery
from app.policy import Policy
from app.runner import RunSource

ASSETS = Path(__file__).resolve().parent.parent / "assets"
TITLE = "EAGLE-2, step by step"
# Under one of gradio's own prefixes, so that it is reached in server-side rendering too.
PLOTLY_ROUTE = "/gradio_api/vendor/plotly.min.js"
# Visitors who wait for the model each hold a thread; the others must find one at once all the same.
MOST_THREADS = 96
MOST_SESSIONS = 1000
FILES_KEPT_S = (600, 3600)  # how often saved and opened files are looked through, and how long they stay


def build_demo(
    runner: RunSource | None = None, gallery: Gallery | None = None, policy: Policy | None = None
) -> gr.Blocks:
    """The whole page. Without a runner it decodes with the built-in pair, loaded when first needed."""
    runner = runner or CrowdRunner()
    gallery = gallery or Gallery()
    with gr.Blocks(title=TITLE, fill_width=True, analytics_enabled=False, delete_cache=FILES_KEPT_S) as demo:
        gr.HTML(_header(), apply_default_css=False, elem_id="page-head", js_on_load=_THEME_SWITCH)
        with gr.Tabs(elem_id="tabs") as tabs:
            with gr.Tab("Explore", id="explore"):
                explorer = explore.build(demo, runner, gallery, policy)
            with gr.Tab("Rule lab", id="lab"):
                lab = lab_view.build()
            with gr.Tab("Race", id="race"):
                race.build(runner, gallery)
            with gr.Tab("Proof", id="proof"):
                proof.build(runner)
        explore.wire_lab(explorer, lab, tabs)
        demo.load(
            lab_view.tab_of_link, None, tabs, queue=False, show_progress="hidden", api_visibility="private"
        )
        api.build(runner)
    return demo


def launch_options(gallery: Gallery | None = None) -> dict[str, Any]:
    """What ``demo.launch`` needs: theme, style, script, routes of our own, port from the environment.

    ``allowed_paths`` is not among them: nothing of this folder or of the machine is served as a file.
    """
    port = os.environ.get("GRADIO_SERVER_PORT") or os.environ.get("PORT") or "7860"
    return {
        "theme": theme.gradio_theme(),
        "css": theme.css_variables() + "".join(_styles()),
        "head": _head(),
        "app_kwargs": {"routes": [_plotly_route(), *embed.routes(gallery or Gallery(), _plotly_source())]},
        "server_port": int(port),
        "footer_links": ["api"],
        "run_history": False,
        "show_error": False,
        "enable_monitoring": False,
        "max_file_size": "8mb",
        "max_threads": MOST_THREADS,
        "state_session_capacity": MOST_SESSIONS,
    }


def _styles() -> list[str]:
    """Every style sheet of ``assets/``, the page's own first."""
    paths = sorted(ASSETS.glob("*.css"), key=lambda path: (path.name != "style.css", path.name))
    return [path.read_text(encoding="utf-8") for path in paths]


def _header() -> str:
    return (
        f'<header class="page-head"><h1>{html.escape(TITLE)}</h1>'
        "<p>What was guessed, what was kept, and why.</p>"
        '<button type="button" class="theme-switch" aria-label="Switch between light and dark">'
        '<span aria-hidden="true">◐</span></button></header>'
    )


# Around gradio's own container, which the style sheet can not reach: gradio puts its rules inside it. The
# page's ground too: gradio sets it once, as the system's theme is, and not when the theme is switched.
_PHONE = "@media (max-width:760px){.gradio-container .main.app{padding:10px 10px 16px!important}}"
_GROUND = "body{{background:{light}!important}}body.dark,.dark body{{background:{dark}!important}}"

_THEME_SWITCH = """
element.addEventListener('click', (event) => {
  if (event.target.closest('.theme-switch')) window.eaglePage.switchTheme();
});
"""


def _head() -> str:
    """Scripts that run before any component: the colour table, our script, and plotly from this server."""
    twins = json.dumps(theme.dark_twins())
    page = theme.COLOURS["page"]
    script = (ASSETS / "page.js").read_text(encoding="utf-8")
    return (
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_PHONE}{_GROUND.format(light=page.light, dark=page.dark)}</style>"
        f"<script>window.eagleDarkTwins={twins};</script><script>{script}</script>"
        f'<script defer src="gradio_api/{_plotly_source()}"></script>'
    )


def _plotly_source() -> str:
    """Where the route below is, seen from beside it; the version in it ends what browsers have kept."""
    import plotly

    return f"vendor/plotly.min.js?v={plotly.__version__}"


def _plotly_route() -> Any:
    """The route that serves ``plotly.min.js`` out of plotly's own wheel."""
    import plotly
    from starlette.responses import FileResponse
    from starlette.routing import Route

    path = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"

    def serve(_request: Any) -> FileResponse:
        return FileResponse(path, media_type="text/javascript", headers={"Cache-Control": "max-age=604800"})

    return Route(PLOTLY_ROUTE, serve)
