"""The lab's main screen, as HTML: the two distributions, one draw, what is left, the exact law. Pure."""

from __future__ import annotations

from app.figures import lab_bars, lab_law
from app.figures.lab_svg import number, token
from app.lab_html import act, button, card, number_box, save_buttons, select, slider, table, toggle
from app.lab_law import Law, factors, law_of
from app.lab_state import (
    FINAL_COLUMN,
    MAX_NAME,
    MAX_TEMPERATURE,
    MAX_TOKENS,
    MIN_TOKENS,
    TEST_COLUMN,
    LabState,
)
from app.lab_walk import Walk
from app.lab_words import (
    RULE_NAMES,
    RULE_SENTENCES,
    SHORT_NAMES,
    button_words,
    is_biased,
    now_sentence,
    proposal_words,
    residual_words,
    temperature_sentence,
    trial_formula,
)
from app.labels import html_text, html_token, quoted
from app.theme import three_digits
from eagle import rules
from eagle.laws import SAMPLED
from eagle.rules import Array

MOST_PATHS = 6


# The two distributions.


def distributions(state: LabState, before: LabState | None) -> str:
    """Both distributions, editable by name, number and bar; ``before`` leaves its values as ghosts."""
    old = before if before is not None and len(before.tokens) == len(state.tokens) else None
    p, q = state.p, state.q
    rows = ""
    for i, name in enumerate(state.tokens):
        removable = len(state.tokens) > MIN_TOKENS
        remove = button("×", "icon", label=f"Remove {name}", disabled=not removable, do="remove", i=i)
        rows += (
            f'<div class="dist-row" data-key="row{i}">'
            f'<input type="text" class="name-in" maxlength="{MAX_NAME}" value="{html_text(name)}" '
            f'aria-label="Name of token {i + 1}" title="{html_token(name)}" {act(do="name", i=i)}>'
            f"{_weight(state, 'target', i, float(p[i]), old)}{_weight(state, 'draft', i, float(q[i]), old)}"
            f'<span class="dist-remove">{remove}</span></div>'
        )
    tools = button("+ token", "l-small", disabled=len(state.tokens) >= MAX_TOKENS, do="add")
    tools += button("draft = target", "l-small", do="copy", which="draft")
    heads = (
        '<div class="dist-row dist-head" aria-hidden="true"><span>token</span>'
        '<span class="key-target">target p</span>'
        f"<span "
        f'class="key-draft">{"draft q" if state.rule in SAMPLED else "draft confidence"}</span><span></span></div>'
    )
    heat = slider(state.temperature, 0, MAX_TEMPERATURE, 0.05, "temperature", do="temperature")
    box = number_box(three_digits(state.temperature), "temperature", "t-in", do="temperature")
    foot = f'<div class="heat"><label class="field">temperature {heat}{box}</label>'
    foot += f'<span class="l-small">{html_text(temperature_sentence(state.rule))}</span></div>'
    if state.temperature != 1:
        what = "Bars" if state.rule in SAMPLED else "The target's bars"
        foot += (
            f'<p class="l-small">{what} are at temperature {three_digits(state.temperature)}; dashed '
            f"outlines and "
            "boxes at temperature 1.</p>"
        )
    return card(
        "The two distributions", heads + rows + foot, "card-dist", f'<span class="tools">{tools}</span>'
    )


def _weight(state: LabState, which: str, i: int, shown: float, old: LabState | None) -> str:
    value = getattr(state, which)[i]
    name = f"{which} probability of {quoted(state.tokens[i])}"
    ghost = ""
    if old is not None and abs(getattr(old, which)[i] - value) > 1e-9:
        ghost = f'<i class="ghost" style="left:{100 * getattr(old, which)[i]:.4g}%"></i>'
    base = f'<i class="base" style="width:{100 * value:.4g}%"></i>' if abs(shown - value) > 1e-9 else ""
    bar = (
        f'<span class="bar bar-{which}"><i class="fill" style="width:{100 * shown:.4g}%"></i>{base}{ghost}'
        f"{slider(value, 0, 1, 0.005, name, 'over', do='weight', which=which, i=i)}</span>"
    )
    return f'<span class="weight">{bar}{number_box(three_digits(value), name, do="weight", which=which, i=i)}</span>'


