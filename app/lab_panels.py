"""The panels under the main screen, as HTML: experiment, why, misreadings, letters, teacher. Pure."""

from __future__ import annotations

import re

from app import lessons, teacher
from app.figures import lab_experiment as pictures
from app.figures.lab_one_number import one_number_figure
from app.figures.lab_svg import number, token
from app.lab_experiment import Sample, experiment
from app.lab_html import button, save_buttons, select, slider, table, toggle
from app.lab_state import EXPERIMENTS, LabState
from app.lab_words import RULE_NAMES, SHORT_NAMES, is_biased
from app.labels import html_text, quoted
from app.theme import three_digits
from eagle import rules

VIEW_NAMES = {
    "experiment": "By experiment",
    "why": "Why it works",
    "misreadings": "Misreadings on file",
    "letters": "Words and letters",
    "teacher": "Teacher's page",
}


def panels(state: LabState) -> str:
    """The row of panel names and the chosen panel."""
    tabs = "".join(
        toggle(words, state.view == view, "tab", do="view", v=view) for view, words in VIEW_NAMES.items()
    )
    body = {
        "experiment": experiment_panel,
        "why": why_panel,
        "misreadings": misreadings_panel,
        "letters": lambda _state: letters_panel(),
        "teacher": lambda _state: teacher_panel(),
    }[state.view](state)
    nav = f'<nav class="panel-tabs" aria-label="More on this">{tabs}</nav>'
    return f'{nav}<section class="lab-card l-panel">{body}</section>'


def rich(text: str) -> str:
    """Our own texts: escaped, then *emphasis*, **bold** and `code` set."""
    out = html_text(text)
    out = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", out)
    out = re.sub(r"`(.+?)`", r"<code>\1</code>", out)
    return re.sub(r"\*(.+?)\*", r"<em>\1</em>", out)


# By experiment.


def experiment_panel(state: LabState) -> str:
    """n draws under two rules with the same luck."""
    names: dict[str, str] = {rule: words for rule, words in RULE_NAMES.items() if rule != state.rule}
    compare = select("compare with", names, state.other if state.other in names else "", "", do="other")
    runs = "".join(toggle(f"{n:,}", state.draws == n, "l-small", do="experiment", v=n) for n in EXPERIMENTS)
    head = (
        f'<div class="panel-head"><span>Draws:</span>{runs}{compare}'
        '<span class="l-small">both rules get the same random numbers; the first is the draw '
        "above</span></div>"
    )
    if not state.draws:
        return (
            head + '<p class="invite">Choose how many draws. First guess: how close will each rule come?</p>'
        )
    samples = experiment(state, state.draws)
    legend = "".join(
        f'<span class="legend"><i class="l-swatch sample-{"ab"[i]}"></i>{SHORT_NAMES[sample.rule]}</span>'
        for i, sample in enumerate(samples)
    )
    legend += '<span class="legend"><i class="l-swatch target-line"></i>target</span>'
    left = _titled("Share of each token, with its 95% interval", pictures.shares(samples, state.tokens))
    right = _titled("Total variation from the target, draw by draw", pictures.convergence(samples))
    return (
        f'{head}<p class="legends">{legend}</p><div class="two">{left}{right}</div>{_results(state, samples)}'
    )


def _titled(title: str, picture: str) -> str:
    head = f'<header class="card-head"><h3>{title}</h3>{save_buttons()}</header>'
    return f'<div class="pictured">{head}{picture}</div>'


def _results(state: LabState, samples: tuple[Sample, Sample]) -> str:
    head = ["token", "target"]
    for sample in samples:
        css = ' class="biased-text"' if is_biased(sample.rule) else ""
        head += [f"<span{css}>{SHORT_NAMES[sample.rule]}: count</span>", "share"]
    rows = []
    for i, name in enumerate(state.tokens):
        row = [token(name, 12), number(samples[0].target[i])]
        for sample in samples:
            row += [f"{sample.counts[i]:,}", number(sample.share[i])]
        rows.append(row)
    notes = "".join(f"<li>{_sentence(sample)}</li>" for sample in samples)
    return f'<div class="scroll">{table(head, rows, "plain-table")}</div><ul class="notes">{notes}</ul>'


def _sentence(sample: Sample) -> str:
    name = f"<b>{SHORT_NAMES[sample.rule]}</b>"
    exact = rules.total_variation(rules.as_distribution(sample.law), rules.as_distribution(sample.target))
    drawn = f"{name}: total variation {number(sample.variation)} in this sample"
    drawn += f", {number(exact)} by the exact law. " if exact > 1e-12 else ", 0 by the exact law. "
    if sample.p_value is None:
        return drawn + "Too few draws, or too few possible tokens, for a G-test."
    p = "below 1e-12" if sample.p_value < 1e-12 else f"= {three_digits(sample.p_value)}"
    if sample.p_value < 0.001:
        said = "the target does not produce counts like these."
    elif sample.p_value < 0.05:
        said = "unusual, but a sound rule does this in one experiment of twenty. Draw more."
    else:
        said = "counts like these are what the target itself gives."
    return f"{drawn}G-test against the target: p {p}; {said}"


# Why it works.


