"""What the Proof tab says of its results, as escaped markup. Pure; every number is a field of a result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.labels import html_text, html_token, quoted
from app.panels import plural
from app.race_view import number

if TYPE_CHECKING:
    from eagle.goodness import Comparison
    from eagle.greedy_check import Difference, GreedyCheck

NAMES = {"eagle2": "EAGLE-2’s rule", "misreading": "the misreading"}
FALSE_ALARM = "1 in 1,000"


@dataclass(frozen=True)
class Sampled:
    """A finished or unfinished sampling experiment: how it was set up, and what came out.

    ``one`` and ``two`` compare the next token and the next two, a comparison for each way of judging;
    ``checked`` judgements were repeated by the decoder's own walk, ``same`` of them alike.
    """

    root: str
    labels: Mapping[int, str]
    nodes: int
    siblings: int
    trees: int
    one: list[Comparison]
    two: list[Comparison]
    checked: int
    same: int
    over: bool = True


# Greedy text.


def greedy_table(checks: list[GreedyCheck], labels: Mapping[int, str], dtype: str, over: bool) -> str:
    """One row a prompt and a sentence on all of them."""
    rows = "".join(_greedy_row(check, labels, dtype) for check in checks)
    table = (
        '<div class="table-scroll"><table class="race-table"><thead><tr><th scope="col">prompt</th>'
        '<th scope="col">tokens compared</th>'
        '<th scope="col" title="of the target, by EAGLE-2; vanilla needs one a token">passes</th>'
        '<th scope="col">EAGLE-2 against vanilla</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )
    return _greedy_sum(checks, over) + table


def _greedy_sum(checks: list[GreedyCheck], over: bool) -> str:
    if not over:
        return f'<p class="sentence">{plural(len(checks), "prompt")} compared so far…</p>'
    tokens = sum(check.tokens for check in checks)
    wrong = [check.difference for check in checks if check.difference is not None]
    if not wrong:
        return (
            f'<p class="sentence verdict-good"><b>✓ Identical.</b> {tokens:,} tokens of '
            f"{plural(len(checks), 'prompt')}, every one the same with and without the draft.</p>"
        )
    near = sum(difference.near_tie for difference in wrong)
    word = "all near-ties" if near == len(wrong) else f"{near} of them near-ties"
    css = "verdict-good" if near == len(wrong) else "verdict-bad"
    return (
        f'<p class="sentence {css}"><b>{plural(len(wrong), "prompt")} of {len(checks)} differ</b>, {word}. '
        "The table says where, and by how much the two best logits differ there.</p>"
    )


def _greedy_row(check: GreedyCheck, labels: Mapping[int, str], dtype: str) -> str:
    text = html_text(check.prompt.text[:90] + ("…" if len(check.prompt.text) > 90 else ""))
    verdict = "✓ identical" if check.difference is None else _difference(check.difference, labels, dtype)
    cells = f"<td>{check.tokens}</td><td>{check.passes}</td>"
    return f'<tr><td class="wrap">{text}</td>{cells}<td class="wrap">{verdict}</td></tr>'


def _difference(found: Difference, labels: Mapping[int, str], dtype: str) -> str:
    ours, theirs = (
        "(end)" if token is None else quoted(labels.get(token, f"#{token}"))
        for token in (found.eagle, found.vanilla)
    )
    where = f"differs at token {found.position + 1}: {html_text(ours)} instead of {html_text(theirs)}."
    gap = (
        f"The two best logits there differ by {number(found.gap)}; neighbouring {html_text(dtype)} numbers "
        f"of that size by {number(found.rounding_step)}."
    )
    if found.near_tie:
        return (
            f"✓ {where} {gap} That is a near-tie: reading many tokens at once rounds in another order "
            "than reading them one by one, and either may win."
        )
    return f"<b>✗ {where}</b> {gap} That is more than rounding explains: a fault."


# Sampling.


def setup(found: Sampled) -> str:
    """How the experiment was made, in numbers."""
    n = found.one[0].n if found.one else 0
    return (
        f'<p class="sentence">After the prompt the target’s most likely first token '
        f"<b class='mono'>{html_token(found.root)}</b> is fixed as the root. There EAGLE-2 guessed "
        f"{plural(found.nodes, 'token')}, {found.siblings} of them right after the root.</p>"
        '<p class="view-hint">Given the text so far the draft is certain, so <b>one draft and one target '
        f"pass serve all {n:,} judgements</b>; only the draws are fresh. A second token that falls outside "
        "this tree is judged in a tree of its own, one for each of "
        f"{plural(found.trees, 'possible first token')}. The exact law comes from vanilla’s own passes, one "
        "token at a time, never from the pass over the tree. The judging is done for many rows at once; "
        f"{found.checked} of them were repeated by the decoder itself, {found.same} with the same "
        "tokens.</p>"
    )


def verdicts(found: list[Comparison], over: bool = True) -> str:
    """A card for each way of judging: what the test says, in words, and its numbers.

    One look at all draws: a test looked at ten times on the way would cry wolf more often than it says.
    """
    if not over:
        return '<p class="view-hint">Counting; the test comes when all judgements are in.</p>'
    return f'<div class="verdicts">{"".join(map(_verdict, found))}</div>'


def _verdict(one: Comparison) -> str:
    mark = '<span class="biased-mark">BIASED</span> ' if one.judge == "misreading" else ""
    css = "verdict-good"
    head = "✓ No difference from the target’s law"
    if one.test.failed:
        css, head = "verdict-bad", "✗ The counts do not follow the target’s law"
    elif one.test.p_value is None:
        css, head = "verdict-open", "Too few draws to test"
    elif one.judge == "misreading":
        css, head = "verdict-open", "Not caught with so few draws"
    return (
        f'<article class="verdict-card {css}"><h3>{mark}{NAMES[one.judge]}</h3><p><b>{head}</b></p>'
        f"<dl class='facts'>{_facts(one)}</dl><p class='view-hint'>{_meaning(one)}</p></article>"
    )


def _facts(one: Comparison) -> str:
    test = one.test
    pooled = f", {test.pooled} rare ones taken together" if test.pooled else ""
    g = "∞" if test.g == float("inf") else number(test.g)
    p = "–" if test.p_value is None else "below 1e-300" if test.p_value < 1e-300 else number(test.p_value)
    rows = [
        ("p-value of the G-test", f"<b>{p}</b>"),
        ("G", f"{g} at {plural(test.degrees, 'degree')} of freedom, {plural(test.cells, 'cell')}{pooled}"),
        ("total variation, sampled", f"{number(one.variation)}"),
        ("expected by chance alone", f"{number(one.expected_variation)}"),
        ("exact total variation of this rule’s law", number(one.bias)),
    ]
    if one.impossible:
        rows.append(("draws that the target forbids", f"{one.impossible:,}"))
    return "".join(f'<div class="fact"><dt>{name}</dt><dd>{value}</dd></div>' for name, value in rows)


def _meaning(one: Comparison) -> str:
    if one.judge == "eagle2":
        if one.test.failed:
            return (
                f"Chance does this to a sound rule in {FALSE_ALARM} experiments. Sample with another seed: "
                "a fault would show again."
            )
        return (
            f"A sound rule fails this test in {FALSE_ALARM} experiments by chance. Its exact law differs "
            "from the target’s only by rounding."
        )
    if one.test.failed:
        return (
            "It divides by the draft’s confidence although the list was certain, not drawn: min(1, p / "
            "confidence). The same draws, another law."
        )
    return (
        "The misreading is still biased, by the exact number above; at this place that is too little for so "
        "few draws. Take more draws, or a prompt whose next token is less certain."
    )


def key(both: bool) -> str:
    """What the marks in the figures are."""
    parts = [
        '<span><i class="even-mark"></i>the target’s exact law</span>',
        '<span><i class="swatch swatch-band"></i>95% of sound experiments fall here</span>',
        '<span><i class="swatch swatch-sound"></i>EAGLE-2’s rule, sampled</span>',
    ]
    if both:
        parts.append('<span><i class="swatch swatch-biased"></i>the misreading, sampled</span>')
    return f'<div class="race-key">{"".join(parts)}</div>'
