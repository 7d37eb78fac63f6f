"""A small drawing board in pixels: rectangles and texts gathered into one trace a colour."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from app import theme

Path = tuple[list[float | None], list[float | None]]
Text = tuple[float, float, str, str, bool]  # x, y, escaped text, colour, bold


@dataclass
class Canvas:
    """Collects shapes; ``traces`` gives them to plotly, back to front in the order of first use."""

    fills: dict[str, Path] = field(default_factory=dict)
    ghosts: Path = field(default_factory=lambda: ([], []))
    texts: dict[tuple[str, float], list[Text]] = field(default_factory=dict)

    def bar(self, x: float, middle: float, width: float, thickness: float, colour: str) -> None:
        """A filled bar that starts at x and is centred on ``middle``."""
        _outline(self.fills.setdefault(colour, ([], [])), x, middle, width, thickness)

    def ghost(self, x: float, middle: float, width: float, thickness: float) -> None:
        """A dotted outline: how long the bar was before."""
        _outline(self.ghosts, x, middle, width, thickness)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        colour: str = "ink",
        *,
        to: str = "right",
        size: float = 12.5,
        bold: bool = False,
    ) -> None:
        """Escaped text that runs to the right of x, or to the left of it."""
        self.texts.setdefault((f"middle {to}", size), []).append((x, y, text, colour, bold))

    def traces(self) -> list[dict[str, Any]]:
        out = []
        if self.ghosts[0]:
            out.append(
                _filled(self.ghosts, "sunken", {"color": theme.light("edge"), "width": 1, "dash": "dot"})
            )
        out += [_filled(path, colour, {"width": 0}) for colour, path in self.fills.items()]
        for (position, size), texts in self.texts.items():
            out.append(
                {
                    "type": "scatter",
                    "mode": "text",
                    "hoverinfo": "skip",
                    "cliponaxis": False,
                    "x": [text[0] for text in texts],
                    "y": [text[1] for text in texts],
                    "text": [f"<b>{text[2]}</b>" if text[4] else text[2] for text in texts],
                    "textposition": position,
                    "textfont": {"size": size, "color": [theme.light(text[3]) for text in texts]},
                }
            )
        return out


def _outline(path: Path, x: float, middle: float, width: float, thickness: float) -> None:
    right, top, bottom = round(x + width, 1), middle - thickness / 2, middle + thickness / 2
    path[0].extend([x, right, right, x, x, None])
    path[1].extend([top, top, bottom, bottom, top, None])


def _filled(path: Path, colour: str, line: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": path[0],
        "y": path[1],
        "fill": "toself",
        "hoverinfo": "skip",
        "fillcolor": theme.light(colour),
        "line": line,
        "name": colour,
        "cliponaxis": False,
    }
