"""One draw under one rule, event by event: what was drafted, each trial, what was drawn at the end. Pure.

The uniform numbers come from the seed; a draw set by hand takes its place. They are laid out as
:func:`eagle.rules.simulate` reads them, so the draw on screen is the first of the experiment's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from app.lab_state import COLUMNS, FINAL_COLUMN, TEST_COLUMN, LabState
from eagle import rules
from eagle.laws import SAMPLED
from eagle.rules import Array, Candidate, FinalDraw, Trial, Verdict

Kind = Literal["drafted", "trial", "final"]


@dataclass(frozen=True)
class Event:
    """One step of a draw; ``index`` numbers the trials."""

    kind: Kind
    index: int = 0


@dataclass(frozen=True)
class Walk:
    """A whole draw. ``drawn`` says how each candidate was drawn, for the rules that draw them.

    ``shown`` events are on screen; ``columns`` are those of the uniform numbers that the trials
    and the final draw read.
    """

    state: LabState
    p: Array
    q: Array
    candidates: list[Candidate]
    drawn: list[FinalDraw]
    verdict: Verdict
    events: list[Event]
    shown: int

    @property
    def next_event(self) -> Event | None:
        """What the next press shows; None when the draw has ended."""
        return self.events[self.shown] if self.shown < len(self.events) else None

    @property
    def finished(self) -> bool:
        return self.shown >= len(self.events)

    @property
    def trials(self) -> list[Trial]:
        return self.verdict.trials

    def is_shown(self, kind: Kind, index: int = 0) -> bool:
        """Whether this event is on screen."""
        return Event(kind, index) in self.events[: self.shown]

    def is_next(self, kind: Kind, index: int = 0) -> bool:
        return self.next_event == Event(kind, index)

    def drafted_is_shown(self) -> bool:
        """A fixed list is known from the start; drawn candidates once they have been drawn."""
        return not self.drawn or self.is_shown("drafted")


def luck(state: LabState, draws: int) -> Array:
    """Uniform numbers [draws, 17] in [0, 1) from the seed alone."""
    return np.random.default_rng(state.seed).random((draws, COLUMNS))


def columns_for(k: int) -> list[int]:
    """The 2k + 1 columns that :func:`eagle.rules.simulate` is given for k candidates."""
    return [*range(k), *range(TEST_COLUMN, TEST_COLUMN + k), FINAL_COLUMN]


def walk(state: LabState) -> Walk:
    """The current draw of a state, all its events, and how many of them are shown."""
    numbers = luck(state, 1)[0]
    for column, value in state.typed:
        numbers[column] = value
    p, q = state.p, state.q
    drawn: list[FinalDraw] = []
    if state.rule in SAMPLED:
        candidates, drawn = _drawn(q, 1 if state.rule == "chain" else state.k, numbers)
    else:
        ((_, candidates),) = rules.offers(state.rule, q, state.k, state.fixed_list())
    tests = iter(
        [*numbers[TEST_COLUMN : TEST_COLUMN + len(candidates)].tolist(), float(numbers[FINAL_COLUMN])]
    )
    # The final draw has its own column, whatever the number of trials.
    verdict = rules.judge(p, candidates, lambda: next(tests))
    events = [Event("drafted")] if drawn else []
    events += [Event("trial", index) for index in range(len(verdict.trials))]
    events += [Event("final")] if verdict.final else []
    return Walk(state, p, q, candidates, drawn, verdict, events, min(state.step, len(events)))


def _drawn(q: Array, k: int, numbers: Array) -> tuple[list[Candidate], list[FinalDraw]]:
    """k candidates drawn from q [V] without replacement, and how the draw of each fell."""
    draws = iter(numbers[:k].tolist())
    candidates = rules.draw_without_replacement(q, k, lambda: next(draws))
    drawn = [
        rules.inverse_cdf(candidate.q, float(numbers[index]))
        for index, candidate in enumerate(candidates)
        if candidate.q is not None
    ]
    return candidates, drawn


def column_of(event: Event) -> int | None:
    """Which uniform number this event reads; None for drafting, which reads several."""
    if event.kind == "trial":
        return TEST_COLUMN + event.index
    return FINAL_COLUMN if event.kind == "final" else None
