"""A whole run: its steps one after the other, then what the run says about itself."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain as joined
from itertools import islice

import numpy as np

from eagle.audit.finding import Finding, Place
from eagle.audit.tree import check_tree
from eagle.audit.trials import check_trials
from eagle.settings import Method
from eagle.trace import ROOT, Finish, Origin, RunTrace, StepTrace

MOST_FINDINGS = 1000
RUN = Place(None, "run")


def audit(run: RunTrace) -> list[Finding]:
    """Everything that does not hold, in the order of the run; empty for a sound one. Never raises."""
    return list(islice(_findings(run), MOST_FINDINGS))


def first_fault(run: RunTrace) -> Finding | None:
    """The first thing that does not hold, or None."""
    return next(_findings(run), None)


def _findings(run: RunTrace) -> Iterator[Finding]:
    yield from _seed(run)
    emitted: list[int] = []
    for position, step in enumerate(run.steps):
        yield from _order(run, position, step, emitted)
        if step.tree is not None:
            yield from check_tree(
                step.index, step.tree, run.settings, run.settings.max_new_tokens - len(emitted)
            )
        yield from check_trials(step, run.settings)
        yield from _emitted(step)
        emitted += step.emitted.token
    yield from _draws(run)
    yield from _labels(run)
    yield from _totals(run, emitted)
    yield from _finish(run, emitted)
    if run.checksum is not None and run.checksum != run.content_checksum():
        expected = f"that of the content, {run.content_checksum()[:12]}... (a number was changed)"
        yield RUN.finding("the checksum", expected, run.checksum[:12] + "...")


def _seed(run: RunTrace) -> Iterator[Finding]:
    if run.settings.seed is not None and run.settings.seed != run.seed:
        yield RUN.finding("the seed", f"the settings', {run.settings.seed}", run.seed)


def _order(run: RunTrace, position: int, step: StepTrace, emitted: list[int]) -> Iterator[Finding]:
    """The step's number, what came before it, and whether it has the tree its method drafts."""
    place = Place(step.index, "step")
    if step.index != position:
        yield place.finding("its number", position, step.index)
    context = len(run.prompt.token) + len(emitted)
    if step.context != context:
        yield place.finding("the tokens before it", context, step.context)
    drafts = position > 0 and run.settings.method is not Method.VANILLA
    if drafts != (step.tree is not None):
        yield place.finding("the tree", "there" if drafts else "absent", "missing" if drafts else "there")
    if step.tree is not None and emitted and step.tree.root != emitted[-1]:
        yield Place(step.index, "root").finding(
            "the token", f"the last one emitted, {emitted[-1]}", step.tree.root
        )
    if step.finish is not None and position != len(run.steps) - 1:
        yield place.finding("the finish", "absent: steps follow", step.finish)


def _emitted(step: StepTrace) -> Iterator[Finding]:
    """The accepted path, then the final token; each with its origin and node."""
    nodes = [trial.node for trial in step.trials if trial.accepted]
    tokens = [step.tree.token[node] for node in nodes] if step.tree else []
    origins = [Origin.DRAFT] * len(tokens)
    if step.final is not None:
        nodes, tokens = [*nodes, ROOT], [*tokens, step.final.token]
        origins = [*origins, step.final.origin]
    place = Place(step.index, "emitted tokens")
    if not len(step.emitted):
        yield place.finding("their number", "at least 1", 0)
    if step.emitted.token != tokens:
        yield place.finding(
            "the tokens", f"the accepted path and the final token, {tokens}", step.emitted.token
        )
    if step.emitted.node != nodes:
        yield place.finding("their nodes", nodes, step.emitted.node)
    if step.emitted.origin != origins:
        expected, found = ([str(origin) for origin in each] for each in (origins, step.emitted.origin))
        yield place.finding("their origins", expected, found)