def why_panel(state: LabState) -> str:
    """One bar, one number; below it the trials that it amounts to. The proof itself follows as text."""
    p, listed = state.shaped_for("eagle2")[0], state.fixed_list("eagle2") or []
    read = rules.one_number(p, listed, state.one)
    picture = one_number_figure(state.tokens, p, listed, read, state.one)
    control = slider(state.one, 0, 0.999, 0.001, "u, one number for everything", "over pin-range", do="one")
    name = quoted(state.tokens[read.token])
    if read.accepted is None:
        trials = f"all {len(listed)} trials reject, and the last draw gives {name}"
    elif read.accepted == 0:
        trials = f"the first trial accepts {name}"
    else:
        trials = f"trial {read.accepted + 1} accepts {name}"
    says = f"The bar says {name}; {trials}. The same token, for every u."
    fresh = (
        "The decoder draws a fresh number for each trial instead of stretching one: the same law, other "
        "luck. This "
        "holds for EAGLE-2's fixed list, whatever rule is chosen above."
    )
    intro = (
        "“Draw x from the target; if x was drafted, walk there; else stop and emit x.” One number u does "
        "it: above, "
        "all at once; below, trial by trial. Drag u."
    )
    return (
        f'<div class="pictured"><header class="card-head"><p '
        f'class="lead">{html_text(intro)}</p>{save_buttons()}</header>'
        f'<div class="why">{picture}{control}</div></div>'
        f'<p class="now">{html_text(says)}</p><p class="l-small">{html_text(fresh)}</p>'
    )


# Misreadings, letters, teacher.


def misreadings_panel(state: LabState) -> str:
    """What people thought in public, what is true, and a button that sets the lab to it."""
    items = ""
    for i, card in enumerate(lessons.cards_of(lessons.MISREADING_PAGES), 1):
        here = state.lesson == lessons.MISREADING_PAGES and state.card == i
        link = ""
        if card.link is not None:
            words, url = card.link
            link = (
                f'<a href="{html_text(url)}" target="_blank" rel="noopener noreferrer">{html_text(words)}</a>'
            )
        items += (
            f'<article class="misreading{" here" if here else ""}"><h4>{i}. {html_text(card.title)}</h4>'
            f'<p class="thought"><span class="tag">thought</span> {html_text(card.question)}</p>'
            f'<p class="truth"><span class="tag">true</span> {rich(card.reveal)}</p>'
            f'<p class="l-small">{button("Set the lab to it", "l-small", do="misreading", v=i)} asked in '
            f"{link}</p></article>"
        )
    return f'<div class="misreadings">{items}</div>'


def letters_panel() -> str:
    """Who writes which letter, and the words that are often confused."""
    letters = table(
        ["source", "target", "draft", "accept with"],
        [
            ["this page; Leviathan et al. (2211.17192)", "p", "q", "min(1, p / q)"],
            ["Chen et al. (2302.01318)", "q", "p", "min(1, q / p)"],
            ["EAGLE-3 paper (2503.01840), section 2.1", "p", "p̂", "min(1, p / p̂)"],
        ],
        "plain-table",
    )
    words = table(
        ["word", "what it is", "what it is not"],
        [
            [
                "confidence",
                "the draft head's probability of a token, given its path",
                "not what the draw is tested against, and not q for a fixed list",
            ],
            [
                "proposal probability q",
                "the probability with which this candidate was put forward: 1 on a top-k list, the draft's "
                "probability where the candidate was drawn",
                "not “how sure the draft is”",
            ],
            ["accept probability", "the length of the accept piece, min(1, p / q)", "not the verdict"],
            ["verdict", "where the draw fell: accepted, rejected, or not tested", "not a probability"],
            [
                "residual",
                "what is left of the target after the rejections so far",
                "not the target as it was; and for a drawn candidate more than one entry changes",
            ],
            [
                "kept, cut",
                "what rerank does to candidates before the target sees them",
                "not accepted, rejected",
            ],
        ],
        "plain-table wide-table",
    )
    return (
        '<p class="lead">The letters are swapped between the two founding papers. Read the words, not the '
        "letters: "
        "the target's probability over the probability of being offered.</p>"
        f'<div class="scroll">{letters}</div><h4>Words that are easily confused</h4><div '
        f'class="scroll">{words}</div>'
    )


def teacher_panel() -> str:
    """The plan for twenty minutes, from the same data as the document."""
    before = "".join(f"<li>{rich(item)}</li>" for item in teacher.BEFORE)
    plan = table(
        ["min", "click", "ask", "expect", "usual wrong answer"],
        [
            [
                block.minutes,
                f"<b>{rich(block.title)}</b><br>{rich(block.click)}",
                rich(block.ask),
                rich(block.expected),
                rich(block.wrong),
            ]
            for block in teacher.PLAN
        ],
        "plain-table plan-table",
    )
    home = "".join(f"<li>{rich(item)}</li>" for item in teacher.HOMEWORK)
    return (
        f'<p class="lead">Twenty minutes, one question.</p><ul class="notes">{before}</ul>'
        f'<div class="scroll">{plan}</div><h4>To take home</h4><ol class="notes">{home}</ol>'
    )
