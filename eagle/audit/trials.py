"""The trials of a step, in order, and the final draw: every verdict and residual derived again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from eagle.audit.finding import EXACT, Finding, Place, near, repeated, rounding
from eagle.settings import Method, Settings
from eagle.trace import ROOT, Distribution, Final, Origin, Status, StepTrace, TreeTrace, Trial

SAMPLED = (Method.CHAIN, Method.EAGLE1)


@dataclass(frozen=True)
class Residual:
    """What the next distribution at the same node must be: its entries, their slack, and the rest."""

    token: list[int]
    p: list[float]
    slack: list[float]
    rest: float
    rest_slack: float


def check_trials(step: StepTrace, settings: Settings) -> Iterator[Finding]:
    """Walks down the tree as the trials say, then checks statuses and the final draw."""
    tree, at, position = step.tree, ROOT, 0
    residual: Residual | None = None
    tried: dict[int, Status] = {}
    for number, trial in enumerate(step.trials):
        place = Place(step.index, f"trial {number + 1} (node {trial.node})")
        if tree is None:
            yield place.finding("the tree", "there", "missing")
            return
        offered = tree.children(at)
        expected = offered[position] if position < len(offered) else None
        if trial.node != expected:
            wanted = "no further trial" if expected is None else f"node {expected}, the next in order"
            yield place.finding("the node", wanted, f"node {trial.node}")
            return
        yield from check_distribution(place, trial.before, settings, fresh=residual is None)
        yield from _same_as(place, "p before the trial", trial.before, residual)
        if residual is None:
            yield from _siblings_p(place, trial.before, tree, offered)
        yield from _verdict(place, trial, tree.token[trial.node], settings)
        if trial.sampled_from is not None:
            follows = step.trials[number - 1] if position else None
            yield from _proposals(place, trial, follows, tree)
        tried[trial.node] = Status.ACCEPTED if trial.accepted else Status.REJECTED
        if trial.accepted:
            at, position, residual = trial.node, 0, None
        else:
            position, residual = position + 1, after_rejection(trial, tree.token[trial.node])
    if tree is not None:
        yield from _statuses(step.index, tree, tried)
    yield from _end(step, at, position, residual, settings)


def check_distribution(
    place: Place, listed: Distribution, settings: Settings, *, fresh: bool
) -> Iterator[Finding]:
    """Sums to 1, no token twice, largest first where it is ``fresh``, one-hot at temperature 0."""
    slack = rounding(*listed.p, listed.rest)
    total = sum(listed.p) + listed.rest
    if not near(total, 1.0, slack):
        yield place.finding("the sum of the distribution", 1.0, total)
    if (twin := repeated(listed.token)) is not None:
        yield place.finding("each token of the distribution", "listed once", f"token {twin} twice")
    if fresh:
        for before, p, token in zip(listed.p, listed.p[1:], listed.token[1:], strict=False):
            if p > before:
                yield place.finding(
                    f"p of token {token}", f"at most {before:.6g}, the one listed before it", p
                )
    if settings.temperature == 0 and any(p not in (0.0, 1.0) for p in (*listed.p, listed.rest)):
        yield place.finding("the distribution at temperature 0", "one token at 1", listed.p)


def _same_as(place: Place, what: str, listed: Distribution, residual: Residual | None) -> Iterator[Finding]:
    """A residual lists the tokens of the distribution it came from, in the same order."""
    if residual is None:
        return
    if listed.token != residual.token:
        yield place.finding(
            f"the tokens of {what}", f"those of the trial before, {residual.token}", listed.token
        )
        return
    for token, p, expected, slack in zip(listed.token, listed.p, residual.p, residual.slack, strict=True):
        if not near(p, expected, slack + rounding(p)):
            yield place.finding(f"{what} at token {token}", expected, p)
    if not near(listed.rest, residual.rest, residual.rest_slack + rounding(listed.rest)):
        yield place.finding(f"the rest of {what}", residual.rest, listed.rest)


def _siblings_p(place: Place, before: Distribution, tree: TreeTrace, offered: list[int]) -> Iterator[Finding]:
    """At the first trial below a node, p is the target's own, as the tree records it."""
    p_of = dict(zip(before.token, before.p, strict=True))
    for node in offered:
        p = p_of.get(tree.token[node])
        if p is not None and not near(p, tree.p[node], 2 * rounding(p)):
            yield Place(place.step, f"node {node}").finding(
                "p", f"{p:.6g}, as before its trial", tree.p[node]
            )
        limit = before.rest * (1 + 1e-5) + EXACT
        if p is None and tree.p[node] > limit:
            expected = f"at most {before.rest:.6g}, all that is unlisted"
            yield Place(place.step, f"node {node}").finding("p", expected, tree.p[node])


