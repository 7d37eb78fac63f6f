"""What comes out, as HTML: the exact law as paths, as a picture and against the target. Pure."""

from __future__ import annotations

from app.figures import lab_law
from app.figures.lab_svg import number, token
from app.lab_html import button, card, save_buttons, table
from app.lab_law import Law, factors, law_of
from app.lab_state import LabState
from app.lab_walk import Walk
from app.lab_words import SHORT_NAMES, is_biased
from app.labels import html_token, quoted
from app.theme import three_digits
from eagle.laws import SAMPLED

MOST_PATHS = 6


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
