"""Live runs as an iterator of StepTrace, and the RunTrace so far; what the page needs of any runner.

The pair is :mod:`app.pair_holder`'s; here are the runs, one at a time, and the flags that stop them.
Importing it loads no torch; the first load does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

from app import space
from app.jobs import Work
from app.pair_holder import PairHolder, PairStatus
from eagle.settings import Method, Settings
from eagle.trace import Finish, PairInfo, PromptTrace, RunTrace, StepTrace

if TYPE_CHECKING:
    from app.jobs import Job
    from app.pair_choice import PairChoice, Say
    from eagle.decoder import Pair


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

    def exchange(self, choice: PairChoice) -> Iterator[PairStatus]: ...


class Runner:
    """Decodes live with one pair (``load`` makes it; default: this server's own), one run at a time."""

    def __init__(self, load: Callable[[Say], Pair] | None = None) -> None:
        self.holder = PairHolder(load)
        self._guard = threading.Lock()  # of the flags
        self._stops: dict[str, threading.Event] = {}

    def status(self) -> PairStatus:
        return self.holder.status()

    def start_loading(self) -> None:
        self.holder.start_loading()

    def pair(self) -> Pair:
        """The pair, loaded now if need be. Raises NoPairError with one sentence if that failed."""
        return self.holder.pair()

    def begin(self, prompt: str, settings: Settings, visitor: str) -> Decoding:
        """A run to iterate. Raises PromptError or SettingsError, each with one plain sentence."""
        from eagle.decoder import with_seed
        from eagle.text import check_text

        check_text(prompt)
        self.holder.pair()
        return _LiveRun(self.holder, prompt, with_seed(settings), self._flag(visitor))

    def work(self, job: Job, visitor: str) -> Decoding:
        """Other work on the pair than one run, item by item; it holds the model as a run does."""
        self.holder.pair()
        return Work(self.holder, job, self._flag(visitor))

    def identity(self) -> str:
        """What tells this pair's runs from another's; blank while none is loaded."""
        pair = self.holder.current()
        return "" if pair is None else pair.info.model_dump_json(exclude={"costs"})

    def exchange(self, choice: PairChoice) -> Iterator[PairStatus]:
        """Another pair in the place of this one, with its progress. Raises NoPairError."""
        return self.holder.exchange(choice)

    def stop(self, visitor: str) -> None:
        """The visitor's run ends after the step it is in."""
        with self._guard:
            flag = self._stops.pop(visitor, None)
        if flag is not None:
            flag.set()

    def _flag(self, visitor: str) -> threading.Event:
        flag = threading.Event()
        with self._guard:
            self._stops[visitor] = flag
        return flag


class _LiveRun:
    """One live run; holds the model only while it is iterated, and takes the pair that is there then."""

    note = ""

    def __init__(self, holder: PairHolder, prompt: str, settings: Settings, stop: threading.Event) -> None:
        self._holder, self._text, self._settings, self._stop = holder, prompt, settings, stop
        self._prompt: PromptTrace | None = None
        self._info: PairInfo | None = None
        self._steps: list[StepTrace] = []

    def waiting(self) -> Iterator[str]:
        return iter(())

    def __iter__(self) -> Iterator[StepTrace]:
        from eagle.text import encode

        with self._holder.busy:
            pair = self._holder.held()
            self._prompt, self._info = encode(pair.tokenizer, self._text), pair.info
            for made in space.decode(pair, self._prompt, self._settings):
                if isinstance(made, PairInfo):  # another process decodes, with a pair of its own
                    self._info = made
                    continue
                self._steps.append(made)
                yield made
                if self._stop.is_set():
                    return

    def trace(self) -> RunTrace:
        from eagle.recording import run

        assert self._info is not None and self._prompt is not None, "a run that has begun"
        finish = self._steps[-1].finish or Finish.STOPPED
        return run(self._info, self._prompt, self._settings, list(self._steps), finish)


def vanilla_of(settings: Settings, run: RunTrace) -> Settings:
    """Plain decoding of the same prompt, with the same seed and as many tokens as the run has."""
    return settings.model_copy(
        update={"method": Method.VANILLA, "seed": run.seed, "max_new_tokens": max(2, run.new_tokens)}
    )
