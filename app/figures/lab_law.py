"""The exact law as pictures: where each path's probability goes, and what comes out against the target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.figures.lab_svg import block, figure, fit, rect, text
from app.labels import quoted
from app.theme import three_digits

if TYPE_CHECKING:
    from app.lab_law import Law, Path

ROW = 2.6
LABEL = 1.3


def flow(law: Law, names: Sequence[str], order_drawn: bool, along: set[tuple[object, ...]]) -> str:
    """All probability as one bar of length 1, cut trial by trial; what is settled falls to the bottom.

    ``order_drawn`` adds a row for the candidates where the rule draws them. ``along`` holds the
    pieces that the draw on screen has gone through: ("accept" | "reject" | "draw" | "end", prefix, token).
    """
    depth = max((len(path.rejected) + path.accepted for path in law.paths), default=0)
    step = ROW * (2 if order_drawn else 1)
    height = LABEL + step * depth + ROW
    picture = _Flow(law, names, order_drawn, along, height, step)
    picture.place((), 0.0, 0)
    body = picture.body
    alt = "How the probability splits: " + "; ".join(_words(path, names) for path in law.paths[:12]) + "."
    caption = text(0, 0.9, "all draws: probability 1", "tick", "start")
    return figure("the exact law", height + 0.1, alt, caption + body, "flow")


def _words(path: Path, names: Sequence[str]) -> str:
    gone = "".join(f"{quoted(names[t])} rejected, " for t in path.rejected)
    how = "accepted" if path.accepted else "drawn at the end"
    return f"{gone}{quoted(names[path.token])} {how}: {three_digits(path.mass)}"


class _Flow:
    """Places the pieces of :func:`flow`, depth first; x runs in shares of 1."""

    def __init__(
        self,
        law: Law,
        names: Sequence[str],
        drawn: bool,
        along: set[tuple[object, ...]],
        height: float,
        step: float,
    ) -> None:
        self.paths, self.names, self.drawn, self.along = law.paths, names, drawn, along
        self.height, self.step = height, step
        self.body = ""

    def place(self, prefix: tuple[int, ...], x: float, level: int) -> None:
        """Everything that happens after the candidates in ``prefix`` were rejected."""
        y = LABEL + self.step * level
        below = [path for path in self.paths if path.rejected[: len(prefix)] == prefix]
        for candidate in self._candidates(below, prefix):
            here = [path for path in below if path.accepted and path.rejected == prefix]
            accepted = sum(path.mass for path in here if path.token == candidate)
            onward = (*prefix, candidate)
            rejected = sum(path.mass for path in below if path.rejected[: len(onward)] == onward)
            top = y
            if self.drawn:
                both = accepted + rejected
                self._box(x, top, both, ROW, "draft-piece", "{} drawn {}", ("draw", prefix, candidate))
                top += ROW
            self._box(x, top, accepted, self.height - top, "accept", "✓ {}|{}", ("accept", prefix, candidate))
            self._box(
                x + accepted, top, rejected, ROW, "reject", "✗ {} rejected {}", ("reject", prefix, candidate)
            )
            if rejected > 0:
                self.place(onward, x + accepted, level + 1)
            x += accepted + rejected
        ends = [path for path in below if not path.accepted and path.rejected == prefix]
        for path in sorted(ends, key=lambda path: path.token):
            self._box(x, y, path.mass, self.height - y, "final-piece", "◆ {}|{}", ("end", prefix, path.token))
            x += path.mass

    def _candidates(self, below: list[Path], prefix: tuple[int, ...]) -> list[int]:
        """Who is offered next, in the order in which the paths met them."""
        found: dict[int, None] = {}
        for path in below:
            if len(path.rejected) > len(prefix):
                found[path.rejected[len(prefix)]] = None
            elif path.accepted:
                found[path.token] = None
        return list(found)

    def _box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        css: str,
        words: str,
        piece: tuple[str, tuple[int, ...], int],
    ) -> None:
        """A piece of mass ``width``; ``words`` has places for token and mass, and | for a new line."""
        if width <= 0:
            return
        name, mass = quoted(self.names[piece[2]], 12)[1:-1], three_digits(width)
        whole = words.format(name, mass).split("|")

        def lines(room: float) -> tuple[str, ...]:
            if len(whole) == 2:
                return fit(room, whole[0], words[0]), fit(room, mass)
            return (fit(room, whole[0], f"✗ {mass}" if words[0] == "✗" else mass, mass),)

        css = f"{css} along" if piece in self.along else css
        self.body += block(100 * x, y, 100 * width, height, css, lines, hover=" ".join(whole))


def outcome_bar(accepted: Sequence[float], final: float, target: float, scale: float, alt: str) -> str:
    """One token's output as a bar: accepted at each trial, then drawn at the end; the target is a mark.

    ``scale`` is the value at the right edge.
    """
    body, left = "", 0.0
    for mass in accepted:
        body += rect(100 * left / scale, 0.15, 100 * mass / scale, 1.1, "accept box")
        left += mass
    body += rect(100 * left / scale, 0.15, 100 * final / scale, 1.1, "final-piece box")
    body += rect(min(99.4, 100 * target / scale - 0.3), 0, 0.6, 1.4, "target-mark")
    return figure(f"outcome {alt}", 1.4, alt, body, "outcome-bar")
