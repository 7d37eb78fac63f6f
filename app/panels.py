"""The page's HTML panels: pure functions from trace records to escaped markup.

Every number is a field of the trace, printed with at most three significant digits; the full digits
are in the ``title`` of the element.
"""

from __future__ import annotations

from app import theme
from app.labels import html_text, html_token, name_of, quoted
from app.session import FINAL
from app.theme import three_digits
from eagle.trace import ROOT, Origin, RunTrace, Status, StepTrace, Trial


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
    return f'<span class="pill pill-{name}"><span aria-hidden="true">{look.mark}</span> {html_text(text)}</span>'


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
    looks = theme.ORIGIN_LOOKS.items()
    used = {origin for step in run.steps for origin in step.emitted.origin}
    key = "".join(
        f'<span class="key-item"><span class="tok {_origin_class(origin)}">{look.mark}</span> {_origin_words(origin)}</span>'
        for origin, look in looks
        if origin in used
    )
    return f'<div class="answer" aria-live="off">{"".join(pieces)}{cursor}</div><div class="key">{key}</div>'


def _origin_class(origin: Origin) -> str:
    return "o-" + origin.value.split()[0]


def _origin_words(origin: Origin) -> str:
    return {
        Origin.DRAFT: "accepted draft",
        Origin.RESIDUAL: "residual: the target's own, after rejections",
        Origin.BONUS: "bonus: the target's own, after a full path",
        Origin.PROMPT: "prompt pass: the first token",
    }[origin]


def _answer_token(
    run: RunTrace, position: int, token: int, origin: Origin, at: int, text: str, selected: int, node: int | None
) -> str:
    classes = ["tok", _origin_class(origin)]
    shown_node = FINAL if at == ROOT else at
    if position == selected:
        classes.append("here")
        if shown_node == node:
            classes.append("chosen")
    body = html_text(text).replace("\n", '<span class="nl">↵</span>\n') if text else '<span class="nl">·</span>'
    title = f"{origin.value}, step {run.steps[position].index}"
    del token
    return (
        f'<span class="{" ".join(classes)}" data-step="{position}" data-node="{shown_node}" '
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
    return f'<div class="meters">{"".join(cells)}</div>'


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
        "against vanilla", f"{number(ratio)}×", f"{word}; vanilla {_digits(baseline.tokens_per_s)} tokens a second"
    )


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
        f'<span class="split" role="img" aria-label="{words}">{bars}</span><span class="meter-note">{words}</span></div>'
    )


# The node.


def node_panel(run: RunTrace, step: StepTrace, labels: dict[int, str], node: int | None) -> str:
    """Everything about the selected node, ending in one sentence."""
    if node is None:
        return '<div class="panel"><p class="hint">Choose a box in the tree.</p></div>'
    if node == FINAL:
        return _final_panel(step, labels)
    if node == ROOT or step.tree is None:
        return _root_panel(step, labels)
    return _drafted_panel(run, step, labels, node)


def _root_panel(step: StepTrace, labels: dict[int, str]) -> str:
    if step.tree is None:
        return f'<div class="panel"><p>{step_sentence(step)}</p></div>'
    token = html_token(name_of(labels, step.tree.root))
    return (
        f'<div class="panel">{_title(token, "root", "● last token")}'
        "<p class='verdict'>Already part of the answer. The draft head guesses what comes after it; the target "
        "checks every guess in one pass.</p></div>"
    )


def _title(token: str, colour: str, words: str) -> str:
    return (
        f'<div class="panel-title"><span class="panel-token">{token}</span>'
        f'<span class="pill pill-{colour.replace("_", "-")}">{words}</span></div>'
    )


def _row(name: str, value: str, help_key: str, extra: str = "") -> str:
    from app.help import mark

    return f'<div class="row"><dt>{name}{mark(help_key)}</dt><dd>{value}</dd>{extra}</div>'


