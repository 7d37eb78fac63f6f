"""One draw, as HTML: the rule, the candidates lined up with their bars, the verdict, the controls. Pure."""

from __future__ import annotations

from app.figures import lab_bars
from app.figures.lab_svg import token
from app.lab_html import button, card, number_box, select, slider, toggle
from app.lab_state import FINAL_COLUMN, TEST_COLUMN, LabState
from app.lab_walk import Walk
from app.lab_words import (
    RULE_NAMES,
    RULE_SENTENCES,
    button_words,
    is_biased,
    now_sentence,
    proposal_words,
    trial_formula,
)
from app.labels import html_text, html_token
from app.theme import three_digits


def one_draw(now: Walk) -> str:
    """The candidates lined up, each with its bar and its draw, then the last draw."""
    rungs = _drafting(now) if now.drawn else ""
    for index in range(len(now.candidates)):
        if now.drafted_is_shown():
            rungs += _rung(now, index)
    rungs += _last_rung(now)
    said = f'<p class="now" role="status" aria-live="polite">{html_text(now_sentence(now))}</p>'
    outcome = ""
    if now.finished and now.verdict.token is not None:
        outcome = f'<p class="came-out">comes out: {token(now.state.tokens[now.verdict.token])}</p>'
    body = f'<ol class="ladder">{rungs}</ol><div class="verdict-line">{said}{outcome}</div>{_controls(now)}'
    box = number_box(str(now.state.seed), "seed of the draws", "seed", do="seed")
    seed = f'<span class="l-small seed-field">seed {box}</span>'
    return card("One draw", _rule_bar(now.state) + body, "card-draw", seed)


def _rule_bar(state: LabState) -> str:
    """Which rule judges, with its one sentence; k and the order where the rule has them."""
    bar = select("rule", RULE_NAMES, state.rule, "rule-menu", do="rule")
    if state.rule in ("eagle2", "eagle1", "misreading"):
        box = number_box(str(state.k), "k, how many candidates", "k-in", do="k")
        bar += f'<label class="field">k {box}</label>'
    if state.rule in ("eagle2", "misreading") and len(state.fixed_list() or []) > 1:
        bar += toggle("draft's order", not state.order, "l-small", do="order", v="draft")
        bar += button("reverse", "l-small", do="order", v="reverse")
    biased = is_biased(state.rule)
    mark = '<b class="mark biased">✗ BIASED</b> ' if biased else ""
    about = f"{mark}{html_text(RULE_SENTENCES[state.rule])}"
    css = "l-small about-rule biased-text" if biased else "l-small about-rule"
    return f'<div class="tool-row">{bar}</div><p class="{css}">{about}</p>'


def _drafting(now: Walk) -> str:
    shown = now.is_shown("drafted")
    out = ""
    for i, (drawn, candidate) in enumerate(zip(now.drawn, now.candidates, strict=True)):
        assert candidate.q is not None
        draw = drawn.draw if shown else None
        chosen = drawn.token if shown else None
        bar = lab_bars.draw_bar(
            now.state.tokens, candidate.q, draw, chosen, "draft-piece", f"the draft's draw {i + 1}", f"d{i}"
        )
        said = f"the draft drew {token(now.state.tokens[drawn.token])}" if shown else "the draft's own draw"
        out += _row("draft", f"d{i}", f"{said}", "", _settable(bar, i, drawn.draw, shown), _box(i, draw), "")
        if not shown:
            break
    return out


def _row(css: str, key: str, name: str, under: str, bar: str, draw: str, verdict: str) -> str:
    return (
        f'<li class="rung is-{css}" data-key="{key}"><div class="rung-name">{name}'
        f'<span class="under">{under}</span></div><div class="rung-bar">{bar}</div>'
        f'<div class="rung-end"><div class="rung-verdict">{verdict}</div><div '
        f'class="rung-draw">{draw}</div></div></li>'
    )


