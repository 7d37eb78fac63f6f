"""The lab's left column, as HTML: the two distributions, and what is left to draw from. Pure."""

from __future__ import annotations

from app.figures.lab_svg import number, token
from app.lab_html import act, button, card, number_box, slider
from app.lab_state import MAX_NAME, MAX_TEMPERATURE, MAX_TOKENS, MIN_TOKENS, LabState
from app.lab_walk import Walk
from app.lab_words import residual_words, temperature_sentence
from app.labels import html_text, html_token, quoted
from app.theme import three_digits
from eagle import rules
from eagle.laws import SAMPLED
from eagle.rules import Array

# The two distributions.


def distributions(state: LabState, before: LabState | None) -> str:
    """Both distributions, editable by name, number and bar; ``before`` leaves its values as ghosts."""
    old = before if before is not None and len(before.tokens) == len(state.tokens) else None
    p, q = state.p, state.q
    draft = "draft q" if state.rule in SAMPLED else "draft confidence"
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
        f'class="key-draft">{draft}</span><span></span></div>'
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
    box = number_box(three_digits(value), name, do="weight", which=which, i=i)
    return f'<span class="weight">{bar}{box}</span>'


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
    inner = f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody>"
    body = f'<div class="scroll"><table class="left-table">{inner}</table></div>'
    return card("What is left to draw from", body, "card-left")


def _left_cell(value: float, at_first: float, css: str) -> str:
    if css == "unknown-col":
        return '<td class="unknown-col">?</td>'
    zero = " zero" if value == 0 and at_first > 0 else ""
    return (
        f'<td class="{css}{zero}"><span class="weight"><span class="bar bar-left"><i class="fill" '
        f'style="width:{100 * value:.4g}%"></i></span>{number(value)}</span></td>'
    )
