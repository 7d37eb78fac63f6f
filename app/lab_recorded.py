"""Lesson 6: the distributions of a real node, read from the recorded runs that the page ships."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from pydantic import ValidationError

from app.lab_state import LabState, from_node, tidy
from app.labels import quoted
from eagle.trace import ROOT, RunTrace, StepTrace

TRACES = Path(__file__).resolve().parent.parent / "assets" / "traces"
NONE_YET = "No recorded run is at hand, so this card shows the first lesson's numbers."


def on_real_node(start: LabState, folder: Path = TRACES) -> tuple[LabState, str]:
    """The card's state on a real node's distributions, and a sentence that says which node it is."""
    found = _best_node(folder)
    if found is None:
        return start, NONE_YET
    node, said = found
    order = node.order if start.rule in ("eagle2", "misreading") else ()
    real = replace(start, tokens=node.tokens, target=node.target, draft=node.draft, k=node.k, order=order)
    return tidy(real), said


@lru_cache(maxsize=4)
def _best_node(folder: Path) -> tuple[LabState, str] | None:
    """The first node in the shipped runs whose second candidate was accepted after its first fell.

    If there is none, the first node with two candidates or more. None without a usable run.
    """
    fallback = None
    for path in sorted(folder.glob("*.json")):
        try:
            trace = RunTrace.from_json(path.read_bytes())
        except (OSError, ValidationError, ValueError):
            continue
        for step in trace.steps:
            state = _node_of(trace, step)
            if state is None:
                continue
            said = _where(trace, step, path)
            accepted = [trial.accepted for trial in step.trials]
            if accepted[:2] == [False, True]:
                return state, said
            fallback = fallback or (state, said)
    return fallback


def _node_of(trace: RunTrace, step: StepTrace) -> LabState | None:
    """The root's distributions at one step, if at least two EAGLE-2 candidates were offered there."""
    if step.tree is None or not step.trials or step.trials[0].sampled_from is not None:
        return None
    children = step.tree.children(ROOT)
    first = step.trials[0]
    if len(children) < 2 or first.node not in children or trace.settings.temperature == 0:
        return None
    return from_node(
        first.before,
        [step.tree.token[child] for child in children],
        [step.tree.confidence[child] for child in children],
        trace.labels(),
    )


def _where(trace: RunTrace, step: StepTrace, path: Path) -> str:
    labels = trace.labels()
    before = "".join(text for earlier in trace.steps[: step.index] for text in earlier.emitted.text)
    after = (
        quoted(before[-30:], 30)
        if before
        else quoted(labels.get(step.tree.root, ""), 30)
        if step.tree
        else ""
    )
    name = trace.title or path.stem
    return f"Real numbers: the recorded run {quoted(name, 40)}, step {step.index}, after {after}."
