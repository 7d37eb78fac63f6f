"""A run as one HTML file: the explorer's figures for every step, to be opened with no server and no network.

plotly.js stands in it once; the steps are JSON that the few lines of ``assets/saved.js`` show. The file's
own policy forbids every address and every script that is not written into it by us.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from app import controls, panels, session, theme
from app.figures import overview as over
from app.figures.residual import filmstrip
from app.figures.steps import step_bar
from app.figures.tree import draft_tree
from app.labels import html_text
from app.node_panel import node_panel
from app.overview import overview
from app.plotly_view import figure_value
from app.session import Look, Source, View, Visit
from app.to_lab import siblings_of
from eagle.trace import ROOT

ASSETS = Path(__file__).resolve().parent.parent / "assets"
MOST_BYTES = 20_000_000  # of figures and panels; plotly.js comes on top, about 5 MB
LAYOUT = """
<main class="saved">
<header class="page-head"><h1>EAGLE-2, step by step</h1><p>{note}</p></header>
<section class="card">{source}<div id="answer">{answer}</div>{meters}</section>
<section class="card"><div id="nav"></div><div id="steps" class="figure-view"></div></section>
<section class="card"><div id="views"></div><div id="tree" class="figure-view"></div></section>
<section class="card" id="node"></section>
<section class="card"><div id="strip_title"></div><div id="strip" class="figure-view"></div></section>
<section class="card">{over_line}<div id="over-row">
<div><h3>Does confidence keep its word?</h3><div id="calibration" class="figure-view"></div></div>
<div><h3>How deep do guesses carry?</h3><div id="levels" class="figure-view"></div></div>
<div><h3>Tokens from one pass</h3><div id="lengths" class="figure-view"></div></div></div></section>
</main>
"""
STYLE = """
body { margin: 0; padding: 10px; background: var(--c-page); color: var(--c-ink); font-family: var(--sans); }
.saved { display: grid; gap: 10px; max-width: 1200px; margin: 0 auto; } .saved .card { min-width: 0; }
.story, .to-lab, [data-act=cut], [data-act=log] { display: none; }
"""


@dataclass(frozen=True)
class SavedPage:
    """The file's text, how many steps it holds, and how many the run has."""

    text: str
    steps: int
    of: int

    @property
    def note(self) -> str:
        """What the file holds, in one sentence."""
        if self.steps == self.of:
            return f"All {self.of} steps; opens without a network."
        most = MOST_BYTES // 1_000_000
        return f"The first {self.steps} of {self.of} steps: a page holds at most {most} MB of figures."


def saved_page(visit: Visit, most_bytes: int = MOST_BYTES) -> SavedPage:
    """The whole file; of a long run as many steps, from the first on, as fit into ``most_bytes``."""
    steps: list[str] = []
    size, labels = 0, visit.run.labels()
    for index in range(len(visit.run.steps)):
        step = _step(visit, labels, index)
        size += len(step.encode())
        if size > most_bytes and steps:
            break
        steps.append(step)
    made = SavedPage("", len(steps), len(visit.run.steps))
    return SavedPage(_document(visit, steps, made.note), made.steps, made.of)


def _step(visit: Visit, labels: dict[int, str], index: int) -> str:
    """One step as JSON: its markup and figures, the views of its tree among them."""
    run, step = visit.run, visit.run.steps[index]
    look = session.to_step(run, Look(), index)
    node = look.node if look.node is not None else ROOT
    parent = siblings_of(step, node) if step.tree is not None else ROOT
    root = run.steps[index - 1].emitted.token[-1] if index else None
    views = {view: session.to_view(look, view) for view in View}
    return _object(
        {
            "nav": _markup(controls.nav(run, look)),
            "node": _markup(node_panel(run, step, labels, node)),
            "strip_title": _markup(controls.strip_title(step, labels, parent, look)),
            "strip": figure_value(filmstrip(step, labels, parent)),
            "views": _object({view: _markup(controls.views(run, one)) for view, one in views.items()}),
            "tree": _object(
                {view: figure_value(draft_tree(step, labels, one, root)) for view, one in views.items()}
            ),
        }
    )


def _document(visit: Visit, steps: list[str], note: str) -> str:
    run, counts = visit.run, overview(visit.run)
    opening = min(session.opening(run).step, len(steps) - 1)
    whole = {
        "bar": step_bar(run, 0),
        "calibration": over.calibration(counts),
        "levels": over.levels(counts),
        "lengths": over.lengths(counts, run.tau),
    }
    data = _object(
        {
            "opening": str(opening),
            "steps": f"[{','.join(steps)}]",
            **{name: figure_value(figure) for name, figure in whole.items()},
        }
    )
    body = LAYOUT.format(
        note=html_text(note),
        source=controls.source_line(visit),
        answer=panels.answer(run, -1, None, running=False),
        meters=panels.meters(run, visit.baseline, visit.source is Source.LIVE),
        over_line=panels.over_line(counts),
    )
    style = theme.css_variables() + (ASSETS / "style.css").read_text(encoding="utf-8") + STYLE
    scripts = [_plotly(), f"window.eagleDarkTwins={json.dumps(theme.dark_twins())};"]
    scripts += [(ASSETS / name).read_text(encoding="utf-8") for name in ("page.js", "saved.js")]
    title = html_text(f"EAGLE-2, step by step: {run.prompt.text[:60]}")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">{_policy(scripts)}'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{style}</style></head><body>{body}"
        f'<script type="application/json" id="run">{data}</script>'
        + "".join(f"<script>{script}</script>" for script in scripts)
        + "</body></html>"
    )


def _policy(scripts: list[str]) -> str:
    """Only these scripts run, and nothing is fetched."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in scripts
    )
    rules = (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    return f'<meta http-equiv="Content-Security-Policy" content="{rules}">'


def _plotly() -> str:
    """plotly.js out of plotly's own wheel."""
    from plotly.offline import get_plotlyjs

    source: str = get_plotlyjs()
    if "</script" in source or "<!--" in source:
        raise RuntimeError("this plotly.js can not stand inside a page")
    return source


def _object(fields: dict[str, str]) -> str:
    """A JSON object from values that are JSON already."""
    return "{" + ",".join(f"{json.dumps(str(name))}:{value}" for name, value in fields.items()) + "}"


def _markup(text: str) -> str:
    """Markup as a JSON string that nothing can take for markup where it stands."""
    return json.dumps(text).replace("<", "\\u003c")
