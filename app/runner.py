"""Live and recorded runs through one door: an iterator of StepTrace, and the RunTrace so far.

Owns the one pair (loaded in the background, once), the lock that lets one run decode at a time, and
the flags that stop a run. Importing it loads no torch; the first load does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from app import faults, space
from app.jobs import NO_MODEL, NoModelError, Work
from eagle.settings import Method, Settings
from eagle.trace import Finish, PromptTrace, RunTrace, StepTrace

if TYPE_CHECKING:
    from app.jobs import Job
    from eagle.decoder import Pair

    Loader = Callable[[Callable[[str, float | None], None]], Pair]

WARM_UP = "Hello"


class State(StrEnum):
    """Where the pair is."""

    ABSENT = "not loaded"
    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"


@dataclass(frozen=True)
class PairStatus:
    """The pair's state in words; ``fraction`` of the current part, where it is known."""

    state: State
    words: str
    fraction: float | None = None


class NoPairError(RuntimeError):
    """The pair could not be loaded; the message is the sentence that its status shows."""


class Decoding(Protocol):
    """A run that is being made: iterate it for steps, ask it for the record so far.

    ``note`` is a sentence about where the run comes from, blank for one that is decoded now.
    """

    note: str

    def waiting(self) -> Iterator[str]:
        """Sentences about its place in the line until its turn comes."""
        ...

    def __iter__(self) -> Iterator[StepTrace]: ...

    def trace(self) -> RunTrace:
        """The record of the steps so far; needs at least one."""
        ...


class RunSource(Protocol):
    """What the page needs of a runner."""

    def status(self) -> PairStatus: ...

    def start_loading(self) -> None: ...

    def begin(self, prompt: str, settings: Settings, visitor: str) -> Decoding: ...

    def work(self, job: Job, visitor: str) -> Decoding: ...

    def stop(self, visitor: str) -> None: ...


class Runner:
    """Decodes live. ``load`` makes the pair (default: the built-in one)."""

    def __init__(self, load: Loader | None = None) -> None:
        self._load = load or _load_builtin
        self._status = PairStatus(State.ABSENT, "The model is not loaded yet.")
        self._pair: Pair | None = None
        self._thread: threading.Thread | None = None
        self._guard = threading.Lock()  # of the fields here
        self._decoding = threading.Lock()  # of the model
        self._stops: dict[str, threading.Event] = {}

    def status(self) -> PairStatus:
        return self._status

    def start_loading(self) -> None:
        """Loads in the background; a second call waits for nothing and changes nothing."""
        with self._guard:
            if self._thread is not None and (self._thread.is_alive() or self._pair is not None):
                return
            self._status = PairStatus(State.LOADING, "Loading the model…")
            self._thread = threading.Thread(target=self._load_pair, name="load-pair", daemon=True)
            self._thread.start()

    def _load_pair(self) -> None:
        def say(sentence: str, fraction: float | None) -> None:
            words = sentence[:1].upper() + sentence[1:]
            self._status = PairStatus(State.LOADING, f"{words}…", fraction)

        try:
            pair = self._load(say)
            say("warming up", None)
            _warm_up(pair)
        except Exception as error:  # shown to the visitor in one sentence; the page goes on without a model
            faults.LOG.error("the pair could not be loaded", exc_info=error)
            self._status = PairStatus(State.FAILED, _one_sentence(error))
            return
        self._pair = pair
        self._status = PairStatus(State.READY, f"{pair.info.target.name} is ready.")

    def pair(self) -> Pair:
        """The pair, loaded now if need be. Raises RuntimeError with one sentence if that failed."""
        self.start_loading()
        thread = self._thread
        if thread is not None:
            thread.join()
        if self._pair is None:
            raise NoPairError(self._status.words)
        return self._pair

    def begin(self, prompt: str, settings: Settings, visitor: str) -> Decoding:
        """A run to iterate. Raises PromptError or SettingsError, each with one plain sentence."""
        from eagle.decoder import with_seed
        from eagle.text import check_text, encode

        check_text(prompt)
        pair = self.pair()
        flag = threading.Event()
        with self._guard:
            self._stops[visitor] = flag
        return _LiveRun(pair, encode(pair.tokenizer, prompt), with_seed(settings), flag, self._decoding)

    def work(self, job: Job, visitor: str) -> Decoding:
        """Other work on the pair than one run, item by item; it holds the model as a run does."""
        pair = self.pair()
        flag = threading.Event()
        with self._guard:
            self._stops[visitor] = flag
        return Work(pair, job, flag, self._decoding)

    def identity(self) -> str:
        """What tells this pair's runs from another's; blank while none is loaded."""
        return "" if self._pair is None else self._pair.info.model_dump_json(exclude={"costs"})

    def stop(self, visitor: str) -> None:
        """The visitor's run ends after the step it is in."""
        with self._guard:
            flag = self._stops.pop(visitor, None)
        if flag is not None:
            flag.set()


class _LiveRun:
    """One live run; holds the model only while it is iterated."""

    note = ""

    def __init__(
        self, pair: Pair, prompt: PromptTrace, settings: Settings, stop: threading.Event, lock: threading.Lock
    ):
        self._pair, self._prompt, self._settings = pair, prompt, settings
        self._stop, self._lock = stop, lock
        self._info = pair.info
        self._steps: list[StepTrace] = []

    def waiting(self) -> Iterator[str]:
        return iter(())

    def __iter__(self) -> Iterator[StepTrace]:
        from eagle.trace import PairInfo

        with self._lock:
            for made in space.decode(self._pair, self._prompt, self._settings):
                if isinstance(made, PairInfo):  # another process decodes, with a pair of its own
                    self._info = made
                    continue
                self._steps.append(made)
                yield made
                if self._stop.is_set():
                    return

    def trace(self) -> RunTrace:
        from eagle.recording import run

        finish = self._steps[-1].finish or Finish.STOPPED
        return run(self._info, self._prompt, self._settings, list(self._steps), finish)


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


def vanilla_of(settings: Settings, run: RunTrace) -> Settings:
    """Plain decoding of the same prompt, with the same seed and as many tokens as the run has."""
    return settings.model_copy(
        update={"method": Method.VANILLA, "seed": run.seed, "max_new_tokens": max(2, run.new_tokens)}
    )


def _load_builtin(say: Callable[[str, float | None], None]) -> Pair:
    import eagle
    from eagle.threads import set_threads

    set_threads()
    return eagle.load(progress=say, device=space.loading_device())


def _warm_up(pair: Pair) -> None:
    """A few steps that nobody sees, so that the first visitor's clock doesn't pay for first calls."""
    from eagle.decoder import decode
    from eagle.text import encode

    settings = Settings(max_new_tokens=8)
    if pair.head is None:
        settings = settings.model_copy(update={"method": Method.VANILLA})
    for _ in decode(pair, encode(pair.tokenizer, WARM_UP), settings):
        pass


def _one_sentence(error: Exception) -> str:
    """Why the pair could not be loaded, without a traceback or a path."""
    if faults.is_ours(error) and str(error).strip():
        return faults.public(str(error))
    return f"The model could not be loaded ({type(error).__name__}). Recorded runs still work."


__all__ = [
    "Decoding",
    "NoPairError",
    "PairStatus",
    "ReplayRunner",
    "RunSource",
    "Runner",
    "State",
    "first_steps",
    "vanilla_of",
]
