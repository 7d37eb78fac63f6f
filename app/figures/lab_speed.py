"""Lesson 5 as a picture: tokens per pass and speed against the draft's depth, for chosen costs."""

from __future__ import annotations

from itertools import pairwise

from app.figures.lab_svg import figure, line, text
from app.theme import three_digits
from eagle import laws

LEFT, RIGHT, PLOT, DEEPEST = 9.0, 97.0, 12.0, 12


def curves(share: float, draft_step: float, extra_token: float) -> list[tuple[int, float, float]]:
    """(depth, τ, speedup) for depths 0 to 12; arithmetic on the chosen numbers, no measurement."""
    out = []
    for depth in range(DEEPEST + 1):
        tau = laws.expected_tau(share, depth)
        out.append((depth, tau, laws.speedup(tau, laws.overhead(depth, draft_step, extra_token))))
    return out


def speed_figure(share: float, depth: int, draft_step: float, extra_token: float) -> str:
    """τ dashed, speedup solid, break-even at 1, the chosen depth marked on both."""
    rows = curves(share, draft_step, extra_token)
    top = max(2.0, *(min(tau, 6.0) for _, tau, _ in rows))

    def at(value: float) -> float:
        return 0.9 + PLOT * (1 - min(value, top) / top)

    def across(level: int) -> float:
        return LEFT + (RIGHT - LEFT) * level / DEEPEST

    body = "".join(
        line(LEFT, at(value), RIGHT, at(value), "grid")
        + text(LEFT - 1.2, at(value) + 0.3, str(value), "tick", "end")
        for value in range(int(top) + 1)
    )
    body += line(LEFT, at(1), RIGHT, at(1), "even")
    body += text(
        RIGHT, at(1) + 1.1, "1 = plain decoding; below it speculation loses", "tick even-text", "end"
    )
    for level in range(0, DEEPEST + 1, 2):
        body += text(across(level), PLOT + 2.1, str(level), "tick")
    body += text(RIGHT, PLOT + 3.2, "tokens drafted in a row", "tick", "end")
    for index, css in ((1, "tau-line"), (2, "speed-line")):
        points = [(across(row[0]), at(row[index])) for row in rows]
        for (x1, y1), (x2, y2) in pairwise(points):
            body += line(x1, y1, x2, y2, f"curve {css}")
        x, y = points[depth]
        body += f'<circle class="{css} dot" cx="{x:.4g}%" cy="{y:.4g}em" r="0.4em"/>'
    _, tau, gain = rows[depth]
    alt = f"At depth {depth} τ is {three_digits(tau)} and the speedup {three_digits(gain)}."
    return figure("speed", PLOT + 3.6, alt, body, "speed")
