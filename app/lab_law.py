"""The exact law of the chosen rule, as the lab shows it: paths with their masses, stages, outcomes. Pure.

Every number comes from :mod:`eagle.rules` and :mod:`eagle.laws`; here they are only put in order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.lab_state import LabState
from eagle import laws, rules
from eagle.laws import SAMPLED
from eagle.rules import SOUND, Array, Branch, Candidate, RuleName

# Past this many lists of candidates the single paths are too many to show; stages remain.
MOST_LISTS = 60
MOST_PATHS = 12


@dataclass(frozen=True)
class Path:
    """One way a draw can go, whoever else might have been offered later: its mass and its words."""

    rejected: tuple[int, ...]
    token: int
    accepted: bool
    mass: float


@dataclass(frozen=True)
class Law:
    """A rule's exact outcome. ``stages`` [m + 1, V]: mass settled at each trial, then at the end."""

    rule: RuleName
    target: Array
    output: Array
    stages: Array
    variation: float
    paths: list[Path]

    @property
    def sound(self) -> bool:
        return self.rule in SOUND

    @property
    def accepted(self) -> float:
        """The probability that one of the candidates is accepted."""
        return float(self.stages[:-1].sum())


def law_of(state: LabState, rule: RuleName | None = None) -> Law:
    """The exact law of the state's rule, or of another on the same distributions."""
    rule = rule or state.rule
    p, q = state.shaped_for(rule)
    order = state.fixed_list(rule)
    stages = laws.stage_masses(rule, p, q, state.k, order)
    output = stages.sum(axis=0)
    paths = _paths(rule, p, q, state.k, order)
    return Law(rule, p, output, stages, rules.total_variation(output, p), paths)


def _paths(rule: RuleName, p: Array, q: Array, k: int, order: list[int] | None) -> list[Path]:
    """Paths in the order in which they are met, equal ones together; [] where there are too many."""
    size = 1 if rule == "chain" else min(k, int(np.count_nonzero(q)))
    if rule in SAMPLED and _lists(int(np.count_nonzero(q)), size) > MOST_LISTS:
        return []
    masses: dict[tuple[tuple[int, ...], int, bool], float] = {}
    for branch in rules.branches(rule, p, q, k, order):
        key = _key(branch)
        masses[key] = masses.get(key, 0.0) + branch.mass
    return [Path(*key, mass) for key, mass in masses.items() if mass > 0]


def _key(branch: Branch) -> tuple[tuple[int, ...], int, bool]:
    return branch.rejected, branch.token, branch.accepted


def _lists(support: int, size: int) -> int:
    """How many ordered lists of ``size`` tokens there are."""
    return int(np.prod([support - i for i in range(size)])) if size else 1


def factors(rule: RuleName, p: Array, q: Array, path: Path) -> list[float]:
    """The probabilities along a path, in order; their product is its mass.

    Where the rule draws its candidates, each trial has two: being drawn, then the verdict.
    """
    out: list[float] = []
    offered = [*path.rejected, *([path.token] if path.accepted else [])]
    for place, token in enumerate(offered):
        candidate = Candidate(token, None if rule == "eagle2" else q)
        if rule in SAMPLED:
            out.append(candidate.proposal)
        accept = rules.accept_probability(p, candidate)
        out.append(accept if path.accepted and place == len(offered) - 1 else 1.0 - accept)
        p, q = rules.residual(p, candidate)[0], rules.drop(q, token)[0]
    return out if path.accepted else [*out, float(p[path.token])]