def _verdict(place: Place, trial: Trial, token: int, settings: Settings) -> Iterator[Finding]:
    sampled = settings.method in SAMPLED and settings.temperature > 0
    if sampled != (trial.sampled_from is not None):
        wanted = "recorded: this draft is sampled" if sampled else "absent: this draft is a fixed list"
        found = "absent" if sampled else "recorded"
        yield place.finding("the distribution it was sampled from", wanted, found)
        return
    if not sampled and trial.proposal != 1:
        yield place.finding("the proposal probability of a fixed candidate", 1, trial.proposal)
    if token not in trial.before.token:
        yield place.finding("the candidate's p", f"listed (token {token})", "missing")
        return
    p = trial.before.p[trial.before.token.index(token)]
    accept = min(1.0, p / trial.proposal)
    if abs(trial.accept - accept) > rounding(p) / trial.proposal:
        yield place.finding(
            f"the accept probability, min(1, {p:.6g} / {trial.proposal:.6g}),", accept, trial.accept
        )
    if settings.temperature == 0 and trial.accept not in (0.0, 1.0):
        yield place.finding("the accept probability at temperature 0", "0 or 1", trial.accept)
    if (trial.draw < trial.accept) != trial.accepted:
        sign = "below" if trial.draw < trial.accept else "not below"
        verdict = "accepted" if trial.draw < trial.accept else "rejected"
        wanted = f"{verdict} (draw {trial.draw:.9g} is {sign} {trial.accept:.9g})"
        yield place.finding("the verdict", wanted, "accepted" if trial.accepted else "rejected")
    yield from _normaliser(place, trial, token)


def _normaliser(place: Place, trial: Trial, token: int) -> Iterator[Finding]:
    masses = [_dropped_mass(trial, token)]
    if trial.sampled_from is None:
        if not near(trial.normaliser, 1.0 - trial.accept, EXACT):
            yield place.finding("the normaliser, 1 - accept,", 1.0 - trial.accept, trial.normaliser)
    else:
        excess = _excess_mass(trial)
        # Only where p is nowhere above q does a rejection (of probability 0) drop the candidate instead.
        masses = [excess] if excess[0] > excess[1] + EXACT else [excess, *masses]
    if not any(near(trial.normaliser, mass, slack) for mass, slack in masses):
        yield place.finding(
            "the normaliser, the mass that a rejection leaves,", masses[0][0], trial.normaliser
        )


def _dropped_mass(trial: Trial, token: int) -> tuple[float, float]:
    """The mass without the candidate, and rounding's slack in it."""
    others = [p for t, p in zip(trial.before.token, trial.before.p, strict=True) if t != token]
    return sum(others) + trial.before.rest, rounding(*others, trial.before.rest)


def _excess_mass(trial: Trial) -> tuple[float, float]:
    """The mass of max(0, p - q), and rounding's slack in it."""
    assert trial.sampled_from is not None
    pairs = list(zip(trial.before.p, trial.sampled_from.q, strict=True))
    mass = sum(max(0.0, p - q) for p, q in pairs) + trial.sampled_from.rest_excess
    moved = [rounding(p, q) for p, q in pairs if p > 0 and p - q > -rounding(p, q)]
    return mass, sum(moved) + rounding(trial.sampled_from.rest_excess)


def after_rejection(trial: Trial, token: int) -> Residual:
    """max(0, p - q) / normaliser for every listed token and the rest."""
    before, n = trial.before, max(trial.normaliser, 1e-300)
    certain = [1.0 if listed == token else 0.0 for listed in before.token]
    q, rest = certain, before.rest
    q_slack = [0.0] * len(q)
    if trial.sampled_from is not None:
        excess, slack = _excess_mass(trial)
        dropped = excess <= slack + EXACT and near(n, *_dropped_mass(trial, token))
        if not dropped:
            q, rest = trial.sampled_from.q, trial.sampled_from.rest_excess
            q_slack = [rounding(value) for value in q]
    p = [max(0.0, a - b) / n for a, b in zip(before.p, q, strict=True)]
    slacks = [
        0.0 if b == 1 else (rounding(a) + c + EXACT * a) / n
        for a, b, c in zip(before.p, q, q_slack, strict=True)
    ]
    return Residual(before.token, p, slacks, rest / n, (rounding(rest) + EXACT * rest) / n)


