"""What the auditor reports, and how far rounding can move a recorded number."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

# Sums over a whole vocabulary in float64 stay this close to the exact ones.
EXACT = 1e-11


@dataclass(frozen=True)
class Finding:
    """One thing that does not hold: where, what, what it should be and what the record says."""

    step: int | None
    where: str
    what: str
    expected: str
    found: str

    @property
    def sentence(self) -> str:
        place = self.where if self.step is None else f"step {self.step}, {self.where}"
        return f"{place[0].upper()}{place[1:]}: {self.what} should be {self.expected}, but is {self.found}."


@dataclass(frozen=True)
class Place:
    """A place in the run that findings are about."""

    step: int | None
    where: str

    def finding(self, what: str, expected: Any, found: Any) -> Finding:
        return Finding(self.step, self.where, what, _shown(expected), _shown(found))


def _shown(value: Any) -> str:
    text = f"{value:.9g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 80 else text[:77] + "..."


def rounding(*numbers: float) -> float:
    """How far rounding to six significant digits can have moved the sum of these numbers."""
    return sum(_half_digit(number) for number in numbers)


def _half_digit(number: float) -> float:
    if number == 0 or not math.isfinite(number):
        return 0.0
    return 0.505 * 10.0 ** (math.floor(math.log10(abs(number))) - 5)


def near(a: float, b: float, tolerance: float) -> bool:
    """Whether two numbers agree; the tolerance is rounding's, a little float64 noise is added."""
    return abs(a - b) <= tolerance + EXACT * 0.1


def repeated(tokens: Iterable[int]) -> int | None:
    """The first token that appears twice, if any does."""
    seen: set[int] = set()
    for token in tokens:
        if token in seen:
            return token
        seen.add(token)
    return None
