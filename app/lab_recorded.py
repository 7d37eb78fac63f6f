"""Lesson 6: the distributions of a real node, read from the recorded runs that the page ships."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from pydantic import ValidationError

from app.lab_state import LabState, from_node, tidy
from app.labels import shorten
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
    """The most open question in the shipped runs; None without a usable run.

    Nodes come first whose second candidate was accepted after its first fell; among equals the one
    whose likeliest token is least likely.
    """
    best: tuple[bool, float, LabState, str] | None = None
    for path in sorted(folder.glob("*.json")):
        try:
            trace = RunTrace.from_json(path.read_bytes())
        except (OSError, ValidationError, ValueError):
            continue
        for step in trace.steps:
            state = _node_of(trace, step)
            if state is None:
                continue
            telling = [trial.accepted for trial in step.trials][:2] == [False, True]
            rank = (not telling, max(state.target))
            if best is None or rank < best[:2]:
                best = (*rank, state, _where(trace, step, path))
    return best[2:] if best else None


def _node_of(trace: RunTrace, step: StepTrace) -> LabState | None:
    """The root's distributions at one step, if at least two EAGLE-2 candidates were offered there."""
    if step.tree is None or not step.trials or step.trials[0].sampled_from is not None:
        return None
    children = step.tree.children(ROOT)
    first = step.trials[0]
    if len(children) < 2 or first.node not in children or trace.settings.temperature == 0:
        return None
    return from_node(step.tree, ROOT, trace.labels())


def _where(trace: RunTrace, step: StepTrace, path: Path) -> str:
    before = "".join(text for earlier in trace.steps[: step.index] for text in earlier.emitted.text)
    after = " ".join(before[-40:].split())
    name = shorten(trace.title or path.stem, 40)
    return f"Real numbers: the recorded run “{name}”, step {step.index}, after “…{after}”."
