"""The page's small controls as escaped markup; a button's ``data-act`` says what it does."""

from __future__ import annotations

import json

from app import panels
from app.figures.residual import log_start, lowest
from app.labels import html_text, html_token, name_of
from app.session import Look, Source, View, Visit, step_of, story_length
from app.theme import three_digits
from eagle.trace import ROOT, RunTrace, StepTrace

VIEW_WORDS = {
    View.DRAFT: ("Draft", "What the small draft head guessed, level by level, before the target looked."),
    View.VERIFY: (
        "Verify",
        "Each guess is tested in turn: accepted if the draw is below the accept probability.",
    ),
    View.OUTCOME: ("Outcome", "What was added to the answer; everything else was thrown away."),
}


def source_line(visit: Visit) -> str:
    """Where the run comes from and what ran, in one line."""
    run = visit.run
    word = {Source.RECORDED: "recorded run", Source.LIVE: "live run", Source.IMPORTED: "imported run"}[
        visit.source
    ]
    target = run.pair.target
    facts = [
        str(run.settings.method),
        f"temperature {three_digits(run.settings.temperature)}",
        f"seed {run.seed}",
        f"tree {run.settings.tree}",
        f"{target.name}, {target.weights} on {target.device}",
    ]
    state = "running" if visit.running else str(run.finish)
    going = " running" if visit.running else ""
    return (
        f'<div class="source{going}"><span class="badge badge-{visit.source}">{word}</span>'
        f'<span class="source-prompt">{html_text(run.prompt.text[:160])}</span>'
        f'<span class="source-facts">{html_text(" · ".join(facts))} · {html_text(state)}</span></div>'
    )


BEHIND = (
    "The pictures follow when the timing is over, so that drawing does not slow the run. Or choose a step."
)


def nav(run: RunTrace, look: Look, behind: bool = False) -> str:
    """Previous, a slider, next, and the sentence of the step; ``behind``: the pictures are not of it yet."""
    last = len(run.steps) - 1
    step = step_of(run, look)
    return (
        f'<div class="nav{" behind" if behind else ""}"><button type="button" class="round" data-act="by" '
        f'data-by="-1" id="step-previous" '
        f'aria-label="previous step" {"disabled" if look.step == 0 else ""}>◀</button>'
        f'<span class="nav-step">step <b>{step.index}</b> of {run.steps[-1].index}</span>'
        '<button type="button" class="round" data-act="by" data-by="1" id="step-next" aria-label="next step" '
        f"{'disabled' if look.step == last else ''}>▶</button>"
        f"{_play('step', 'steps') if last > 0 else ''}{PACE if last > 0 else ''}"
        f'<input type="range" min="0" max="{last}" value="{look.step}" data-act="step" data-field="step" '
        f'aria-label="step">'
        "</div>"
        f'<p class="sentence">{BEHIND if behind else panels.step_sentence(step)}</p>'
    )


# How long playing stays at a step or a part; the page's script keeps which is chosen (assets/page.js).
PACE = (
    '<button type="button" class="small pace" data-pace="" title="how long playing stays at each step">'
    "<span>every 3 s</span><span>every 1.5 s</span><span>every .7 s</span></button>"
)


def _play(kind: str, words: str) -> str:
    """Play and pause in one button; which of the two it is, the page's script and style decide."""
    return (
        f'<button type="button" class="small play" data-play="{kind}" title="play the {words} one by one">'
        '<span class="when-still">▶ play</span>'
        '<span class="when-playing">❚❚ pause</span></button>'
    )


def views(run: RunTrace, look: Look) -> str:
    """The three views, the story's buttons, and what the numbers in the tree are."""
    step = step_of(run, look)
    buttons = "".join(
        f'<button type="button" role="tab" data-act="view" data-view="{view}" '
        f'aria-selected="{str(view is look.view).lower()}">'
        f"{words}</button>"
        for view, (words, _) in VIEW_WORDS.items()
    )
    return (
        f'<div class="views"><div class="segments" role="tablist" aria-label="view">{buttons}</div>'
        f"{_story(step, look)}</div>"
        f'<p class="view-hint">{VIEW_WORDS[look.view][1]}</p>'
        f'<div class="tree-key">{_counts(step, look)}{_numbers(step, look)}{_cut(step, look)}</div>'
    )