def _gauge(share: float, colour: str) -> str:
    return f'<span class="gauge"><span class="gauge-{colour}" style="width:{100 * share:.2f}%"></span></span>'


def _drafted_panel(run: RunTrace, step: StepTrace, labels: dict[int, str], node: int) -> str:
    tree = step.tree
    assert tree is not None
    look = theme.STATUS_LOOKS[tree.status[node]]
    trial = next((trial for trial in step.trials if trial.node == node), None)
    path = " ".join(html_token(name_of(labels, tree.token[n]), 20) for n in tree.path(node))
    token = html_token(name_of(labels, tree.token[node]))
    rows = [
        _row("draft's confidence", number(tree.confidence[node]), "confidence", _gauge(tree.confidence[node], "draft")),
        _row("value along the path", number(tree.value[node]), "value"),
        _row("target's probability", number(tree.p[node]), "p", _gauge(tree.p[node], "target")),
    ]
    return (
        f'<div class="panel">{_title(token, look.colour, f"{look.mark} {look.word}")}'
        f'<p class="path"><span class="path-root">{html_token(name_of(labels, tree.root), 20)}</span> {path}'
        f'<span class="token-id">token {tree.token[node]}</span></p>'
        f'<dl class="rows">{"".join(rows)}</dl>'
        f"{_test(step, labels, trial) if trial else ''}"
        f'<p class="verdict">{verdict(step, labels, node)}</p>{_greedy_note(run)}</div>'
    )


def _greedy_note(run: RunTrace) -> str:
    if run.settings.temperature > 0:
        return ""
    return (
        '<p class="note">At temperature 0 the target has one choice: every accept probability is 0 or 1, '
        "and every residual is a single bar.</p>"
    )


def _test(step: StepTrace, labels: dict[int, str], trial: Trial) -> str:
    """The test: proposal, formula with the numbers in it, and the draw on a bar."""
    outcome = "accepted" if trial.accepted else "rejected"
    sign = "&lt;" if trial.accepted else "≥"
    return (
        '<div class="test"><dl class="rows">'
        f"{_row('proposal probability', number(trial.proposal), 'proposal')}"
        f"{_row('accept probability', number(trial.accept), 'accept')}</dl>"
        f'<p class="formula">{_formula(step, labels, trial)}</p>'
        f"{draw_bar(trial.accept, trial.draw, outcome)}"
        f'<p class="draw-line">draw {number(trial.draw)} {sign} {number(trial.accept)}: '
        f'<b class="{outcome}">{outcome}</b></p></div>'
    )


def _formula(step: StepTrace, labels: dict[int, str], trial: Trial) -> str:
    """min(1, p / q) with the numbers in it, and where the current p comes from."""
    tree = step.tree
    assert tree is not None
    token = tree.token[trial.node]
    now = _listed(trial, token)
    parent = tree.parent[trial.node]
    earlier = [t for t in step.trials if tree.parent[t.node] == parent and t.node < trial.node and not t.accepted]
    lines = []
    if earlier and trial.sampled_from is None:
        last = earlier[-1]
        gone = html_text(quoted(name_of(labels, tree.token[last.node]), 16))
        before = _listed(last, token)
        lines.append(
            f"p now = {number(before)} / {number(last.normaliser)} = {number(now)} "
            f'<span class="aside">({gone} is out, the rest is rescaled)</span>'
        )
    lines.append(
        f"min(1, p / q) = min(1, {number(now)} / {number(trial.proposal)}) = <b>{number(trial.accept)}</b>"
    )
    return "<br>".join(lines)


def _listed(trial: Trial, token: int) -> float:
    """The recorded probability of a token before a trial (candidates are always listed)."""
    try:
        return trial.before.p[trial.before.token.index(token)]
    except ValueError:
        return trial.accept


