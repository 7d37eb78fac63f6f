"""A node's siblings, handed from the explorer to the rule lab: what can be handed over, and why not."""

from __future__ import annotations

from app.lab_state import LabState, from_node
from app.session import FINAL
from eagle.trace import ROOT, RunTrace, StepTrace, Trial

NOT_A_GUESS = "This token was in the answer before the step; choose a guess."
NO_TREE = "Nothing was drafted in this step, so there are no siblings to take."
NOTHING_THERE = "Nothing was drafted at this place, so there are no siblings to take."
NOT_RECORDED = "None of these sampled guesses was tried, so what they were drawn from is not recorded."


def why_not(step: StepTrace, node: int | None) -> str:
    """One sentence on why the node's siblings can not be taken; blank where they can."""
    if step.tree is None:
        return NO_TREE
    if node is None or node == ROOT:
        return NOT_A_GUESS
    parent = siblings_of(step, node)
    if not step.tree.children(parent):
        return NOTHING_THERE
    sampled = step.tree.draft_draw is not None
    return NOT_RECORDED if sampled and first_trial(step, parent) is None else ""


def siblings_of(step: StepTrace, node: int) -> int:
    """The node below which this one stands, the target's own token included. Needs a tree."""
    assert step.tree is not None
    if node == FINAL:
        return step.final.node if step.final else ROOT
    return step.tree.parent[node] if node >= 0 else ROOT


def first_trial(step: StepTrace, parent: int) -> Trial | None:
    """The first test of a guess below ``parent``."""
    tree = step.tree
    assert tree is not None
    return next((trial for trial in step.trials if tree.parent[trial.node] == parent), None)


def lab_state(run: RunTrace, step: StepTrace, node: int | None) -> LabState | None:
    """The lab on the node's siblings: the target's p and the draft's confidence. None: see ``why_not``."""
    if node is None or why_not(step, node):
        return None
    assert step.tree is not None
    parent = siblings_of(step, node)
    return from_node(step.tree, parent, run.labels(), first_trial(step, parent))
