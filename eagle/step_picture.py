"""The profile of a step as a picture: horizontal bars, one standalone SVG file, no torch."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eagle.step_profile import StepProfile

# Phase -> colour and name; stripes would not print, so the legend also says the order along a bar.
LOOKS = {
    "draft": ("#7446c4", "draft"),
    "verify": ("#0b7468", "verify"),
    "judge": ("#b34d08", "judge and commit"),
    "record": ("#8b95a3", "record (not in tokens/s)"),
}
WIDTH, LEFT, BAR, ROW, TOP = 760, 190, 440, 34, 104
INK, MUTED, LINE = "#16202e", "#576273", "#dde1e8"


def picture(found: StepProfile) -> str:
    """SVG text: a bar for each kind of work, its pieces the phases."""
    bars = {group: pieces for group, pieces in found.ms.items() if sum(pieces.values()) > 0}
    longest = max(sum(pieces.values()) for pieces in bars.values())
    height = TOP + ROW * len(bars) + 46
    body = [_title(found), _legend()]
    for index, (group, pieces) in enumerate(bars.items()):
        body.append(_bar(group, pieces, TOP + ROW * index, BAR / longest))
    body.append(_caption(found, height - 30))
    alt = f"Where a step's {found.step_ms:.1f} ms go: " + ", ".join(
        f"{group} {sum(pieces.values()):.1f} ms" for group, pieces in bars.items()
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" role="img" aria-label="{escape(alt)}" '
        f'font-family="system-ui, sans-serif" font-size="13" fill="{INK}">'
        f'<rect width="{WIDTH}" height="{height}" rx="10" fill="#ffffff"/>{"".join(body)}</svg>\n'
    )


def _text(x: float, y: float, words: str, extra: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {extra}>{escape(words)}</text>'


def _title(found: StepProfile) -> str:
    size = f", {found.nodes:.1f} nodes" if found.nodes else ""
    return _text(20, 30, f"One step: {found.step_ms:.1f} ms", 'font-size="17" font-weight="600"') + _text(
        20, 51, f"{found.what}{size}, mean of {found.steps} steps", f'fill="{MUTED}"'
    )


def _legend() -> str:
    x, out = 20.0, []
    for colour, name in LOOKS.values():
        out.append(f'<rect x="{x:.0f}" y="66" width="12" height="12" rx="2" fill="{colour}"/>')
        out.append(_text(x + 18, 77, name))
        x += 40 + 7.4 * len(name)
    return "".join(out)


def _bar(group: str, pieces: dict[str, float], y: float, scale: float) -> str:
    x = float(LEFT)
    out = [_text(LEFT - 10, y + 16, group, 'text-anchor="end"')]
    for phase, (colour, name) in LOOKS.items():
        width = scale * pieces.get(phase, 0.0)
        if width > 0:
            shown = max(width - 1, 0.5)  # a gap of one pixel parts the pieces where colours can not
            title = f"<title>{escape(f'{group}, {name}: {pieces[phase]:.2f} ms')}</title>"
            place = f'x="{x:.1f}" y="{y:.0f}" width="{shown:.1f}" height="22"'
            out.append(f'<rect {place} fill="{colour}">{title}</rect>')
        x += width
    return "".join(out) + _text(x + 8, y + 16, f"{sum(pieces.values()):.2f} ms")


def _caption(found: StepProfile, y: float) -> str:
    least, most = found.python_ms
    words = (
        f"Operators: own time under the profiler. Python outside operators, the record apart: "
        f"{least:.2f} to {most:.2f} ms."
    )
    rule = f'<line x1="20" x2="{WIDTH - 20}" y1="{y - 12:.0f}" y2="{y - 12:.0f}" stroke="{LINE}"/>'
    return rule + _text(20, y + 8, words, f'font-size="12" fill="{MUTED}"')
