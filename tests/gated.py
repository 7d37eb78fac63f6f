"""A runner whose steps a test lets through one by one, and the crowd that stands before it."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from app.crowd import CrowdRunner
from app.limits import Limits
from app.replay import ReplayRunner
from eagle.settings import Settings
from eagle.trace import RunTrace, StepTrace
from tests.synthetic import synthetic_run

RUN = synthetic_run(seed=3, steps=6)
PLAIN = synthetic_run(seed=4, steps=9, tree="1/1/1")
SEEDED = Settings(seed=7)
PATIENCE = 10.0  # seconds after which a test gives up on a thread


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class GatedRunner(ReplayRunner):
    """Replays, but a step is made only when the test lets it; counts the runs and steps it really made."""

    def __init__(self, run: RunTrace = RUN) -> None:
        super().__init__(run, PLAIN)
        self.gate = threading.Semaphore(0)
        self.made = threading.Semaphore(0)
        self.begun: list[tuple[str, Settings, str]] = []
        self.open = 0
        self.contexts: list[str] = []

    def begin(self, prompt: str, settings: Settings, visitor: str) -> Any:
        self.begun.append((prompt, settings, visitor))
        return _Gated(super().begin(prompt, settings, visitor), self)

    def let(self, steps: int = 10_000) -> None:
        self.gate.release(steps)


class _Gated:
    note = ""

    def __init__(self, inner: Any, owner: GatedRunner) -> None:
        self.inner, self.owner = inner, owner

    def waiting(self) -> Iterator[str]:
        return iter(())

    def __iter__(self) -> Iterator[StepTrace]:
        self.owner.contexts.append(VISITOR.get())
        self.owner.open += 1
        assert self.owner.open == 1, "two runs have the model"
        try:
            for step in self.inner:
                assert self.owner.gate.acquire(timeout=PATIENCE)
                self.owner.made.release()
                yield step
        finally:
            self.owner.open -= 1

    def trace(self) -> RunTrace:
        return self.inner.trace()


VISITOR = contextvars.ContextVar("VISITOR", default="nobody")


def crowd(runner: Any = None, clock: Any = None, **limits: int) -> CrowdRunner:
    return CrowdRunner(runner or GatedRunner(), replace(Limits(), **limits), clock or Clock())


def until(condition: Any) -> None:
    """Waits for something that another thread is about to do."""
    pause = threading.Event()
    for _ in range(int(PATIENCE / 0.01)):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError("it did not happen")
