"""How much one visitor and all visitors together may ask for, and what is remembered of their runs.

Everything here is small, has a bound, and takes its clock from outside. A limit is per browser
session, never per address: a class shares one address.
"""

from __future__ import annotations

import os
import threading
import time
import zlib
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields

from eagle.settings import Settings
from eagle.trace import Finish, RunTrace

Clock = Callable[[], float]
PREFIX = "EAGLE_"
INSTEAD = "open a recorded run or the rule lab, which never wait"


class LimitError(ValueError):
    """Too much was asked for; the message says what is the limit and what to do instead."""


class StoppedError(Exception):
    """A run was stopped before its first step."""


@dataclass(frozen=True)
class Limits:
    """What the operator allows; each field can be set by the variable EAGLE_<NAME>."""

    most_waiting: int = 16
    runs_per_minute: int = 20
    most_new_tokens: int = 512
    remembered_mb: int = 32
    lease_s: int = 10  # a run that nobody has asked a step of for so long is given up

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Limits:
        """The defaults, changed by the environment. Raises LimitError for a value that is no whole number."""
        given = {}
        for field in fields(cls):
            text = environment.get(PREFIX + field.name.upper(), "").strip()
            if not text:
                continue
            if not (text.isascii() and text.isdigit() and 0 < int(text) < 10**6):
                raise LimitError(
                    f"{PREFIX}{field.name.upper()} must be a whole number above 0, but is {text!r:.40}."
                )
            given[field.name] = int(text)
        return cls(**given)

    def check(self, settings: Settings) -> None:
        """Raises LimitError for a run longer than this server makes for visitors."""
        if settings.max_new_tokens > self.most_new_tokens:
            raise LimitError(
                f"max_new_tokens may be at most {self.most_new_tokens} on this server, "
                f"but is {settings.max_new_tokens}."
            )


class RateLimit:
    """So many runs a minute and browser session; the oldest sessions are forgotten."""

    def __init__(self, per_minute: int, clock: Clock = time.monotonic, most_sessions: int = 4096) -> None:
        self._per_minute, self._clock, self._most = per_minute, clock, most_sessions
        self._starts: OrderedDict[str, deque[float]] = OrderedDict()
        self._guard = threading.Lock()

    def count(self, session: str) -> None:
        """Counts one run. Raises LimitError where the session has had its share of this minute."""
        now = self._clock()
        with self._guard:
            starts = self._starts.setdefault(session, deque())
            self._starts.move_to_end(session)
            while len(self._starts) > self._most:
                self._starts.popitem(last=False)
            while starts and now - starts[0] >= 60:
                starts.popleft()
            if len(starts) < self._per_minute:
                starts.append(now)
                return
            wait = max(1, round(60 - (now - starts[0])))
        raise LimitError(
            f"This browser started {self._per_minute} runs within a minute, the most on this server: "
            f"wait {wait} s, or {INSTEAD}."
        )


class ResultCache:
    """Finished runs by what was asked, compressed, the least recently used dropped beyond ``most_bytes``."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._runs: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0
        self._guard = threading.Lock()

    def key(self, pair: str, prompt: str, settings: Settings) -> str | None:
        """What a run is remembered by; None where a fresh seed makes every run another one."""
        if settings.seed is None:
            return None
        return "\0".join((pair, settings.model_dump_json(), prompt))

    def get(self, key: str | None) -> RunTrace | None:
        """The remembered run."""
        with self._guard:
            packed = self._runs.get(key) if key is not None else None
            if packed is None or key is None:
                return None
            self._runs.move_to_end(key)
        return RunTrace.from_json(zlib.decompress(packed))

    def put(self, key: str | None, run: RunTrace) -> None:
        """Remembers a run that came to its own end."""
        if key is None or run.finish is Finish.STOPPED:
            return
        packed = zlib.compress(run.to_json().encode(), 1)
        with self._guard:
            self._bytes += len(packed) - len(self._runs.pop(key, b""))
            self._runs[key] = packed
            while self._bytes > self._most_bytes:
                self._bytes -= len(self._runs.popitem(last=False)[1])

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def bytes(self) -> int:
        return self._bytes