# One draw.


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
    seed = f'<span class="l-small seed-field">seed {number_box(str(now.state.seed), "seed of the draws", "seed", do="seed")}</span>'
    return card("One draw", _rule_bar(now.state) + body, "card-draw", seed)


def _rule_bar(state: LabState) -> str:
    """Which rule judges, with its one sentence; k and the order where the rule has them."""
    bar = select("rule", dict(RULE_NAMES), state.rule, "rule-menu", do="rule")
    if state.rule in ("eagle2", "eagle1", "misreading"):
        bar += f'<label class="field">k {number_box(str(state.k), "k, how many candidates", "k-in", do="k")}</label>'
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
    return f"{bar}{slider(draw if shown else 0.5, 0, 0.999, 0.001, label, 'over pin-range', do='draw', column=column)}"


def _box(column: int, draw: float | None, hidden: bool = False) -> str:
    if hidden:
        return ""
    value = "" if draw is None else three_digits(draw)
    return f'<span class="l-small">r =</span> {number_box(value, "Type the draw by hand", "r-in", do="draw", column=column)}'


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


# What is left.


def left_over(now: Walk) -> str:
    """The target's distribution and what it becomes after each rejection, column by column."""
    columns: list[tuple[str, str, Array, str]] = [("target", "", now.p, "")]
    for index, trial in enumerate(now.trials):
        shown = now.is_shown("trial", index)
        coming = now.is_next("trial", index) and not now.state.predict
        if (shown and trial.accepted) or not (shown or coming):
            break
        if not now.drafted_is_shown():
            break
        name = html_token(now.state.tokens[trial.candidate.token], 10)
        if now.state.predict and now.is_next("trial", index + 1):
            columns.append((f"after ✗ {name}", "what is it now?", now.p, "unknown-col"))
            break
        after, mass = rules.residual(trial.before, trial.candidate)
        if mass <= 0:
            break
        head = f"after ✗ {name}" if shown else f"if {name} is rejected"
        columns.append((head, html_text(residual_words(now, index)), after, "" if shown else "ghost-col"))
        if not shown:
            break
    head = '<th scope="col"></th>' + "".join(
        f'<th scope="col" class="{css}">{title}<span class="under">{under}</span></th>'
        for title, under, _, css in columns
    )
    rows = ""
    for i, name in enumerate(now.state.tokens):
        gone = columns[-1][2][i] == 0 and now.p[i] > 0 and columns[-1][3] == ""
        struck = ' class="struck"' if gone else ""
        cells = "".join(_left_cell(float(values[i]), float(now.p[i]), css) for _, _, values, css in columns)
        rows += f'<tr><th scope="row"{struck}>{token(name, 10)}</th>{cells}</tr>'
    body = f'<div class="scroll"><table class="left-table"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    return card("What is left to draw from", body, "card-left")


def _left_cell(value: float, at_first: float, css: str) -> str:
    if css == "unknown-col":
        return '<td class="unknown-col">?</td>'
    zero = " zero" if value == 0 and at_first > 0 else ""
    return (
        f'<td class="{css}{zero}"><span class="weight"><span class="bar bar-left"><i class="fill" '
        f'style="width:{100 * value:.4g}%"></i></span>{number(value)}</span></td>'
    )


# The exact law.


def law_card(state: LabState, now: Walk, covered: bool) -> str:
    """All paths with their mass, and the output against the target; covered until the answer is given."""
    title = "What comes out, exactly"
    if covered:
        body = (
            '<div class="cover"><p>The exact law is under here. Answer the question first.</p>'
            f"{button('Show it', '', key='A', do='reveal')}</div>"
        )
        return card(title, body, "card-law")
    law = law_of(state)
    picture = ""
    if law.paths:
        picture = lab_law.flow(law, state.tokens, state.rule in SAMPLED, _along(now))
    paths = _path_list(state, law)
    body = f'<div class="two law"><div>{picture}{paths}</div><div>{outcomes(state, law)}</div></div>'
    mark = _verdict_mark(law)
    return card(title, body, "card-law pictured", mark + (save_buttons() if picture else ""))


