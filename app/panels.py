"""The page's HTML panels: pure functions from trace records to escaped markup.

Every number is a field of the trace, printed with at most three significant digits; the full digits
are in the ``title`` of the element.
"""

from __future__ import annotations

from collections.abc import Collection

from app import theme
from app.labels import html_text
from app.overview import Overview
from app.session import FINAL
from app.theme import three_digits
from eagle.settings import Method
from eagle.trace import ROOT, Origin, RunTrace, StepTrace

TREE_FROM_SETTINGS = (Method.EAGLE2, Method.EAGLE3)


def number(value: float) -> str:
    """A number with its full digits on hover."""
    return f'<span class="num" title="{value!r}">{three_digits(value)}</span>'


def plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


# One sentence a step.


def step_sentence(step: StepTrace) -> str:
    """What the step did, in plain words."""
    emitted = len(step.emitted)
    if step.index == 0:
        return "The target read the prompt in one pass and gave its first token. Nothing is guessed yet."
    if step.tree is None:
        return "No guesses: one pass of the target, one token."
    guessed = len(step.tree)
    accepted = sum(origin is Origin.DRAFT for origin in step.emitted.origin)
    own = {
        None: "and the answer ended there",
        Origin.BONUS: "and the target added 1 as a bonus",
        Origin.RESIDUAL: "and the target added 1 of its own",
        Origin.PROMPT: "",
    }[step.final.origin if step.final else None]
    return (
        f"<b>Guessed {plural(guessed, 'token')}, {accepted or 'none'} accepted</b>, {own}: "
        f"<b>{plural(emitted, 'token')} for one pass</b> of the target."
    )


def status_counts(step: StepTrace) -> str:
    """The three statuses and the target's own token with their marks, words and counts."""
    if step.tree is None:
        return ""
    parts = []
    for status, look in theme.STATUS_LOOKS.items():
        count = sum(one is status for one in step.tree.status)
        parts.append(_pill(look, f"{count} {look.word}"))
    if step.final is not None:
        parts.append(_pill(theme.FINAL_LOOK, theme.FINAL_LOOK.word))
    return f'<span class="pills">{"".join(parts)}</span>'


def _pill(look: theme.Look, text: str) -> str:
    name = look.colour.replace("_", "-")
    return (
        f'<span class="pill pill-{name}"><span aria-hidden="true">{look.mark}</span> {html_text(text)}</span>'
    )


# The answer.


def answer(run: RunTrace, selected: int, node: int | None, running: bool) -> str:
    """The text so far, each token marked by origin; a click on one leads to its step."""
    pieces = []
    for position, step in enumerate(run.steps):
        for token, origin, at, text in zip(
            step.emitted.token, step.emitted.origin, step.emitted.node, step.emitted.text, strict=True
        ):
            pieces.append(_answer_token(run, position, token, origin, at, text, selected, node))
    cursor = '<span class="cursor" aria-label="still running"></span>' if running else ""
    used = {origin for step in run.steps for origin in step.emitted.origin}
    return f'<div class="answer" aria-live="off">{"".join(pieces)}{cursor}</div>{origin_key(used)}'


def origin_key(used: Collection[Origin]) -> str:
    """What the lines under the tokens of a text mean, for the origins in it."""
    items = "".join(
        f'<span class="key-item"><span class="tok {origin_class(origin)}">{look.mark}</span> '
        f"{_origin_words(origin)}</span>"
        for origin, look in theme.ORIGIN_LOOKS.items()
        if origin in used
    )
    return f'<div class="key">{items}</div>'


def origin_class(origin: Origin) -> str:
    """The style of a token of this origin."""
    return "o-" + origin.value.split()[0]


def _origin_words(origin: Origin) -> str:
    return {
        Origin.DRAFT: "accepted draft",
        Origin.RESIDUAL: "residual: the target's own, after rejections",
        Origin.BONUS: "bonus: the target's own, after a full path",
        Origin.PROMPT: "prompt pass: the first token",
    }[origin]


