"""The lab's whole state as one frozen record, and what keeps it valid. Pure.

Nothing about a visitor is kept on the server: the page sends its query string (:mod:`app.lab_query`)
with every action and gets the next one back.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from eagle import laws, rules
from eagle.rules import Array, RuleName
from eagle.trace import TreeTrace, Trial

MIN_TOKENS, MAX_TOKENS = 2, 8
MAX_NAME = 24
MAX_TEMPERATURE = 2.0
EXPERIMENTS = (1, 100, 10_000, 100_000)
VIEWS = ("experiment", "why", "misreadings", "letters", "teacher")
# Columns of the uniform numbers of one draw: 8 to draw candidates, 8 to test them, one to finish.
TEST_COLUMN, FINAL_COLUMN, COLUMNS = MAX_TOKENS, 2 * MAX_TOKENS, 2 * MAX_TOKENS + 1
MAX_GUESSES = 60
REST = "(every other token)"


@dataclass(frozen=True)
class Guess:
    """A prediction made before a trial: the side, perhaps the probability; and what was true."""

    accept: bool
    probability: float | None
    true_probability: float
    accepted: bool


@dataclass(frozen=True)
class LabState:
    """Everything that a link holds. ``target`` and ``draft`` are before the temperature.

    ``order`` () means the draft's own order, otherwise a fixed list of token indices. ``typed``
    holds (column, draw) for draws set by hand. ``step`` counts the events shown of the current draw.
    """

    tokens: tuple[str, ...] = ("am", "have")
    target: tuple[float, ...] = (0.51, 0.49)
    draft: tuple[float, ...] = (0.51, 0.49)
    rule: RuleName = "eagle2"
    other: RuleName = "misreading"
    k: int = 1
    order: tuple[int, ...] = ()
    temperature: float = 1.0
    seed: int = 7
    step: int = 0
    typed: tuple[tuple[int, float], ...] = ()
    one: float = 0.7
    draws: int = 0
    view: str = "experiment"
    lesson: int = 1
    card: int = 1
    reveal: bool = False
    answer: int = 0
    predict: bool = False
    guesses: tuple[Guess, ...] = ()
    room: bool = False
    total: int = 6
    share: float = 0.7
    depth: int = 5
    draft_step: float = 0.1
    extra_token: float = 0.01

    @property
    def p(self) -> Array:
        """The target's distribution [V] as the rule meets it."""
        return self._shaped()[0]

    @property
    def q(self) -> Array:
        """The draft's distribution [V] as the rule meets it."""
        return self._shaped()[1]

    def _shaped(self) -> tuple[Array, Array]:
        target = rules.as_distribution(self.target, "the target")
        draft = rules.as_distribution(self.draft, "the draft")
        return laws.after_temperature(self.rule, target, draft, self.temperature)

    def shaped_for(self, rule: RuleName) -> tuple[Array, Array]:
        """(p, q) as another rule would meet them."""
        return replace(self, rule=rule)._shaped()

    def fixed_list(self, rule: RuleName | None = None) -> list[int] | None:
        """The fixed list for eagle2 and the misreading, at most k of it; None for the sampled rules.

        The misreading divides by the confidence, so it can't be offered a token without one.
        """
        rule = rule or self.rule
        if rule not in ("eagle2", "misreading"):
            return None
        draft = rules.as_distribution(self.draft, "the draft")
        listed = list(self.order) or rules.top_tokens(draft, self.k)
        return [token for token in listed if rule == "eagle2" or draft[token] > 0]


DEFAULT = LabState()


def check_weights(values: Sequence[float]) -> None:
    """2 to 8 finite numbers from 0 up, with something above 0."""
    if not MIN_TOKENS <= len(values) <= MAX_TOKENS:
        raise ValueError(f"there are {len(values)} tokens, but the lab takes {MIN_TOKENS} to {MAX_TOKENS}")
    if not all(math.isfinite(value) and value < 1e12 for value in values):
        raise ValueError("one of the numbers is not finite")
    if min(values) < 0:
        raise ValueError("one of the numbers is negative")
    if not sum(values) > 0:
        raise ValueError("the numbers sum to 0")


def scaled(values: Iterable[float]) -> tuple[float, ...]:
    """Divided by their sum, unless they sum to 1 already; kept to twelve digits so that links are stable."""
    row = np.asarray(list(values), dtype=np.float64)
    if abs(row.sum() - 1) > 1e-9:
        row = row / row.sum()
    return tuple(float(f"{value:.12g}") for value in row)


def clean_names(names: Iterable[str]) -> tuple[str, ...]:
    """Names cut to 24 characters and told apart; ValueError where there are too few or too many."""
    out: list[str] = []
    for raw in names:
        base = raw.encode("utf-8", "replace").decode()[:MAX_NAME]
        name, copy = base, 2
        while name in out:
            name, copy = f"{base} ({copy})", copy + 1
        out.append(name)
    if not MIN_TOKENS <= len(out) <= MAX_TOKENS:
        raise ValueError(f"there are {len(out)} tokens, but the lab takes {MIN_TOKENS} to {MAX_TOKENS}")
    return tuple(out)


def tidy(state: LabState) -> LabState:
    """Whatever depends on other fields, brought into their range: k, order, draws set by hand."""
    size = len(state.tokens)
    order = tuple(dict.fromkeys(token for token in state.order if 0 <= token < size))
    k = len(order) if order else max(1, min(state.k, size))
    return replace(state, k=k, order=order, guesses=state.guesses[-MAX_GUESSES:])


def from_node(
    tree: TreeTrace, parent: int, labels: Mapping[int, str], first: Trial | None = None
) -> LabState:
    """A real node's distributions: the candidates drafted below ``parent`` (-1 is the root).

    Up to seven keep their names (``labels``: token id -> text); all other tokens of the vocabulary
    are taken as one. p is the target's after temperature, the draft is the head's confidence. Where
    ``first``, the first trial there, says that candidates were drawn, the draft is what they were
    drawn from and the rule is the sampled one. Raises ValueError where nothing was drafted.
    """
    children = tree.children(parent)[: MAX_TOKENS - 1]
    if not children:
        raise ValueError("nothing was drafted below this node")
    target = {tree.token[child]: tree.p[child] for child in children}
    draft = {tree.token[child]: tree.confidence[child] for child in children}
    rule: RuleName = "eagle2"
    if first is not None and first.sampled_from is not None:
        known = list(zip(first.before.token, first.before.p, first.sampled_from.q, strict=True))
        known = known[: MAX_TOKENS - 1]
        target = {token: p for token, p, _ in known}
        draft = {token: q for token, _, q in known}
        rule = "eagle1" if len(children) > 1 else "chain"
    return tidy(
        replace(
            DEFAULT,
            tokens=clean_names([*(labels.get(token, f"#{token}") for token in target), REST]),
            target=scaled([*target.values(), max(0.0, 1 - sum(target.values()))]),
            draft=scaled([*draft.values(), max(0.0, 1 - sum(draft.values()))]),
            rule=rule,
            k=len(children),
            order=tuple(range(len(target))) if rule == "eagle2" else (),
            lesson=0,
        )
    )
