"""A race as escaped markup: the lanes that the browser replays, the meters, and why who won. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from app.labels import html_text
from app.panels import origin_class, origin_key, plural
from app.theme import three_digits
from eagle.settings import Method

if TYPE_CHECKING:
    from eagle.race import Lane, Meter, Race

NAMES = {
    Method.VANILLA: "vanilla",
    Method.CHAIN: "chain",
    Method.EAGLE1: "EAGLE-1",
    Method.EAGLE2: "EAGLE-2",
    Method.EAGLE3: "EAGLE-3",
}
ABOUT = {
    Method.VANILLA: "one token a pass, no guesses",
    Method.CHAIN: "one guess after another, drawn from the head",
    Method.EAGLE1: "a tree of fixed shape, drawn from the head",
    Method.EAGLE2: "a tree that follows the head’s confidence",
    Method.EAGLE3: "the same tree from a newer head",
}
PAPER_OVERHEADS = (0.13, 0.38)
SPEEDS = (("¼×", 0.25), ("½×", 0.5), ("1×", 1.0), ("2×", 2.0), ("4×", 4.0))


def number(value: float | None) -> str:
    """Three significant digits with all of them on hover; a dash for nothing."""
    return "–" if value is None else f'<span class="num" title="{value!r}">{three_digits(value)}</span>'


# The lanes.


def lanes(race: Race, live: bool) -> str:
    """The replay: controls and one lane a method. Without the browser's script it is just empty lanes."""
    used = {origin for lane in race.lanes for step in lane.steps for origin in step.origin}
    data = html_text(json.dumps([_steps(lane) for lane in race.lanes], ensure_ascii=False))
    body = "".join(_lane(lane, race.meter(lane.method)) for lane in race.lanes)
    speeds = "".join(
        f'<option value="{value:g}"{" selected" if value == 1 else ""}>{words}</option>'
        for words, value in SPEEDS
    )
    controls = (
        '<div class="race-controls">'
        '<button type="button" class="round race-play" aria-label="play">▶</button>'
        '<button type="button" class="round race-restart" aria-label="restart">↺</button>'
        '<input type="range" class="race-at" min="0" max="1000" value="0" aria-label="time of the replay">'
        '<span class="race-clock num">0.00 s</span>'
        f'<label class="race-speed">speed <select>{speeds}</select></label></div>'
    )
    return (
        f'<section class="race" data-race="{data}" data-autoplay="{int(live)}">{_source(race, live)}'
        f'{controls}<div class="race-lanes">{body}</div>{origin_key(used)}'
        f'<p class="view-hint">{_notes(race)}</p></section>'
    )


def _steps(lane: Lane) -> list[list[object]]:
    """[milliseconds, [[text, class], ...]] a step; the prompt's pass at time 0, since prefill is apart."""
    return [
        [
            0 if index == 0 else step.ms,
            [[text, origin_class(origin)] for text, origin in zip(step.text, step.origin, strict=True)],
        ]
        for index, step in enumerate(lane.steps)
    ]


def _source(race: Race, live: bool) -> str:
    word, kind = ("live race", "live") if live else ("recorded race", "recorded")
    settings, target = race.settings, race.pair.target
    facts = [
        f"temperature {three_digits(settings.temperature)}",
        f"seed {settings.seed or 0}",
        f"tree {settings.tree}",
        f"{target.name}, {target.weights} on {target.device}",
        plural(race.machine.get("threads", 1), "thread"),
        plural(race.repeats, "repeat"),
    ]
    return (
        f'<div class="source"><span class="badge badge-{kind}">{word}</span>'
        f'<span class="source-prompt">{html_text(race.prompt[:160])}</span>'
        f'<span class="source-facts">{html_text(" · ".join(facts))}</span></div>'
    )


def _lane(lane: Lane, meter: Meter | None) -> str:
    name = lane.method
    ratio = "" if meter is None else ratio_badge(meter)
    speed = number(meter.tokens_per_s if meter else None)
    return (
        f'<article class="lane" data-method="{name}"><header><h3>{NAMES[name]}</h3>'
        f'<span class="lane-about">{ABOUT[name]}</span></header>'
        f'<p class="lane-speed"><b>{speed}</b> tokens/s {ratio}</p>'
        '<div class="lane-bar" aria-hidden="true"><span></span></div>'
        '<p class="lane-state num" aria-live="off"></p>'
        f'<div class="lane-text" tabindex="0" aria-label="the answer of {NAMES[name]}"></div></article>'
    )


def ratio_badge(meter: Meter) -> str:
    """The ratio to vanilla with its range."""
    if meter.method is Method.VANILLA:
        return '<span class="ratio">the yardstick</span>'
    if meter.speedup is None or meter.speedup_range is None:
        return '<span class="ratio">no vanilla to compare with</span>'
    css = "faster" if meter.speedup >= 1 else "slower"
    return f'<span class="ratio {css}">{number(meter.speedup)}× vanilla</span>'


def _notes(race: Race) -> str:
    same = "Every lane wrote the same tokens" if race.same_text else "The lanes wrote different texts"
    if race.settings.temperature == 0 and race.same_text:
        why = ", as they must at temperature 0."
    elif race.settings.temperature == 0:
        why = (
            ". At temperature 0 that happens only where two logits all but tie: the Proof tab shows the gap."
        )
    elif race.same_text:
        why = "."
    else:
        why = (
            ": one seed for all, but each method uses its random numbers in its own way. All follow the "
            "target’s law."
        )
    return (
        f"{same}{why} The clock starts at the first token, since reading the prompt is timed apart. Each "
        "lane replays its run of median speed at the pace at which it was decoded, one method after the "
        "other."
    )


# The meters.