def _proposals(place: Place, trial: Trial, before: Trial | None, tree: TreeTrace) -> Iterator[Finding]:
    """q of a sampled candidate: its own distribution, without the siblings drawn before it."""
    drawn = trial.sampled_from
    assert drawn is not None
    token = tree.token[trial.node]
    slack = rounding(*drawn.q, drawn.rest_q)
    if not near(sum(drawn.q) + drawn.rest_q, 1.0, slack):
        yield place.finding("the sum of q", 1.0, sum(drawn.q) + drawn.rest_q)
    if token in trial.before.token:
        q = drawn.q[trial.before.token.index(token)]
        if not near(trial.proposal, q, rounding(q)):
            yield place.finding("the proposal probability", f"q of its token, {q:.6g}", trial.proposal)
    low, high = max(0.0, trial.before.rest - drawn.rest_q), trial.before.rest
    moved = rounding(trial.before.rest, drawn.rest_q, drawn.rest_excess)
    if not low - moved - EXACT <= drawn.rest_excess <= high + moved + EXACT:
        yield place.finding(
            "the rest's share of max(0, p - q)", f"from {low:.6g} to {high:.6g}", drawn.rest_excess
        )
    if before is not None and before.sampled_from is not None and before.before.token == trial.before.token:
        yield from _without(place, trial, before, tree.token[before.node])


def _without(place: Place, trial: Trial, before: Trial, gone: int) -> Iterator[Finding]:
    """q here is q of the trial before with that trial's token set to 0, the rest renormalised."""
    earlier, drawn = before.sampled_from, trial.sampled_from
    assert earlier is not None
    assert drawn is not None
    kept = [0.0 if t == gone else q for t, q in zip(before.before.token, earlier.q, strict=True)]
    mass = sum(kept) + earlier.rest_q
    if mass <= 0:
        yield place.finding("what is left of q", "above 0", mass)
        return
    relative = rounding(*kept, earlier.rest_q) / mass
    for token, found, q in zip(trial.before.token, drawn.q, kept, strict=True):
        if not near(found, q / mass, rounding(q) / mass + q / mass * relative + rounding(found)):
            yield place.finding(f"q of token {token}", q / mass, found)
    rest = earlier.rest_q / mass
    if not near(
        drawn.rest_q, rest, rounding(earlier.rest_q) / mass + rest * relative + rounding(drawn.rest_q)
    ):
        yield place.finding("the rest of q", rest, drawn.rest_q)


def _statuses(step: int, tree: TreeTrace, tried: dict[int, Status]) -> Iterator[Finding]:
    for node, status in enumerate(tree.status):
        expected = tried.get(node, Status.NOT_TESTED)
        if status != expected:
            yield Place(step, f"node {node}").finding("the status", f"{expected}, as its trial says", status)


def _end(
    step: StepTrace, at: int, position: int, residual: Residual | None, settings: Settings
) -> Iterator[Finding]:
    """Where the walk stopped, and the final draw there."""
    place, final = Place(step.index, "final token"), step.final
    offered = len(step.tree.children(at)) if step.tree else 0
    if final is None:
        if step.finish is None:
            yield place.finding("the token", "there: the run goes on", "missing")
        if step.index == 0 or position > 0 or at == ROOT:
            yield place.finding("the token", "there: no accepted token ended the step", "missing")
        return
    if position < offered:
        yield place.finding("the trials before it", f"all {offered} children of node {at}", position)
    if final.node != at:
        yield place.finding("the node it hangs on", at, final.node)
    origin = Origin.PROMPT if step.index == 0 else Origin.RESIDUAL if position else Origin.BONUS
    if final.origin != origin:
        yield place.finding("the origin", origin, final.origin)
    yield from check_distribution(place, final.drawn_from, settings, fresh=residual is None)
    yield from _same_as(place, "what it was drawn from", final.drawn_from, residual)
    yield from _interval(place, final)


def _interval(place: Place, final: Final) -> Iterator[Finding]:
    """[low, high) holds the draw, is as wide as p, and lies where the smaller ids end."""
    if not final.low <= final.draw < final.high:
        yield place.finding("the draw", f"in [{final.low:.9g}, {final.high:.9g})", final.draw)
    listed = final.drawn_from
    if final.token not in listed.token:
        yield place.finding("its token", f"listed in what it was drawn from (token {final.token})", "missing")
        return
    p = listed.p[listed.token.index(final.token)]
    if p == 0:
        yield place.finding("p of its token", "above 0", p)
    if not near(final.high - final.low, p, rounding(p) + EXACT):
        yield place.finding("the width of its interval", f"p of its token, {p:.6g}", final.high - final.low)
    below = sum(q for token, q in zip(listed.token, listed.p, strict=True) if token < final.token)
    slack = rounding(*listed.p, listed.rest) + EXACT
    if not below - slack <= final.low <= below + listed.rest + slack:
        expected = f"from {below:.6g} to {below + listed.rest:.6g}, the mass of smaller ids"
        yield place.finding("the lower end of its interval", expected, final.low)
