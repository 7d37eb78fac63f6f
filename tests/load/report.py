"""What the visitors met, as numbers and as a verdict."""

from __future__ import annotations

import statistics
import threading
from dataclasses import dataclass, field
from typing import Any

PROMISED_P95_S = 0.5
MOST_GROWTH = 0.25  # of the memory, from the end of the first quarter of the time to the end of the last


@dataclass
class Outcome:
    """Answers by kind in seconds, errors, refusals, and the server's memory over time."""

    visitors: int
    seconds: float
    pair: str
    took_s: dict[str, list[float]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    full: int = 0
    remembered: int = 0
    mixed: int = 0
    compared: int = 0
    memory_mb: list[float] = field(default_factory=list)
    guard: threading.Lock = field(default_factory=threading.Lock)

    def took(self, kind: str, seconds: float) -> None:
        with self.guard:
            self.took_s.setdefault(kind, []).append(seconds)

    def error(self, words: str) -> None:
        with self.guard:
            self.errors.append(words[:300])

    def numbers(self) -> dict[str, Any]:
        """Everything, for a file."""
        kinds = {
            kind: {
                "answers": len(times),
                "p50_s": round(statistics.median(times), 3),
                "p95_s": round(p95(times), 3),
                "max_s": round(max(times), 3),
            }
            for kind, times in sorted(self.took_s.items())
        }
        early, late = self.memory()
        return {
            "visitors": self.visitors,
            "seconds": self.seconds,
            "pair": self.pair,
            "kinds": kinds,
            "errors": len(self.errors),
            "first_errors": self.errors[:5],
            "told_that_the_line_is_full": self.full,
            "answered_from_memory": self.remembered,
            "compared_with_solo_runs": self.compared,
            "mixed_up": self.mixed,
            "memory_mb": [round(early), round(late), round(max(self.memory_mb, default=0))],
        }

    def memory(self) -> tuple[float, float]:
        """Medians of the second and of the last quarter of the time, in MB."""
        quarter = max(1, len(self.memory_mb) // 4)
        second, last = self.memory_mb[quarter : 2 * quarter] or self.memory_mb, self.memory_mb[-quarter:]
        return statistics.median(second or [0]), statistics.median(last or [0])


def p95(times: list[float]) -> float:
    return sorted(times)[min(len(times) - 1, int(0.95 * len(times)))]


def report(outcome: Outcome) -> str:
    """A table for people."""
    found = outcome.numbers()
    lines = [
        f"{outcome.visitors} visitors, {outcome.seconds:g} s, {outcome.pair} pair",
        f"{'':<28}{'answers':>8}{'p50':>9}{'p95':>9}{'max':>9}",
    ]
    for kind, row in found["kinds"].items():
        times = "".join(f"{1000 * row[name]:>6.0f} ms" for name in ("p50_s", "p95_s", "max_s"))
        lines.append(f"{kind:<28}{row['answers']:>8}{times}")
    early, late, most = found["memory_mb"]
    lines += [
        f"errors {found['errors']}, told that the line is full {found['told_that_the_line_is_full']}, "
        f"answered from memory {found['answered_from_memory']}",
        f"{found['compared_with_solo_runs']} live answers compared with their solo runs, "
        f"{found['mixed_up']} differed",
        f"memory: {early} MB in the second quarter, {late} MB in the last, at most {most} MB",
    ]
    return "\n".join([*lines, *(f"  {words}" for words in found["first_errors"])])


def failures(outcome: Outcome) -> list[str]:
    """What was promised and not kept."""
    wrong = []
    if outcome.errors:
        wrong.append(f"{len(outcome.errors)} errors")
    if outcome.mixed:
        wrong.append(f"{outcome.mixed} answers differ from their solo runs")
    if not outcome.compared:
        wrong.append("no live run was answered")
    for kind, times in outcome.took_s.items():
        if not kind.startswith("live") and p95(times) > PROMISED_P95_S:
            wrong.append(f"{kind}: p95 {1000 * p95(times):.0f} ms, promised {1000 * PROMISED_P95_S:.0f} ms")
    early, late = outcome.memory()
    if late > early * (1 + MOST_GROWTH):
        wrong.append(f"memory grew from {early:.0f} to {late:.0f} MB")
    return wrong