def _verdict_mark(law: Law) -> str:
    variation = three_digits(law.variation) if law.variation > 1e-12 else "0"
    words = f"total variation from the target {variation}"
    if is_biased(law.rule):
        return f'<span class="mark biased">✗ BIASED · {words}</span>'
    return f'<span class="mark lossless">✓ equals the target · {words}</span>'


def _along(now: Walk) -> set[tuple[object, ...]]:
    """The pieces of the flow that the draw on screen has gone through."""
    out: set[tuple[object, ...]] = set()
    gone: tuple[int, ...] = ()
    for index, trial in enumerate(now.trials):
        x = trial.candidate.token
        if now.drawn and now.is_shown("drafted") and (index == 0 or now.is_shown("trial", index - 1)):
            out.add(("draw", gone, x))
        if not now.is_shown("trial", index):
            return out
        out.add(("accept" if trial.accepted else "reject", gone, x))
        gone = (*gone, x)
    if now.verdict.final is not None and now.is_shown("final"):
        out.add(("end", gone, now.verdict.final.token))
    return out


def _path_list(state: LabState, law: Law) -> str:
    """Each path as a product that gives its mass."""
    if not law.paths:
        return (
            '<p class="l-small">There are too many orders of candidates to draw every path; the outcomes '
            "below are "
            "summed over all of them, exactly.</p>"
        )
    items = [_path_item(state, law, i) for i in range(len(law.paths))]
    first = f'<ul class="paths">{"".join(items[:MOST_PATHS])}</ul>'
    if len(items) <= MOST_PATHS:
        return first
    more = f'<details><summary>{len(items) - MOST_PATHS} more paths</summary><ul class="paths">'
    return first + more + "".join(items[MOST_PATHS:]) + "</ul></details>"


def _path_item(state: LabState, law: Law, index: int) -> str:
    path = law.paths[index]
    p, q = state.p, state.q
    gone = "".join(f"✗ {html_token(state.tokens[x], 10)} → " for x in path.rejected)
    mark = "✓" if path.accepted else "◆"
    numbers = [three_digits(factor) for factor in factors(law.rule, p, q, path)]
    product = " × ".join(numbers)
    total = f" = {three_digits(path.mass)}" if len(numbers) > 1 else ""
    return f"<li>{gone}{mark} {html_token(state.tokens[path.token], 10)} <span>{product}{total}</span></li>"


def outcomes(state: LabState, law: Law) -> str:
    """The output of each token against the target, and beside it under the rule chosen to compare."""
    other = law_of(state, state.other) if state.other != state.rule else None
    scale = max(float(law.output.max()), float(law.target.max()))
    head = ["token", "", f"{SHORT_NAMES[law.rule]}", "target"]
    if other is not None:
        mark = "✗ " if is_biased(other.rule) else ""
        head.append(f'<span class="{"biased-text" if mark else ""}">{mark}{SHORT_NAMES[other.rule]}</span>')
    rows = []
    for i, name in enumerate(state.tokens):
        alt = f"{quoted(name)} comes out with {three_digits(float(law.output[i]))}"
        bar = lab_law.outcome_bar(
            [float(mass) for mass in law.stages[:-1, i]],
            float(law.stages[-1, i]),
            float(law.target[i]),
            scale,
            alt,
        )
        same = abs(law.output[i] - law.target[i]) <= 1e-12
        output = number(float(law.target[i]) if same else float(law.output[i]))
        cell = output if same else f'<b class="biased-text">{output}</b>'
        row = [token(name, 12), bar, cell, number(float(law.target[i]))]
        if other is not None:
            row.append(number(float(other.output[i])))
        rows.append(row)
    share = (
        f'<i class="l-swatch accept"></i>a candidate is accepted: {number(law.accepted)} &nbsp; '
        f'<i class="l-swatch final-piece"></i>the last draw: {number(float(law.stages[-1].sum()))} &nbsp; '
        '<i class="l-swatch target-line"></i>target'
    )
    return (
        f'<div class="scroll">{table(head, rows, "outcome-table")}</div>' + f'<p class="l-small">{share}</p>'
    )
