"""A runner for many visitors: the line before the one model, the limits, and what is remembered.

Each run is decoded by a thread of its own, one step each time its visitor's page asks for the next;
so the model is free again within a step when the run is stopped, when its page is gone, or when
nobody has asked for a step in ``lease_s`` seconds, whatever became of the one who asked.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from app import faults
from app.limits import Clock, LimitError, Limits, RateLimit, ResultCache, StoppedError
from app.line import Line, Ticket
from app.pair_holder import PairStatus
from app.runner import Decoding, Runner, RunSource
from eagle.settings import Method, Settings
from eagle.trace import RunTrace, StepTrace

if TYPE_CHECKING:
    from app.jobs import Job
    from app.pair_choice import PairChoice

REMEMBERED = (
    "Exactly this was decoded before (same prompt, settings, seed): here it is again, with the times of then."
)
TELL_EVERY_S = 1.0
# Runs that may be open at a time: more than may ever wait, so that each is told at once if there is room.
LIVE_AT_ONCE = 64
MOST_TURNS_A_SESSION = 4
REPEAT_MARK = "#"  # between a session's name and the number of one of its API calls


class RunFailedError(RuntimeError):
    """A run ended with a fault; the message is the sentence for the visitor."""


class CrowdRunner:
    """Serves the runs of ``inner`` to many visitors."""

    def __init__(
        self, inner: RunSource | None = None, limits: Limits | None = None, clock: Clock = time.monotonic
    ) -> None:
        self.inner = inner or Runner()
        self.limits = limits or Limits.from_environment()
        self.line = Line(self.limits.most_waiting, clock)
        self.remembered = ResultCache(self.limits.remembered_mb * 10**6)
        self._rate = RateLimit(self.limits.runs_per_minute, clock)
        self._clock = clock
        self._guard = threading.Lock()
        self._turns: dict[str, Turn] = {}
        self._last: dict[str, tuple[str, int | None]] = {}  # visitor -> prompt and seed of the run just ended

    def status(self) -> PairStatus:
        return self.inner.status()

    def start_loading(self) -> None:
        self.inner.start_loading()

    def begin(self, prompt: str, settings: Settings, visitor: str) -> Decoding:
        """A run in the line. Raises LimitError, PromptError or SettingsError, each one plain sentence."""
        from eagle.text import check_text

        check_text(prompt)
        self.limits.check(settings)
        follows = self._follows(prompt, settings, visitor)
        if not follows:
            self._rate.count(session_of(visitor))
        key = self.remembered.key(self._pair(), prompt, settings)
        known = self.remembered.get(key)
        if known is not None:
            self._note_last(visitor, prompt, known.seed)
            return Remembered(known)

        def remember(run: RunTrace) -> None:
            self.remembered.put(key, run)
            self._note_last(visitor, prompt, run.seed)

        return self._join(
            lambda: self.inner.begin(prompt, settings, visitor), visitor, remember, next_up=follows
        )

    def work(self, job: Job, visitor: str) -> Decoding:
        """Other work on the pair, in the same line; counted like a run and never remembered."""
        self._rate.count(session_of(visitor))
        return self._join(lambda: self.inner.work(job, visitor), visitor, lambda run: None, next_up=False)

    def _join(
        self,
        begin: Callable[[], Decoding],
        visitor: str,
        remember: Callable[[RunTrace], None],
        *,
        next_up: bool,
    ) -> Turn:
        with self._guard:
            mine = [name for name in self._turns if session_of(name) == session_of(visitor)]
            if visitor not in self._turns and len(mine) >= MOST_TURNS_A_SESSION:
                raise LimitError(f"This session has {len(mine)} runs in the line already; wait for them.")
            before = self._turns.pop(visitor, None)
        if before is not None:
            before.stop()
        decoding = begin()

        def ended(turn: Turn, run: RunTrace | None) -> None:
            with self._guard:
                if self._turns.get(visitor) is turn:
                    del self._turns[visitor]
            if run is not None:
                remember(run)

        turn = Turn(
            decoding, self.line, self.line.join(next_up=next_up), self.limits.lease_s, ended, self._clock
        )
        with self._guard:
            self._turns[visitor] = turn
        turn.start()
        return turn

    def exchange(self, choice: PairChoice) -> Iterator[PairStatus]:
        """Another pair for everyone, after the run in progress. Raises NoPairError."""
        return self.inner.exchange(choice)

    def stop(self, visitor: str) -> None:
        """The visitor's runs end after the step they are in, or leave the line."""
        with self._guard:
            names = [n for n in self._turns if n == visitor or n.startswith(visitor + REPEAT_MARK)]
            turns = [self._turns.pop(name) for name in names]
        for turn in turns:
            turn.stop()
        for name in {visitor, *names}:
            self.inner.stop(name)

    def _pair(self) -> str:
        identity = getattr(self.inner, "identity", None)
        return identity() if identity else ""

    def _follows(self, prompt: str, settings: Settings, visitor: str) -> bool:
        """Whether this is the plain decoding that is timed right after a run: the second half of its turn."""
        with self._guard:
            last = self._last.pop(visitor, None)
        return settings.method is Method.VANILLA and last == (prompt, settings.seed)

    def _note_last(self, visitor: str, prompt: str, seed: int) -> None:
        with self._guard:
            self._last.pop(visitor, None)
            self._last[visitor] = (prompt, seed)
            while len(self._last) > 256:
                del self._last[next(iter(self._last))]


