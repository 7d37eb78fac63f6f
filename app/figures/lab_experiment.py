"""The experiment as pictures: shares with error bars against the target, and how far off, draw by draw."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from app.figures.lab_svg import figure, line, rect, text
from app.labels import quoted
from app.theme import three_digits

if TYPE_CHECKING:
    from app.lab_experiment import Sample

LEFT, RIGHT = 11.0, 99.0  # percent
PLOT = 10.0  # em


def shares(samples: Sequence[Sample], names: Sequence[str]) -> str:
    """A group a token: the target as a line, each rule's share as a bar with its 95% interval."""
    top = max(0.05, *(max((*sample.high, *sample.target, *sample.law)) for sample in samples))
    top = min(1.0, math.ceil(top * 10) / 10)
    body = _axis(top)
    group = (RIGHT - LEFT) / len(names)
    for i, name in enumerate(names):
        x = LEFT + group * i
        wide = group * 0.34
        for j, sample in enumerate(samples):
            left = x + group * 0.12 + j * (wide + group * 0.04)
            body += _bar(sample, i, left, wide, top, "sample-b" if j else "sample-a")
        y = _y(samples[0].target[i], top)
        body += rect(x + group * 0.05, y - 0.08, group * 0.9, 0.16, "target-mark")
        body += text(x + group / 2, PLOT + 2.1, quoted(name, 9)[1:-1], "axis-name")
    said = "; ".join(
        f"{quoted(name)}: target {three_digits(samples[0].target[i])}, "
        + ", ".join(f"{sample.rule} {three_digits(sample.share[i])}" for sample in samples)
        for i, name in enumerate(names)
    )
    return figure("experiment", PLOT + 2.8, f"Shares of {samples[0].n} draws. {said}.", body)


def _y(value: float, top: float) -> float:
    return 0.8 + PLOT * (1 - value / top)


def _axis(top: float) -> str:
    body = ""
    for part in range(5):
        value = top * part / 4
        y = _y(value, top)
        body += line(LEFT, y, RIGHT, y, "grid")
        body += text(LEFT - 1.5, y + 0.3, three_digits(value), "tick", "end")
    return body


def _bar(sample: Sample, i: int, left: float, wide: float, top: float, css: str) -> str:
    y = _y(sample.share[i], top)
    body = rect(left, y, wide, max(0.0, _y(0, top) - y), f"{css} box", f"{css}{i}")
    middle = left + wide / 2
    low, high = _y(sample.low[i], top), _y(sample.high[i], top)
    body += line(middle, low, middle, high, "error")
    for end in (low, high):
        body += line(middle - wide * 0.18, end, middle + wide * 0.18, end, "error")
    return body


def convergence(samples: Sequence[Sample]) -> str:
    """Total variation from the target after 1, 3, 10, ... draws; both axes from small to large."""
    largest = max(math.log10(max(10, sample.n)) for sample in samples)
    top = min(1.0, max(0.1, *(value for sample in samples for _, value in sample.running)))
    top = math.ceil(top * 10) / 10

    def x(n: int) -> float:
        return LEFT + (RIGHT - LEFT - 1) * math.log10(n) / largest

    body = _axis(top)
    for power in range(int(largest) + 1):
        body += text(x(10**power), PLOT + 2.1, f"{10**power:,}", "tick", "start" if power == 0 else "end")
    for j, sample in enumerate(samples):
        css = "sample-b" if j else "sample-a"
        points = [(x(n), _y(min(value, top), top)) for n, value in sample.running]
        for (x1, y1), (x2, y2) in pairwise(points):
            body += line(x1, y1, x2, y2, f"{css} curve")
        for px, py in points:
            body += f'<circle class="{css} dot" cx="{px:.4g}%" cy="{py:.4g}em" r="0.24em"/>'
    said = ", ".join(f"{sample.rule} ends at {three_digits(sample.variation)}" for sample in samples)
    return figure(
        "convergence", PLOT + 2.8, f"Total variation from the target as draws add up: {said}.", body
    )