def _rung(now: Walk, index: int) -> str:
    candidate = now.candidates[index]
    name = f'<span class="rank">{index + 1}</span> {token(now.state.tokens[candidate.token], 12)}'
    if index and now.state.rule in ("eagle2", "misreading"):
        name += button(
            "↑",
            "icon",
            label=f"Offer candidate {index + 1} one place earlier",
            do="order",
            v="ahead",
            i=index,
        )
    under = html_text(proposal_words(now, index))
    column = TEST_COLUMN + index
    if index >= len(now.trials) or not (now.is_shown("trial", index) or now.is_next("trial", index)):
        settled = now.finished and index >= len(now.trials)
        word = "○ not tested" if settled else "waits"
        return _row("idle", f"t{index}", name, under, '<div class="empty-bar"></div>', "", word)
    trial, shown = now.trials[index], now.is_shown("trial", index)
    hidden = now.state.predict and not shown
    bar = lab_bars.trial_bar(
        now.state.tokens[candidate.token],
        trial.accept,
        trial.draw if shown else None,
        hidden=hidden,
        key=f"t{index}",
    )
    if not hidden:
        lines = html_text(trial_formula(now, index)).replace("|", "<br>")
        under += f'<span class="l-formula">{lines}</span>'
    css = ("accepted" if trial.accepted else "rejected") if shown else "next"
    verdict = {"accepted": "✓ accepted", "rejected": "✗ rejected", "next": "▸ next"}[css]
    set_by_hand = _settable(bar, column, trial.draw, shown) if not hidden else bar
    return _row(
        css,
        f"t{index}",
        name,
        under,
        set_by_hand,
        _box(column, trial.draw if shown else None, hidden),
        verdict,
    )


def _last_rung(now: Walk) -> str:
    name, key = "<b>◆ the last draw</b>", "final"
    final = now.verdict.final
    shown, coming = now.is_shown("final"), now.is_next("final")
    if final is None or not (shown or coming):
        word = "not needed" if now.finished else "if all are rejected"
        return _row(
            "idle", key, name, html_text("from what is left"), '<div class="empty-bar"></div>', "", word
        )
    bar = lab_bars.draw_bar(
        now.state.tokens,
        final.drawn_from,
        final.draw if shown else None,
        final.token if shown else None,
        "final-piece",
        "what is left",
        key,
    )
    verdict = f"◆ {token(now.state.tokens[final.token], 12)}" if shown else "▸ next"
    css = "final" if shown else "next"
    draw = _box(FINAL_COLUMN, final.draw if shown else None)
    return _row(
        css, key, name, "from what is left", _settable(bar, FINAL_COLUMN, final.draw, shown), draw, verdict
    )


def _settable(bar: str, column: int, draw: float, shown: bool) -> str:
    """A bar on which the draw can be dragged or set by the arrow keys."""
    label = "The draw, from 0 to 1" if shown else "Set the draw by hand, from 0 to 1"
    value = draw if shown else 0.5
    return bar + slider(value, 0, 0.999, 0.001, label, "over pin-range", do="draw", column=column)


def _box(column: int, draw: float | None, hidden: bool = False) -> str:
    if hidden:
        return ""
    value = "" if draw is None else three_digits(draw)
    box = number_box(value, "Type the draw by hand", "r-in", do="draw", column=column)
    return f'<span class="l-small">r =</span> {box}'


def _controls(now: Walk) -> str:
    event = now.next_event
    back = button("Back", "", key="←", disabled=now.shown == 0, do="back")
    new = "" if now.finished else button("New draw", "", key="R", do="new")
    if now.state.predict and event is not None and event.kind == "trial":
        name = html_token(now.state.tokens[now.candidates[event.index].token], 12)
        ask = (
            f'<form class="predict" data-predict="1"><span>Predict: <b>{name}</b> is accepted with '
            f"probability</span>"
            '<input type="text" inputmode="decimal" class="box-in" name="probability" aria-label="Your '
            'probability" '
            'placeholder="0 to 1"><span>and this draw is</span>'
            f"{button('✓ accepted', 'primary', do='guess', side='accept')}"
            f"{button('✗ rejected', 'primary', do='guess', side='reject')}</form>"
        )
        return f'<div class="controls">{ask}{back}</div>'
    main = button(button_words(now), "primary main", key="space", do="next")
    return f'<div class="controls">{main}{back}{new}</div>'