def _counts(step: StepTrace, look: Look) -> str:
    """How many nodes have each status, once the story is told in full."""
    return panels.status_counts(step) if look.view is not View.DRAFT and look.shown is None else ""


def _cut(step: StepTrace, look: Look) -> str:
    """In the draft view: what rerank cut, on demand."""
    if step.tree is None or look.view is not View.DRAFT or not step.tree.cut.token:
        return ""
    words = "hide them" if look.cut else "show them"
    return (
        f"<span>rerank kept {len(step.tree)} of {len(step.tree) + len(step.tree.cut.token):,} candidates "
        f'<button type="button" class="small" data-act="cut">{words}</button></span>'
    )


def _numbers(step: StepTrace, look: Look) -> str:
    if step.tree is None or look.view is View.OUTCOME:
        return ""
    confidence = '<span class="swatch swatch-draft"></span>number and bar: the draft’s confidence'
    p = '<span class="swatch swatch-target"></span>bar: the target’s probability'
    test = "; last line: the draw against the accept probability" if look.narrow else ""
    return f'<span class="tree-numbers">{confidence}{"" if look.view is View.DRAFT else p + test}</span>'


def _story(step: StepTrace, look: Look) -> str:
    """Tell the view part by part: levels of the draft, trials of the verification."""
    length = story_length(step, look.view)
    if length == 0:
        return ""
    part = "level" if look.view is View.DRAFT else "trial"
    if look.shown is None:
        parts = f"{length} {part}{'s' if length > 1 else ''}"
        start = _story_button(1, "step through ▸", f"step through the {part}s")
        return f'<div class="story"><span>{parts}</span>{start}{_play("story", part + "s")}</div>'
    return (
        f'<div class="story">{_story_button(-1, "‹", f"one {part} back")}'
        f'<span class="story-at">{part} <b>{look.shown}</b> of {length}</span>'
        f"{_story_button(1, 'next ›', f'one {part} on')}{_play('story', part + 's')}"
        f"{_story_button(0, 'show all', 'show all')}</div>"
    )


def _story_button(by: int, words: str, label: str) -> str:
    button = '<button type="button" class="small" data-act="story"'
    return f'{button} data-by="{by}" aria-label="{label}">{words}</button>'


def strip_title(step: StepTrace, labels: dict[int, str], parent: int, look: Look) -> str:
    """What the filmstrip shows, on which scale, and the button that changes it."""
    where = "the last token" if parent == ROOT else "the guess"
    token = None
    if step.tree is not None:
        token = step.tree.root if parent == ROOT else step.tree.token[parent]
    name = f' <span class="mono">{html_token(name_of(labels, token), 20)}</span>' if token is not None else ""
    scale = ""
    if look.log:
        least = lowest(step, labels, parent, told_in(look))
        start = log_start(least)
        scale = (
            f" <b>Log scale:</b> each line is ten times the one before it; bars start at "
            f"{three_digits(start)}, the lowest value here above 0 is {panels.number(least)}."
        )
        scale += " What is below the start has no bar." if least < start else ""
    return (
        '<div class="strip-head"><h2>What was left to sample from</h2>'
        f'<button type="button" class="small" data-act="log" aria-pressed="{str(look.log).lower()}">'
        f"{'proportional scale' if look.log else 'log scale'}</button></div>"
        f'<p class="view-hint">The target’s distribution after {where}{name}. A rejected guess is set to 0 '
        "and the rest is rescaled, so no probability is lost. "
        f'<span class="swatch swatch-draft"></span>thin bars: the draft’s confidence.{scale}</p>'
    )


def told_in(look: Look) -> int | None:
    """How many trials are told; None: all of them."""
    return look.shown if look.view is View.VERIFY else None


def query(visit: Visit, look: Look) -> str:
    """The query string that opens this recorded run at this step and node; blank for other runs."""
    if visit.source is not Source.RECORDED or visit.name is None:
        return json.dumps({})
    node = {} if look.node is None else {"node": str(look.node)}
    return json.dumps({"run": visit.name, "step": str(look.step), "view": str(look.view), **node})
