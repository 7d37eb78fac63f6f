"""What happens between Run and the end of a run: events for the page, one after the other."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from app.runner import Decoding, RunSource, vanilla_of
from app.session import Source, Visit
from eagle.settings import Method, Settings

# Pictures are renewed at most this often while a run decodes: drawing must not slow the decoder.
REFRESH_S = 0.25
LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Event:
    """What changed: the visit (None: nothing yet), a note to show, whether the run is over."""

    visit: Visit | None
    note: str
    over: bool = False
    fault: bool = False


def run_events(
    runner: RunSource,
    prompt: str,
    settings: Settings,
    visitor: str,
    compare: bool,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Event]:
    """Runs the prompt, then plain decoding of the same prompt; faults end it with one sentence."""
    try:
        yield Event(None, runner.status().words)
        decoding = runner.begin(prompt, settings, visitor)
        for visit in _while_running(decoding, clock):
            yield Event(visit, "Decoding…")
        visit = Visit(decoding.trace(), Source.LIVE)
        if not compare or settings.method is Method.VANILLA or visit.run.target_passes == 0:
            yield Event(visit, "Done.", over=True)
            return
        yield Event(visit, "Timing plain decoding of the same prompt…")
        baseline = runner.begin(prompt, vanilla_of(settings, visit.run), visitor)
        for _ in baseline:
            pass
        yield Event(Visit(visit.run, Source.LIVE, baseline=baseline.trace()), "Done.", over=True)
    except Exception as error:
        yield Event(None, sentence(error), over=True, fault=True)


def _while_running(decoding: Decoding, clock: Callable[[], float]) -> Iterator[Visit]:
    last = float("-inf")
    for _ in decoding:
        now = clock()
        if now - last >= REFRESH_S:
            last = now
            yield Visit(decoding.trace(), Source.LIVE, running=True)


def sentence(error: Exception) -> str:
    """An error in one plain sentence; what nobody foresaw goes to the log, not to the visitor."""
    foreseen = type(error).__module__.startswith("eagle.") or isinstance(error, RuntimeError | ValueError)
    text = str(error).strip()
    if foreseen and text and type(error).__module__.startswith(("eagle.", "app.", "builtins")):
        return text.splitlines()[0][:400]
    LOG.exception("a run failed", exc_info=error)
    return "The run failed for a reason this page did not foresee; the server's log has the details."
