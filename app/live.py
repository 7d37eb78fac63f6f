"""What happens between Run and the end of a run: events for the page, one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from app.faults import sentence
from app.limits import StoppedError
from app.runner import Decoding, RunSource, vanilla_of
from app.session import Source, Visit
from eagle.settings import Method, Settings
from eagle.trace import Finish

# The page is renewed at most this often while a run decodes: it costs a browser about 150 ms of a core, and
# four times a second halved the speed of the run that was shown, on two cores.
REFRESH_S = 1.0


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
    shown: Visit | None = None
    try:
        yield Event(None, runner.status().words)
        decoding = runner.begin(prompt, settings, visitor)
        for words in decoding.waiting():
            yield Event(None, words)
        for visit in _while_running(decoding, clock):
            shown = visit
            yield Event(visit, decoding.note or "Decoding…")
        visit = shown = Visit(decoding.trace(), Source.LIVE)
        done = f"Done. {decoding.note}".strip()
        stopped = visit.run.finish is Finish.STOPPED
        if not compare or stopped or settings.method is Method.VANILLA or visit.run.target_passes == 0:
            yield Event(visit, done, over=True)
            return
        # still running as far as pictures are concerned: drawing would slow what is timed now
        yield Event(replace(visit, running=True), "Timing plain decoding of the same prompt…")
        baseline = runner.begin(prompt, vanilla_of(settings, visit.run), visitor)
        for words in baseline.waiting():
            yield Event(None, words)
        for _ in baseline:
            pass
        yield Event(Visit(visit.run, Source.LIVE, baseline=baseline.trace()), done, over=True)
    except StoppedError as early:
        yield Event(_ended(shown), str(early), over=True)
    except Exception as error:
        yield Event(_ended(shown), sentence(error), over=True, fault=True)


def _ended(shown: Visit | None) -> Visit | None:
    """What was decoded before the end came, to be drawn now; None if nothing was."""
    return replace(shown, running=False) if shown else None


def _while_running(decoding: Decoding, clock: Callable[[], float]) -> Iterator[Visit]:
    last = float("-inf")
    for _ in decoding:
        now = clock()
        if now - last >= REFRESH_S:
            last = now
            yield Visit(decoding.trace(), Source.LIVE, running=True)