def draw_bar(accept: float, draw: float, outcome: str) -> str:
    """A bar of length 1 cut at the accept probability, with the draw as a marker on it."""
    return (
        f'<div class="draw" role="img" aria-label="the draw {three_digits(draw)} on a bar cut at {three_digits(accept)}">'
        f'<span class="draw-accept" style="width:{100 * accept:.3f}%"><i>accept</i></span>'
        f'<span class="draw-reject"><i>reject</i></span>'
        f'<span class="draw-mark draw-{outcome}" style="left:{100 * draw:.3f}%"></span></div>'
        '<div class="draw-ends"><span>0</span><span>1</span></div>'
    )


def verdict(step: StepTrace, labels: dict[int, str], node: int) -> str:
    """One sentence a student would say about a drafted node (escaped HTML)."""
    tree = step.tree
    assert tree is not None
    name = html_text(quoted(name_of(labels, tree.token[node])))
    parent = tree.parent[node]
    siblings = [t for t in step.trials if tree.parent[t.node] == parent]
    trial = next((t for t in siblings if t.node == node), None)
    if trial is not None:
        gone = [t for t in siblings if t.node < node and not t.accepted]
        share = f"The target gives {name} {number(trial.accept)}"
        if gone:
            names = " and ".join(html_text(quoted(name_of(labels, tree.token[t.node]), 16)) for t in gone[:3])
            more = f" and {len(gone) - 3} more" if len(gone) > 3 else ""
            were = "was" if len(gone) == 1 else "were"
            share += f" of what is left after {names}{more} {were} rejected"
        if trial.proposal < 1:
            share = f"{name} was drawn with probability {number(trial.proposal)}, so it is accepted with {number(trial.accept)}"
        word = "below it: accepted" if trial.accepted else "not below it: rejected"
        return f"{share}; the draw {number(trial.draw)} is {word}."
    winner = next((t for t in siblings if t.accepted), None)
    if winner is not None:
        other = html_text(quoted(name_of(labels, tree.token[winner.node])))
        return f"Never tried: its sibling {other} was accepted first."
    if siblings:
        return "Never tried: the answer ended before its turn came."
    return _unreached(step, labels, node)


def _unreached(step: StepTrace, labels: dict[int, str], node: int) -> str:
    """Why a node whose siblings were not tried either was out of reach."""
    tree = step.tree
    assert tree is not None
    for ancestor in tree.path(node)[:-1]:
        if tree.status[ancestor] is not Status.ACCEPTED:
            name = html_text(quoted(name_of(labels, tree.token[ancestor])))
            how = "was rejected" if tree.status[ancestor] is Status.REJECTED else "was never reached"
            return f"Never tried: it hangs below {name}, which {how}."
    return "Never tried: the answer ended before its turn came."


def _final_panel(step: StepTrace, labels: dict[int, str]) -> str:
    final = step.final
    if final is None:
        return (
            '<div class="panel"><p class="verdict">The step ended with an accepted guess: the answer was complete, '
            "so the target drew nothing more.</p></div>"
        )
    token = html_token(name_of(labels, final.token))
    why = {
        Origin.BONUS: "Every guess on the path was accepted and nothing was drafted after it, so the target's "
        "distribution there gives one more token for free.",
        Origin.RESIDUAL: "All guesses offered here were rejected, so the target draws from what is left.",
        Origin.PROMPT: "The target's first token, drawn from its distribution after the prompt.",
    }.get(final.origin, "")
    try:
        p = final.drawn_from.p[final.drawn_from.token.index(final.token)]
    except ValueError:
        p = final.high - final.low
    return (
        f'<div class="panel">{_title(token, "final", f"◆ {html_text(final.origin.value)}")}'
        f'<p class="path"><span class="token-id">token {final.token}</span></p><dl class="rows">'
        f"{_row('its probability there', number(p), 'p', _gauge(p, 'target'))}"
        f"{_row('draw', number(final.draw), 'draw')}"
        f"{_row('its piece of the bar', f'[{number(final.low)}, {number(final.high)})', 'piece')}</dl>"
        f'<p class="verdict">{why}</p></div>'
    )
