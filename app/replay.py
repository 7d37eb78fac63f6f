"""A runner without a model: recorded runs, step by step, as if they were decoded now."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from app.jobs import NO_MODEL, NoModelError
from app.pair_holder import PairStatus, State
from app.runner import Decoding
from eagle.settings import Method, Settings
from eagle.trace import Finish, RunTrace, StepTrace

if TYPE_CHECKING:
    from app.jobs import Job
    from app.pair_choice import PairChoice


class ReplayRunner:
    """Stands in for a live runner: every prompt is answered with the same recorded run."""

    def __init__(
        self, run: RunTrace, vanilla: RunTrace | None = None, pause: Callable[[], None] | None = None
    ) -> None:
        self._runs = {Method.VANILLA: vanilla or run}
        self._run = run
        self._pause = pause
        self._stops: dict[str, threading.Event] = {}

    def status(self) -> PairStatus:
        return PairStatus(State.READY, f"{self._run.pair.target.name} is ready.")

    def start_loading(self) -> None:
        return

    def begin(self, prompt: str, settings: Settings, visitor: str) -> Decoding:
        from eagle.text import check_text

        check_text(prompt)
        run = self._runs.get(settings.method, self._run)
        flag = self._stops[visitor] = threading.Event()
        prompted = run.model_copy(
            update={
                "prompt": run.prompt.model_copy(update={"text": prompt}),
                "settings": settings.model_copy(update={"seed": settings.seed or run.seed}),
            }
        )
        return _Replay(prompted, flag, self._pause)

    def work(self, job: Job, visitor: str) -> Decoding:
        raise NoModelError(NO_MODEL)

    def exchange(self, choice: PairChoice) -> Iterator[PairStatus]:
        raise NoModelError(NO_MODEL)

    def stop(self, visitor: str) -> None:
        if visitor in self._stops:
            self._stops[visitor].set()


class _Replay:
    note = ""

    def __init__(self, run: RunTrace, stop: threading.Event, pause: Callable[[], None] | None) -> None:
        self._run, self._stop, self._pause = run, stop, pause
        self._count = 0

    def waiting(self) -> Iterator[str]:
        return iter(())

    def __iter__(self) -> Iterator[StepTrace]:
        for step in self._run.steps:
            self._count += 1
            yield step
            if self._pause is not None:
                self._pause()
            if self._stop.is_set():
                return

    def trace(self) -> RunTrace:
        return first_steps(self._run, self._count)


def first_steps(run: RunTrace, count: int) -> RunTrace:
    """The run as it stood after ``count`` steps."""
    steps = run.steps[:count]
    return run.model_copy(
        update={
            "steps": steps,
            "finish": run.finish if count >= len(run.steps) else Finish.STOPPED,
            "text": "".join(piece for step in steps for piece in step.emitted.text),
            "new_tokens": sum(len(step.emitted) for step in steps),
            "target_passes": sum(step.index > 0 for step in steps),
        }
    )