def _answer_token(
    run: RunTrace,
    position: int,
    token: int,
    origin: Origin,
    at: int,
    text: str,
    selected: int,
    node: int | None,
) -> str:
    classes = ["tok", origin_class(origin)]
    shown_node = FINAL if at == ROOT else at
    if position == selected:
        classes.append("here")
        if shown_node == node:
            classes.append("chosen")
    body = (
        html_text(text).replace("\n", '<span class="nl">↵</span>\n') if text else '<span class="nl">·</span>'
    )
    title = f"{origin.value}, step {run.steps[position].index}"
    del token
    return (
        f'<span class="{" ".join(classes)}" data-act="step" data-step="{position}" data-node="{shown_node}" '
        f'title="{html_text(title)}">{body}</span>'
    )


# The meters.


def meters(run: RunTrace, baseline: RunTrace | None, live: bool, waiting: str = "") -> str:
    """Speed, ratio, tau and where the time went; a dash where there is nothing to divide by."""
    cells = [
        _meter("tokens a second", _digits(run.tokens_per_s), "recorded" if not live else "now"),
        _ratio(run, baseline, waiting),
        _meter("τ, tokens per pass", _digits(run.tau), f"{run.target_passes} passes"),
        _split(run),
    ]
    return f'<div class="meters">{"".join(cells)}</div>{_worth(run, baseline)}'


def _digits(value: float | None) -> str:
    return "–" if value is None else number(value)


def _meter(label: str, value: str, note: str) -> str:
    return (
        f'<div class="meter"><span class="meter-label">{label}</span><span class="meter-value">{value}</span>'
        f'<span class="meter-note">{note}</span></div>'
    )


def _ratio(run: RunTrace, baseline: RunTrace | None, waiting: str) -> str:
    if baseline is None or not baseline.tokens_per_s or not run.tokens_per_s:
        return _meter("against vanilla", "–", html_text(waiting or "no vanilla run here"))
    ratio = run.tokens_per_s / baseline.tokens_per_s
    word = "faster" if ratio >= 1 else "slower"
    return _meter(
        "against vanilla",
        f"{number(ratio)}×",
        f"{word}; vanilla {_digits(baseline.tokens_per_s)} tokens a second",
    )


def _worth(run: RunTrace, baseline: RunTrace | None) -> str:
    """Why the ratio is what it is: what a step costs in steps of vanilla's, against what it brings."""
    if baseline is None or not baseline.tokens_per_s or not run.tokens_per_s or run.tau is None:
        return ""
    cost = run.tau * baseline.tokens_per_s / run.tokens_per_s
    said = (
        f"A step costs 1 + ω = {number(cost)} of vanilla’s steps and brings τ = {number(run.tau)} tokens"
        f"{', so it pays.' if run.tau >= cost else ': here that costs more than it brings.'}"
    )
    if run.tau < cost and run.settings.tree != "auto" and run.settings.method in TREE_FROM_SETTINGS:
        said += " The tree <b>auto</b>, in the settings, drafts only what pays on this machine."
    return f'<p class="meter-worth">{said}</p>'


def _split(run: RunTrace) -> str:
    steps = [step for step in run.steps if step.index > 0]
    times = [
        ("draft", "draft", sum(step.times.draft_ms for step in steps)),
        ("verify", "target", sum(step.times.verify_ms for step in steps)),
        ("commit", "commit", sum(step.times.commit_ms for step in steps)),
    ]
    total = sum(time for _, _, time in times)
    if not total:
        return _meter("where the time went", "–", "no step yet")
    bars = "".join(
        f'<span class="split-{name}" style="flex:{time / total:.4f}" title="{name} {time:.1f} ms"></span>'
        for name, _, time in times
    )
    words = " · ".join(f"{name} {100 * time / total:.0f}%" for name, _, time in times)
    return (
        '<div class="meter meter-wide"><span class="meter-label">where the time went</span>'
        f'<span class="split" role="img" aria-label="{words}">{bars}</span>'
        f'<span class="meter-note">{words}</span></div>'
    )


def over_line(counts: Overview) -> str:
    """What the figures over the run say in one line."""
    if not counts.drafted:
        return "<h2>Over the run</h2><p class='view-hint'>Nothing was drafted in this run.</p>"
    return (
        f"<h2>Over the run</h2><p class='view-hint'>{counts.paid} of {counts.drafted} guesses paid "
        f"({100 * counts.paid / counts.drafted:.0f}%). Rates count every guess whose parent was accepted, "
        "tested or not; bars are 95% intervals, green dashes the target’s own mean probability there.</p>"
    )
