"""Work on the pair that is more than one run: a race, a proof, a measurement.

A job is a generator over the pair. It yields items for the page and is asked to stop between them,
so it holds the model exactly as a run does, and waits for it in the same line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from app import faults
from app.limits import StoppedError

if TYPE_CHECKING:
    from app.pair_holder import PairHolder
    from app.runner import RunSource
    from eagle.decoder import Pair


class Stop(Protocol):
    """Asks whether the visitor wants no more."""

    def is_set(self) -> bool: ...


if TYPE_CHECKING:
    Job = Callable[[Pair, Stop], Iterator[Any]]

NO_MODEL = "This needs the live model, and this page only shows recorded runs."


class NoModelError(RuntimeError):
    """The page has no pair to work with; the message is one plain sentence."""


@dataclass(frozen=True)
class Said:
    """A sentence for the line under the button; ``fraction`` done where it is known."""

    words: str
    fraction: float | None = None
    fault: bool = False


class Work:
    """A job that is being done: iterate it for items; what a runner gives for it is like a run."""

    note = ""

    def __init__(self, holder: PairHolder, job: Job, stop: Stop) -> None:
        self._holder, self._job, self._stop = holder, job, stop

    def waiting(self) -> Iterator[str]:
        """Nothing but the lock to wait for."""
        return iter(())

    def __iter__(self) -> Iterator[Any]:
        with self._holder.busy:
            for item in self._job(self._holder.held(), self._stop):
                yield item
                if self._stop.is_set():
                    return

    def trace(self) -> Any:
        """A job leaves no run to remember."""
        return None


def carry_out(runner: RunSource, job: Job, visitor: str) -> Iterator[Any]:
    """A job's items, with sentences (:class:`Said`) while it waits; faults end it with one sentence."""
    try:
        yield Said(runner.status().words)
        work = runner.work(job, visitor)
        for words in work.waiting():
            yield Said(words)
        yield from work
    except StoppedError as stopped:
        yield Said(str(stopped))
    except Exception as error:
        yield Said(faults.sentence(error), fault=True)
