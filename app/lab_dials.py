"""The screens of the lessons on trees and on speed, as HTML: a picture and its dials. Pure."""

from __future__ import annotations

from app import lab_tree
from app.figures.lab_speed import speed_figure
from app.figures.lab_svg import number
from app.figures.lab_tree import tree_figure
from app.lab_html import card, number_box, save_buttons, slider
from app.lab_state import LabState
from app.theme import three_digits
from eagle import laws


def tree_stage(state: LabState) -> str:
    """The small tree with rerank's dial."""
    tree = lab_tree.small_tree(state.total)
    picture = tree_figure(tree, lab_tree.TOKENS, lab_tree.PARENT, lab_tree.CONFIDENCE)
    dial = _dial("nodes kept by rerank", "total", state.total, 1, 10, 1)
    legend = (
        '<p class="l-small">On the arrow: confidence. In the node: its place by value, and the value, the '
        "product of "
        "confidences along its path. ★ expanded. Solid: kept by rerank; dotted: cut, so the target never "
        "sees it.</p>"
    )
    return card(
        "The draft tree after “I”",
        f'<div class="dials">{dial}</div><div class="scroll">{picture}</div>{legend}',
        "pictured",
        save_buttons(),
    )


def speed_stage(state: LabState) -> str:
    """τ, ω and speedup for chosen numbers; said to be arithmetic, not a measurement."""
    tau = laws.expected_tau(state.share, state.depth)
    omega = laws.overhead(state.depth, state.draft_step, state.extra_token)
    gain = laws.speedup(tau, omega)
    dials = _dial("each level is walked with probability", "share", state.share, 0, 1, 0.01)
    dials += _dial("tokens drafted in a row", "depth", state.depth, 0, 12, 1)
    dials += _dial("a draft step costs (target passes)", "draft_step", state.draft_step, 0, 1, 0.01)
    dials += _dial(
        "verifying one more token costs (target passes)", "extra_token", state.extra_token, 0, 1, 0.01
    )
    faster = "faster than" if gain > 1 else "slower than" if gain < 1 else "as fast as"
    meters = (
        f'<div class="lab-meters"><span><b>τ {number(tau)}</b> tokens for one target pass</span>'
        f"<span><b>ω {number(omega)}</b> target passes of overhead</span>"
        f"<span><b>{number(gain)} ×</b> {faster} plain decoding: τ / (1 + ω)</span></div>"
    )
    legend = (
        '<p class="l-small"><i class="line-key tau-line"></i> τ &nbsp; <i class="line-key speed-line"></i> '
        "speedup &nbsp; "
        '<i class="line-key even-line"></i> 1, plain decoding: below it speculation loses. '
        "This is arithmetic on the numbers you chose, not a measurement.</p>"
    )
    picture = speed_figure(state.share, state.depth, state.draft_step, state.extra_token)
    return card(
        "Tokens for one pass, and what they cost",
        f'<div class="dials">{dials}</div>{meters}<div class="speed-wrap">{picture}</div>{legend}',
        "pictured",
        save_buttons(),
    )


def _dial(words: str, which: str, value: float, low: float, high: float, step: float) -> str:
    return (
        f"<label "
        f'class="dial"><span>{words}</span>{slider(value, low, high, step, words, do="dial", which=which)}'
        f"{number_box(three_digits(value), words, 't-in', do='dial', which=which)}</label>"
    )