def session_of(visitor: str) -> str:
    """The browser session behind a visitor's name."""
    return visitor.split(REPEAT_MARK, maxsplit=1)[0]


class Remembered:
    """A run that was decoded before, step by step."""

    note = REMEMBERED

    def __init__(self, run: RunTrace) -> None:
        self._run = run

    def waiting(self) -> Iterator[str]:
        """Nothing to wait for."""
        return iter(())

    def __iter__(self) -> Iterator[StepTrace]:
        return iter(self._run.steps)

    def trace(self) -> RunTrace:
        return self._run


class Turn:
    """One live run in the line. Iterating it asks its thread for one step after the other."""

    note = ""

    def __init__(
        self,
        decoding: Decoding,
        line: Line,
        ticket: Ticket,
        lease_s: float,
        ended: Callable[[Turn, RunTrace | None], None],
        clock: Clock,
    ) -> None:
        self._decoding, self._line, self._ticket = decoding, line, ticket
        self._lease_s, self._ended, self._clock = lease_s, ended, clock
        self._changed = threading.Condition()
        self._asked = False
        self._steps: list[StepTrace] = []  # made and not yet taken
        self._count = 0
        self._over = self._stopped = False
        self._fault: str | None = None
        self._seen = clock()

    def start(self) -> None:
        """Starts the thread, in this call's context: on a Space that names the visitor whose quota counts."""
        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(self._work,), name="decode", daemon=True).start()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def waiting(self) -> Iterator[str]:
        """Sentences about its place until the model is its own."""
        while not self._over and self._ticket.place() > 0:
            self._see()
            yield self._line.words(self._ticket)
            self._ticket.wait(TELL_EVERY_S)
        self._see()

    def __iter__(self) -> Iterator[StepTrace]:
        """Steps as they are made. Raises RunFailedError, or StoppedError if it ended without one."""
        try:
            while (step := self._next()) is not None:
                yield step
        finally:
            self.stop()
        if self._fault:
            raise RunFailedError(self._fault)
        if not self._count:
            raise StoppedError("The run was stopped before its turn came.")

    def trace(self) -> RunTrace:
        return self._decoding.trace()

    def _next(self) -> StepTrace | None:
        with self._changed:
            self._seen = self._clock()
            self._asked = True
            self._changed.notify_all()
            while not self._steps and not self._over:
                self._changed.wait(self._lease_s / 4)
                self._seen = self._clock()
            return self._steps.pop(0) if self._steps else None

    def _see(self) -> None:
        with self._changed:
            self._seen = self._clock()

    def _given_up(self) -> bool:
        return self._stopped or self._clock() - self._seen > self._lease_s

    def _work(self) -> None:
        """The thread: waits for the model, makes a step each time one is asked for, gives the model back."""
        run: RunTrace | None = None
        try:
            if self._has_model():
                self._make_steps()
                run = self._decoding.trace() if self._count and not self._stopped else None
        except BaseException as error:
            self._fault = faults.sentence(error)
            faults.give_memory_back(error)
        finally:
            self._ticket.leave()
            self._ended(self, run)
            with self._changed:
                self._over = True
                self._changed.notify_all()

    def _has_model(self) -> bool:
        while not self._ticket.wait(0.25):
            if self._given_up() or self._ticket.place() < 0:
                return False
        return not self._given_up()

    def _make_steps(self) -> None:
        steps = iter(self._decoding)
        try:
            while self._is_asked():
                step = next(steps, None)
                if step is None:
                    return
                with self._changed:
                    self._count += 1
                    self._steps.append(step)
                    self._changed.notify_all()
        finally:
            close = getattr(steps, "close", None)
            if close is not None:
                close()

    def _is_asked(self) -> bool:
        """Waits until the next step is wanted; False once nobody wants one any more."""
        with self._changed:
            while not self._asked:
                if self._given_up():
                    self._stopped = True
                    return False
                self._changed.wait(self._lease_s / 4)
            self._asked = False
            return not self._stopped