def _draws(run: RunTrace) -> Iterator[Finding]:
    """All draws of a run are one generator's, in the order that ``eagle/decoder.py`` states."""
    if run.seed >= 2**63:
        yield RUN.finding("the seed", "below 2^63", run.seed)
        return
    generator = np.random.Generator(np.random.PCG64(run.seed))
    for step in run.steps:
        drafted = (step.tree.draft_draw if step.tree else None) or []
        recorded = [(f"draft draw {number + 1}", draw) for number, draw in enumerate(drafted)]
        recorded += [
            (f"trial {i + 1} (node {trial.node})", trial.draw) for i, trial in enumerate(step.trials)
        ]
        recorded += [("final token", step.final.draw)] if step.final else []
        for where, draw in recorded:
            expected = generator.random()
            if draw != expected:
                yield Place(step.index, where).finding(
                    "the draw", f"the seed's next number, {expected!r}", repr(draw)
                )
                return


def _labels(run: RunTrace) -> Iterator[Finding]:
    """Each token id has a text by the step that mentions it, and keeps it."""
    known = dict(zip(run.prompt.token, run.prompt.labels, strict=True))
    for token, label in zip(run.prompt.token, run.prompt.labels, strict=True):
        if known[token] != label:
            yield RUN.finding(
                f"the text of prompt token {token}", f"the same everywhere, {known[token]!r}", repr(label)
            )
    for step in run.steps:
        place = Place(step.index, "labels")
        mentioned = set(_mentioned(step))
        for token, text in step.labels.items():
            if token in known:
                yield place.finding(f"the text of token {token}", "given once, at its first step", repr(text))
            elif token not in mentioned:
                yield place.finding(f"the text of token {token}", "absent: nothing here names it", repr(text))
        known = step.labels | known
        for token in sorted(mentioned - known.keys()):
            yield place.finding(f"the text of token {token}", "recorded", "missing")


def _mentioned(step: StepTrace) -> Iterator[int]:
    distributions = [trial.before for trial in step.trials]
    if step.final:
        distributions.append(step.final.drawn_from)
        yield step.final.token
    yield from step.emitted.token
    yield from joined.from_iterable(distribution.token for distribution in distributions)
    if step.tree:
        yield step.tree.root
        yield from step.tree.token
        yield from step.tree.cut.token


def _totals(run: RunTrace, emitted: list[int]) -> Iterator[Finding]:
    if run.new_tokens != len(emitted):
        yield RUN.finding("new_tokens", len(emitted), run.new_tokens)
    passes = max(0, len(run.steps) - 1)
    if run.target_passes != passes:
        yield RUN.finding("target_passes", f"{passes}, the steps after the prompt's pass", run.target_passes)
    text = "".join(piece for step in run.steps for piece in step.emitted.text)
    if run.text != text:
        yield RUN.finding("the text", f"the emitted pieces joined, {text!r}", repr(run.text))


def _finish(run: RunTrace, emitted: list[int]) -> Iterator[Finding]:
    """The reason fits the counts, and nothing follows an end token."""
    limit = run.settings.max_new_tokens
    if len(emitted) > limit:
        yield RUN.finding("the number of new tokens", f"at most {limit}", len(emitted))
    last = run.steps[-1].finish if run.steps else None
    expected = last or Finish.STOPPED
    if run.finish != expected:
        yield RUN.finding("the finish", f"{expected}, as the last step says", run.finish)
    if run.finish is Finish.LENGTH and len(emitted) != limit:
        yield RUN.finding("the new tokens of a run that ended by length", limit, len(emitted))
    if run.finish is Finish.STOPPED and len(emitted) >= limit:
        yield RUN.finding("the finish of a run at its limit", Finish.LENGTH, run.finish)
    if run.finish is Finish.END_TOKEN and emitted and emitted[-1] in emitted[:-1]:
        yield RUN.finding("the end token", "emitted once, at the end", f"token {emitted[-1]} earlier too")