HEAD = (
    ("method", ""),
    ("tokens/s", "median over the repeats, with the smallest and the largest"),
    ("ratio to vanilla", "median of the ratios within each repeat, with the smallest and the largest"),
    ("τ", "tokens a step, the target’s own included"),
    ("passes", "of the target, the prompt’s apart"),
    ("ω", "τ / speedup − 1: what a step costs beyond one of vanilla’s"),
    ("one step", "mean milliseconds: draft, verify, commit"),
    ("prefill", "reading the prompt, timed apart"),
)


def meters(race: Race) -> str:
    """The table of all numbers, and for each method a sentence that says why it is as fast as it is."""
    head = "".join(f'<th scope="col" title="{html_text(about)}">{name}</th>' for name, about in HEAD)
    rows = "".join(_row(meter) for meter in race.meters)
    vanilla = race.meter(Method.VANILLA)
    reasons = "".join(
        f"<li><b>{NAMES[meter.method]}</b> {reason(meter, vanilla)}</li>" for meter in race.meters
    )
    key = "".join(
        f'<span><i class="swatch swatch-{css}"></i>{word}</span>'
        for css, word in (("draft", "draft"), ("target", "verify"), ("commit", "commit"))
    )
    return (
        f'<div class="table-scroll"><table class="race-table"><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
        f'<p class="view-hint">{plural(race.repeats, "repeat")}, interleaved; brackets hold the smallest '
        "and the largest. A short run of each method before them warmed up and is not counted.</p>"
        f'<h2>Why</h2><ul class="reasons">{reasons}</ul>'
        f'<div class="race-key">{key}<span><i class="even-mark"></i>as fast as vanilla: a step may cost τ '
        "of vanilla’s</span></div>"
    )


def _row(meter: Meter) -> str:
    split = [(meter.draft_ms, "draft"), (meter.verify_ms, "verify"), (meter.commit_ms, "commit")]
    whole = meter.step_ms or 0.0
    bar = "".join(
        f'<span class="split-{word}" style="flex:{ms / whole:.4f}" title="{word} {ms:.2f} ms"></span>'
        for ms, word in split
        if whole and ms is not None
    )
    words = " · ".join(f"{word} {three_digits(ms)}" for ms, word in split if ms) or "–"
    cells = [
        _ranged(meter.tokens_per_s, meter.tokens_per_s_range),
        "1" if meter.method is Method.VANILLA else _ranged(meter.speedup, meter.speedup_range, "×"),
        number(meter.tau),
        str(meter.passes),
        number(meter.overhead),
        f'<span class="split">{bar}</span><small>{words} ms</small>',
        f"{number(meter.prefill_ms)} ms",
    ]
    body = "".join(f"<td>{cell}</td>" for cell in cells)
    return f'<tr><th scope="row">{NAMES[meter.method]}</th>{body}</tr>'


def _ranged(value: float | None, spread: tuple[float, float] | None, unit: str = "") -> str:
    if value is None:
        return "–"
    between = "" if spread is None else f" <small>({number(spread[0])}–{number(spread[1])})</small>"
    return f"<b>{number(value)}{unit}</b>{between}"


def reason(meter: Meter, vanilla: Meter | None) -> str:
    """Why a method is as fast as it is, from its own measured numbers."""
    if meter.step_ms is None:
        return "decoded no step: the first token ended the answer."
    if meter.method is Method.VANILLA:
        return f"takes one pass a token, {number(meter.step_ms)} ms each."
    step = (
        f"a step drafts for {number(meter.draft_ms)} ms and lets the target read "
        f"{number(meter.tokens_read)} tokens in {number(meter.verify_ms)} ms"
    )
    if vanilla is None or vanilla.step_ms is None or meter.speedup is None or meter.step_cost is None:
        return f"brings τ = {number(meter.tau)} tokens a step; {step}. Without vanilla there is no ratio."
    against = f" (vanilla reads 1 in {number(vanilla.verify_ms)} ms)"
    cost = f"that costs 1 + ω = {number(meter.step_cost)} of vanilla’s steps"
    if meter.speedup >= 1:
        return f"wins: {step}{against}; {cost} and brings τ = {number(meter.tau)} tokens."
    return (
        f"is slower here: {step}{against}; {cost}, but brings only τ = {number(meter.tau)} tokens. "
        f"{_remedy(meter.drafting_weighs_more(vanilla))}"
    )


def _remedy(drafting: bool) -> str:
    """What weighs most in a step that does not pay."""
    if drafting:
        return "Most of the extra time goes into drafting: fewer levels would cost less."
    return "Most of the extra time goes into reading the whole tree: fewer nodes would cost less."


def elsewhere(race: Race) -> str:
    """What another machine would do: a formula with the numbers in it, and labelled as one."""
    least, most = (three_digits(omega) for omega in PAPER_OVERHEADS)
    lines = []
    for meter in race.meters:
        if meter.method is Method.VANILLA or meter.tau is None:
            continue
        low, high = (meter.elsewhere(omega) for omega in reversed(PAPER_OVERHEADS))
        lines.append(
            f"<li>{NAMES[meter.method]}: {three_digits(meter.tau)} / (1 + {least}) = {number(high)}, "
            f"{three_digits(meter.tau)} / (1 + {most}) = {number(low)}</li>"
        )
    if not lines:
        return ""
    return (
        '<details class="elsewhere"><summary>What would the paper’s machine do? A formula, not a measurement'
        "</summary><p>speedup = τ / (1 + ω). The tables of the EAGLE-2 paper imply an overhead ω of "
        f"{least} to {most} on its GPUs, where a pass over a tree costs little more than one over a token. "
        "With the τ measured here, were nothing else different:"
        f"</p><ul>{''.join(lines)}</ul></details>"
    )
