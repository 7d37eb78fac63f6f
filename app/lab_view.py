"""The lab's tab: one HTML component whose actions go to a pure function, and the proof as text.

Actions reach Python as a server function of the component, not as a queued event, so the lab never
waits for a model that is decoding. The state travels with each action; nothing is kept here.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import gradio as gr  # at the top: gradio resolves the annotations of its handlers by the module's names

from app import lessons
from app.lab_edit import apply
from app.lab_page import render
from app.lab_query import from_query, to_query
from app.lab_state import LabState

ASSETS = Path(__file__).resolve().parent.parent / "assets"
TEMPLATE = '<div class="lab"><p class="lab-loading">The rule lab is opening…</p></div>'
PROOF = r"""
#### The proof, in five lines

Let the fixed list be $x_1, \dots, x_k$, and write $S_i = p(x_1) + \dots + p(x_i)$, $S_0 = 0$.

1. After $i - 1$ rejections the residual gives $x_i$ the probability $\dfrac{p(x_i)}{1 - S_{i-1}}$: that is
   what the $i$-th draw is tested against, since $q = 1$.
2. Trial $i$ is reached with probability
   $\displaystyle\prod_{j<i} \Bigl(1 - \frac{p(x_j)}{1 - S_{j-1}}\Bigr)
   = \prod_{j<i} \frac{1 - S_j}{1 - S_{j-1}} = 1 - S_{i-1}.$
3. So $x_i$ is accepted with probability $(1 - S_{i-1}) \cdot \dfrac{p(x_i)}{1 - S_{i-1}} = p(x_i)$,
   in any order.
4. All are rejected with probability $1 - S_k$, and the last draw then gives $y$ with $\dfrac{p(y)}{1 - S_k}$.
5. So a token $y$ off the list comes out with $(1 - S_k) \cdot \dfrac{p(y)}{1 - S_k} = p(y)$:
   the output is $p$. $\blacksquare$

For *one* candidate drawn from $q$ (speculative sampling) two lines do:
accepted as $x$ with $q(x) \min\bigl(1, \tfrac{p(x)}{q(x)}\bigr) = \min(p(x), q(x))$, rejected with
$1 - \sum_z \min(p(z), q(z)) = \sum_z \max(0, p(z) - q(z))$; the last draw adds $\max(0, p(x) - q(x))$, and
$\min(p, q) + \max(0, p - q) = p$.
"""


def lab_act(request: dict[str, Any]) -> dict[str, Any]:
    """One action on one state: {"query", "action"} -> {"html", "query", "why", "room"}.

    Never raises for what a visitor can send; a fault is one sentence in the HTML.
    """
    if not isinstance(request, dict):
        request = {}
    action = request.get("action")
    if not isinstance(action, dict):
        action = {}
    before, _ = from_query(str(request.get("query") or ""))
    after, note = apply(before, action)
    moved = before if action.get("do") in ("weight", "copy") else None
    return {
        "html": render(after, note, moved),
        "query": to_query(after),
        "why": after.view == "why" and lessons.page(after).stage in ("lab", "recorded"),
        "room": after.room,
    }


def build() -> gr.HTML:
    """Puts the lab where it is called, inside a tab; :func:`handed_over` makes a value for the component."""
    lab = gr.HTML(
        value="",
        html_template=TEMPLATE,
        js_on_load=(ASSETS / "lab.js").read_text(encoding="utf-8"),
        server_functions=[lab_act],
        apply_default_css=False,
        elem_id="lab",
    )
    gr.Markdown(
        PROOF,
        latex_delimiters=[
            {"left": "$$", "right": "$$", "display": True},
            {"left": "$", "right": "$", "display": False},
        ],
        elem_id="lab-proof",
    )
    return lab


def tab_of_link(request: gr.Request) -> Any:
    """For the page's load event, with the tabs as output: a link that names the lab opens its tab."""
    return gr.Tabs(selected="lab") if request.query_params.get("tab") == "lab" else gr.skip()


def handed_over(state: LabState) -> str:
    """The component's value, as an event's output, that makes the lab show this state."""
    return f"{to_query(state)}#{secrets.token_hex(4)}"
