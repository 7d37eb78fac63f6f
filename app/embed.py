"""A recorded run on a page of its own, to be put into an iframe: read-only, no session, no model.

``/gradio_api/embed?run=first&step=7&node=2&view=verify`` draws the same pictures as the Explore tab;
a click asks ``/gradio_api/embed/state`` for the next ones. Everything selected is in the address. The
page runs only scripts of this server, and none that is written into it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from app import session, theme
from app.gallery import Gallery
from app.labels import html_text
from app.library import first_visit, recorded_visit
from app.session import Look, Visit
from app.view import cut_shown, values

ASSETS = Path(__file__).resolve().parent.parent / "assets"
PAGE, STATE, SCRIPT = "/gradio_api/embed", "/gradio_api/embed/state", "/gradio_api/vendor/embed.js"
MARKUP = ("source", "answer", "nav", "views", "node", "strip_title")
FIGURES = ("tree", "steps", "candidates", "strip")  # in the order in which they are drawn
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; connect-src 'self'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors *"
)
HEADERS = {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff"}
MOST_QUERY = 500
WAYS = ("cut", "log", "narrow")  # how the selected step is shown: on in the query as 1
LAYOUT = """
<article class="embed">
<section class="card" id="source"></section>
<section class="card" id="answer"></section>
<section class="card"><div id="nav"></div><div id="steps" class="figure-view"></div></section>
<section class="card"><div id="views"></div><div id="tree" class="figure-view"></div>
<div id="candidates" class="figure-view"></div></section>
<section class="card" id="node"></section>
<section class="card"><div id="strip_title"></div><div id="strip" class="figure-view"></div></section>
<footer><a href="../" target="_blank" rel="noopener">Open the whole demo</a></footer>
</article>
"""
STYLE = """
body { margin: 0; padding: 10px; background: var(--c-page); color: var(--c-ink); font-family: var(--sans); }
.embed { display: grid; gap: 10px; max-width: 1200px; margin: 0 auto; }
.embed .card { min-width: 0; } .embed .to-lab { display: none; }
.embed footer { font-size: 13px; padding: 0 6px; } .embed footer a { color: var(--c-muted); }
"""


def asked_look(gallery: Gallery, query: Mapping[str, str]) -> tuple[Visit, Look]:
    """The run and what is selected in it; whatever the query names wrongly falls back to the default.

    ``act`` and what belongs to it are an event on top of the rest (see :func:`app.session.act`).
    """
    given = {key: value[:MOST_QUERY] for key, value in query.items()}
    visit = recorded_visit(gallery, given.get("run")) or first_visit(gallery)
    run = visit.run
    look = session.from_query(run, given)
    if given.get("shown", "").isascii() and given.get("shown", "").isdigit():
        look = replace(look, shown=min(int(given["shown"][:4]), 999))
    cut, log, narrow = (given.get(way) == "1" for way in WAYS)
    look = replace(look, cut=cut, log=log, narrow=narrow)
    if "act" in given:
        event: dict[str, object] = {key.removeprefix("on."): value for key, value in given.items()}
        look = session.act(run, look, event)
    return visit, look


def state(gallery: Gallery, query: Mapping[str, str]) -> dict[str, Any]:
    """Everything on the page for a query: markup, figures, and the query that names what is selected."""
    visit, look = asked_look(gallery, query)
    drawn = values(visit, look)
    where: dict[str, str] = {"run": visit.name or "", "step": str(look.step), "view": str(look.view)}
    where |= {} if look.node is None else {"node": str(look.node)}
    where |= {} if look.shown is None else {"shown": str(look.shown)}
    where |= {way: "1" for way in WAYS if getattr(look, way)}
    return {
        "query": where,
        "markup": {name: drawn[name] for name in MARKUP},
        "figures": {name: drawn[name] for name in FIGURES},
        "hidden": [] if cut_shown(look) else ["candidates"],
    }


def page(gallery: Gallery, query: Mapping[str, str], plotly_source: str) -> str:
    """The whole document. ``theme=dark`` makes it dark."""
    dark = ' class="dark"' if query.get("theme") == "dark" else ""
    data = json.dumps(state(gallery, query)).replace("<", "\\u003c")
    style = theme.css_variables() + (ASSETS / "style.css").read_text(encoding="utf-8") + STYLE
    return (
        f'<!doctype html><html lang="en"{dark}><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>EAGLE-2, step by step: {html_text(query.get('run', 'a recorded run')[:60])}</title>"
        f"<style>{style}</style></head><body{dark}>{LAYOUT}"
        f'<script type="application/json" id="state">{data}</script>'
        f'<script src="{plotly_source}"></script><script src="vendor/embed.js"></script></body></html>'
    )


def script() -> str:
    """The scripts of the page: the colour table, the page's own, and what carries clicks to the server."""
    twins = f"window.eagleDarkTwins={json.dumps(theme.dark_twins())};\n"
    return twins + "".join((ASSETS / name).read_text(encoding="utf-8") for name in ("page.js", "embed.js"))


def routes(gallery: Gallery, plotly_source: str) -> list[Any]:
    """The routes of the page, its state and its script."""
    from starlette.responses import HTMLResponse, JSONResponse, Response
    from starlette.routing import Route

    def serve_page(request: Any) -> Response:
        return HTMLResponse(page(gallery, dict(request.query_params), plotly_source), headers=HEADERS)

    def serve_state(request: Any) -> Response:
        return JSONResponse(state(gallery, dict(request.query_params)), headers=HEADERS)

    def serve_script(_request: Any) -> Response:
        return Response(script(), media_type="text/javascript", headers=HEADERS)

    return [Route(PAGE, serve_page), Route(STATE, serve_state), Route(SCRIPT, serve_script)]
