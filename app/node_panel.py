"""The panel of the selected node: its numbers, its test with the formula filled in, and one sentence."""

from __future__ import annotations

from app import theme
from app.help import mark
from app.labels import html_text, html_token, name_of, quoted
from app.panels import number, step_sentence
from app.session import FINAL
from app.theme import three_digits
from app.to_lab import why_not
from eagle.trace import ROOT, Origin, RunTrace, Status, StepTrace, Trial


def node_panel(run: RunTrace, step: StepTrace, labels: dict[int, str], node: int | None) -> str:
    """Everything about the selected node, ending in one sentence, and the way to the rule lab."""
    if node is None:
        return '<div class="panel"><p class="hint">Choose a box in the tree.</p></div>'
    if node == FINAL:
        panel = _final_panel(step, labels)
    elif node == ROOT or step.tree is None:
        panel = _root_panel(step, labels)
    else:
        panel = _drafted_panel(run, step, labels, node)
    return panel + _to_lab(step, node)


def _to_lab(step: StepTrace, node: int) -> str:
    """The button that takes the node's siblings to the rule lab, or why they can not be taken."""
    reason = html_text(why_not(step, node))
    off = f' disabled title="{reason}"' if reason else ""
    note = f'<p class="aside">{reason}</p>' if reason else ""
    return (
        f'<div class="to-lab"><button type="button" class="small" data-act="lab"{off}>'
        f"Take these siblings to the Rule lab</button>{note}</div>"
    )


def _root_panel(step: StepTrace, labels: dict[int, str]) -> str:
    if step.tree is None:
        return f'<div class="panel"><p>{step_sentence(step)}</p></div>'
    token = html_token(name_of(labels, step.tree.root))
    return (
        f'<div class="panel">{_title(token, "root", "● last token")}'
        "<p class='verdict'>Already part of the answer. The draft head guesses what comes after it; the "
        "target checks every guess in one pass.</p></div>"
    )


def _title(token: str, colour: str, words: str) -> str:
    return (
        f'<div class="panel-title"><span class="panel-token">{token}</span>'
        f'<span class="pill pill-{colour.replace("_", "-")}">{words}</span></div>'
    )


def _row(name: str, value: str, help_key: str, extra: str = "") -> str:
    return f'<div class="fact"><dt>{name}{mark(help_key)}</dt><dd>{value}</dd>{extra}</div>'


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
        _row(
            "draft's confidence",
            number(tree.confidence[node]),
            "confidence",
            _gauge(tree.confidence[node], "draft"),
        ),
        _row("value along the path", number(tree.value[node]), "value"),
        _row("target's probability", number(tree.p[node]), "p", _gauge(tree.p[node], "target")),
    ]
    return (
        f'<div class="panel">{_title(token, look.colour, f"{look.mark} {look.word}")}'
        f'<p class="path"><span class="path-root">{html_token(name_of(labels, tree.root), 20)}</span> {path}'
        f'<span class="token-id">token {tree.token[node]}</span></p>'
        f'<dl class="facts">{"".join(rows)}</dl>'
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
        '<div class="test"><dl class="facts">'
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
    earlier = [
        t for t in step.trials if tree.parent[t.node] == parent and t.node < trial.node and not t.accepted
    ]
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
        f'<div class="draw" role="img" aria-label="the draw {three_digits(draw)} on a bar cut at '
        f'{three_digits(accept)}">'
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
            share = (
                f"{name} was drawn with probability {number(trial.proposal)}, so it is accepted with "
                f"{number(trial.accept)}"
            )
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
            '<div class="panel"><p class="verdict">The step ended with an accepted guess: the answer was '
            "complete, so the target drew nothing more.</p></div>"
        )
    token = html_token(name_of(labels, final.token))
    why = {
        Origin.BONUS: "Every guess on the path was accepted and nothing was drafted after it, so the "
        "target's distribution there gives one more token for free.",
        Origin.RESIDUAL: "All guesses offered here were rejected, so the target draws from what is left.",
        Origin.PROMPT: "The target's first token, drawn from its distribution after the prompt.",
    }.get(final.origin, "")
    try:
        p = final.drawn_from.p[final.drawn_from.token.index(final.token)]
    except ValueError:
        p = final.high - final.low
    return (
        f'<div class="panel">{_title(token, "final", f"◆ {html_text(final.origin.value)}")}'
        f'<p class="path"><span class="token-id">token {final.token}</span></p><dl class="facts">'
        f"{_row('its probability there', number(p), 'p', _gauge(p, 'target'))}"
        f"{_row('draw', number(final.draw), 'draw')}"
        f"{_row('its piece of the bar', f'[{number(final.low)}, {number(final.high)})', 'piece')}</dl>"
        f'<p class="verdict">{why}</p></div>'
    )
