"""The one pair of this server: loaded in the background, exchanged for another when nothing runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from app import faults, pair_choice
from app.pair_choice import PairChoice, Say
from eagle.settings import Method, Settings

if TYPE_CHECKING:
    from eagle.decoder import Pair
    from eagle.trace import PairInfo

WARM_UP = "Hello"
TELL_EVERY_S = 0.3


class State(StrEnum):
    """Where the pair is."""

    ABSENT = "not loaded"
    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"


@dataclass(frozen=True)
class PairStatus:
    """The pair's state in words; ``fraction`` of the current part, where it is known.

    ``info`` and ``methods`` are of the pair that is there, also while another is on its way.
    """

    state: State
    words: str
    fraction: float | None = None
    info: PairInfo | None = None
    methods: tuple[Method, ...] = ()


class NoPairError(RuntimeError):
    """The pair could not be loaded or exchanged; the message is one sentence."""


class PairHolder:
    """Owns the pair. ``busy`` is held by whoever works with it; ``load`` makes the first one."""

    def __init__(self, load: Callable[[Say], Pair] | None = None) -> None:
        self.busy = threading.Lock()
        self._load_first = load or pair_choice.first().load
        self._load: Callable[[Say], Pair] = self._load_first  # how the pair that is there was made
        self._status = PairStatus(State.ABSENT, "The model is not loaded yet.")
        self._pair: Pair | None = None
        self._thread: threading.Thread | None = None
        self._guard = threading.Lock()  # of the fields here
        self._exchanging = threading.Lock()

    def status(self) -> PairStatus:
        """The state, with the facts of the pair that is there."""
        pair = self._pair
        if pair is None:
            return self._status
        from eagle.methods import possible

        return replace(self._status, info=pair.info, methods=tuple(possible(pair)))

    def start_loading(self) -> None:
        """Loads in the background; a second call waits for nothing and changes nothing."""
        with self._guard:
            begun = self._thread is not None and (self._thread.is_alive() or self._pair is not None)
            if begun or self._exchanging.locked():
                return
            self._status = PairStatus(State.LOADING, "Loading the model…")
            self._thread = threading.Thread(target=self._first, name="load-pair", daemon=True)
            self._thread.start()

    def pair(self) -> Pair:
        """The pair, loaded now if need be. Raises NoPairError with one sentence if that failed."""
        if self._pair is None:
            with self._exchanging:  # an exchange that freed the old one first is about to bring another
                pass
            self.start_loading()
            if self._thread is not None:
                self._thread.join()
        pair = self._pair
        if pair is None:
            raise NoPairError(self._status.words)
        return pair

    def held(self) -> Pair:
        """The pair, for whoever holds ``busy``. Raises NoPairError where an exchange left none."""
        if self._pair is None:
            raise NoPairError(self._status.words)
        return self._pair

    def current(self) -> Pair | None:
        """The pair, if one is there."""
        return self._pair

    def exchange(self, choice: PairChoice) -> Iterator[PairStatus]:
        """Loads another pair in the place of this one, with its progress.

        It waits for the run in progress. The old pair stays until the new one is ready where memory holds
        both; where it does not, the old one is freed first and loaded again if the new one fails. Either
        way the page keeps a pair. Raises NoPairError with one sentence if this one could not be loaded.
        """
        if not self._exchanging.acquire(blocking=False):
            raise NoPairError("The pair is being exchanged right now; try again when that is done.")
        failed: list[str] = []
        worker = threading.Thread(target=self._exchange, args=(choice, failed), name="exchange-pair")
        worker.daemon = True
        worker.start()
        while worker.is_alive():
            worker.join(TELL_EVERY_S)
            yield self.status()
        if failed:
            raise NoPairError(failed[0])

    def _first(self) -> None:
        try:
            self._ready(self._made(self._load_first), self._load_first)
        except Exception as error:  # shown to the visitor in one sentence; the page goes on without a model
            self._status = PairStatus(State.FAILED, _one_sentence(error))

    def _exchange(self, choice: PairChoice, failed: list[str]) -> None:
        try:
            self._status = PairStatus(State.LOADING, "Waiting for the run in progress to end…")
            if self._thread is not None:
                self._thread.join()  # the first pair is still on its way
            with self.busy:
                self._replace(choice.load)
        except Exception as error:
            failed.append(_one_sentence(error))
            self._status = self._as_before()
        finally:
            self._exchanging.release()

    def _replace(self, load: Callable[[Say], Pair]) -> None:
        from eagle.memory import TooLargeError

        try:
            self._ready(self._made(load), load)
            return
        except TooLargeError:
            if self._pair is None:
                raise
        self._pair = None  # both do not fit; this one may, without the other
        _give_memory_back()
        try:
            self._ready(self._made(load), load)
        except Exception:
            _give_memory_back()
            self._ready(self._made(self._load), self._load)
            raise

    def _made(self, load: Callable[[Say], Pair]) -> Pair:
        def say(sentence: str, fraction: float | None) -> None:
            words = sentence[:1].upper() + sentence[1:]
            self._status = PairStatus(State.LOADING, f"{words}…", fraction)

        try:
            pair = load(say)
            say("warming up", None)
            _warm_up(pair)
        except Exception as error:
            faults.LOG.error("the pair could not be loaded", exc_info=error)
            raise
        return pair

    def _ready(self, pair: Pair, load: Callable[[Say], Pair]) -> None:
        self._pair, self._load = pair, load
        _give_memory_back()
        self._status = PairStatus(State.READY, f"{pair.info.target.name} is ready.")

    def _as_before(self) -> PairStatus:
        pair = self._pair
        if pair is None:
            return PairStatus(State.FAILED, "No model is loaded. Recorded runs still work.")
        return PairStatus(State.READY, f"{pair.info.target.name} is ready.")


def _give_memory_back() -> None:
    """What the pair before held, now that nothing refers to it."""
    from eagle.memory import give_back

    give_back()


def _warm_up(pair: Pair) -> None:
    """A few steps that nobody sees, so that the first visitor's clock doesn't pay for first calls."""
    from eagle.decoder import decode
    from eagle.methods import possible
    from eagle.text import encode

    settings = Settings(method=possible(pair)[-1], max_new_tokens=8)
    for _ in decode(pair, encode(pair.tokenizer, WARM_UP), settings):
        pass


def _one_sentence(error: Exception) -> str:
    """Why the pair could not be loaded, without a traceback or a path."""
    if faults.is_ours(error) and str(error).strip():
        return faults.public(str(error))
    return f"The model could not be loaded ({type(error).__name__}). Recorded runs still work."
