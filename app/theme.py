"""How things look: one table from meaning to colour, mark, line and word, for both themes.

Figures are built in the light colours, which makes them valid on their own (export, tests). On a
dark page the browser replaces each light colour by its dark twin, so every light value is unique.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from eagle.trace import Origin, Status

if TYPE_CHECKING:
    import gradio

SANS = (
    "ui-sans-serif, system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Liberation Sans', "
    "'Helvetica Neue', Arial, sans-serif"
)
MONO = (
    "ui-monospace, 'SF Mono', 'Cascadia Mono', Menlo, Consolas, 'Liberation Mono', 'DejaVu Sans Mono', "
    "monospace"
)

TEXT_SIZE = 14
SMALL_TEXT = 12
LARGE_TEXT = 18


@dataclass(frozen=True)
class Colour:
    """One meaning's colour on a light and on a dark page."""

    light: str
    dark: str


COLOURS: dict[str, Colour] = {
    "page": Colour("#f5f6f8", "#0e1218"),
    "card": Colour("#ffffff", "#161b23"),
    "sunken": Colour("#eef0f4", "#1e2530"),
    "line": Colour("#dde1e8", "#2a3340"),
    "edge": Colour("#b7bfcb", "#4a5667"),
    "ink": Colour("#16202e", "#e9eef5"),
    "muted": Colour("#576273", "#a0acbc"),
    "accent": Colour("#1d5bd1", "#85b6ff"),
    # What verification did with a node
    "accepted": Colour("#1c5cd6", "#82b4ff"),
    "accepted_fill": Colour("#e6effd", "#17294a"),
    "rejected": Colour("#b34d08", "#ffad66"),
    "rejected_fill": Colour("#fdeedd", "#3b2613"),
    "not_tested": Colour("#5d6878", "#a3aebd"),
    "not_tested_fill": Colour("#fafbfc", "#191f28"),
    "cut": Colour("#8b95a3", "#6f7c8e"),
    "final": Colour("#10161f", "#f4f7fb"),
    "on_final": Colour("#fefefe", "#0f141b"),
    # Whose number it is
    "draft": Colour("#7446c4", "#bda2ff"),
    "draft_soft": Colour("#d9caf5", "#43346b"),
    "target": Colour("#0b7468", "#4fd3c0"),
    "target_soft": Colour("#bfe5df", "#1d4f49"),
    "rest": Colour("#c3c9d3", "#414c5b"),
    # Where the time goes, and warnings
    "commit": Colour("#8a6d1a", "#dcc06a"),
    "selection": Colour("#d11a6a", "#ff7ab5"),
    "danger": Colour("#b3261e", "#ff8a80"),
}


def light(name: str) -> str:
    """The light colour, as figures use it."""
    return COLOURS[name].light


@dataclass(frozen=True)
class Look:
    """One meaning's looks. ``symbol`` is Plotly's marker name, ``mark`` the same shape as text."""

    colour: str  # a key of COLOURS
    fill: str  # a key of COLOURS
    mark: str
    symbol: str
    dash: str
    width: float
    word: str


STATUS_LOOKS: dict[Status, Look] = {
    Status.ACCEPTED: Look("accepted", "accepted_fill", "✓", "circle", "solid", 3.0, "accepted"),
    Status.REJECTED: Look("rejected", "rejected_fill", "✗", "x", "dash", 1.8, "rejected"),
    Status.NOT_TESTED: Look("not_tested", "not_tested_fill", "○", "circle-open", "solid", 1.0, "not tested"),
}
CUT_LOOK = Look("cut", "card", "·", "circle", "dot", 1.0, "cut by rerank")
FINAL_LOOK = Look("final", "final", "◆", "diamond", "solid", 3.0, "the target's own")

# Where an emitted token came from. ``dash`` is the CSS underline style in the answer.
ORIGIN_LOOKS: dict[Origin, Look] = {
    Origin.DRAFT: Look("accepted", "accepted_fill", "✓", "circle", "solid", 2.0, "accepted draft"),
    Origin.RESIDUAL: Look("rejected", "rejected_fill", "◆", "diamond", "dashed", 2.0, "residual"),
    Origin.BONUS: Look("target", "target_soft", "◆", "diamond", "double", 2.0, "bonus"),
    Origin.PROMPT: Look("muted", "sunken", "▸", "triangle-right", "dotted", 2.0, "prompt pass"),
}


def dark_twins() -> dict[str, str]:
    """Light colour -> dark colour, for the browser."""
    return {colour.light: colour.dark for colour in COLOURS.values()}


def css_variables() -> str:
    """``--c-NAME`` for every colour, and the fonts, in both themes."""

    def block(selector: str, values: dict[str, str]) -> str:
        lines = "".join(f"--c-{name.replace('_', '-')}:{value};" for name, value in values.items())
        return f"{selector}{{{lines}}}"

    fonts = f":root{{--sans:{SANS};--mono:{MONO};}}"
    lights = {name: colour.light for name, colour in COLOURS.items()}
    darks = {name: colour.dark for name, colour in COLOURS.items()}
    return "\n".join([fonts, block(":root", lights), block(":root.dark, :root .dark", darks)])


def three_digits(number: float) -> str:
    """A number as the page prints it: three significant digits at most, no leading zero below 1.

    0.5926 -> ``.593``; 1.0 -> ``1``; 0.00012 -> ``.00012``; 1.2e-7 -> ``1.2e-7``; 12.345 -> ``12.3``.
    What would round up to 1 without being 1 reads ``>.999``.
    """
    if number == 0:
        return "0"
    if 0.9995 <= number < 1:
        return ">.999"
    size = abs(number)
    if size < 1e-4 or size >= 1e6:
        mantissa, exponent = f"{number:.1e}".split("e")
        return f"{mantissa.removesuffix('.0')}e{int(exponent)}"
    text = f"{number:.3g}"
    if "e" in text:
        text = f"{float(text):.0f}"
    if text.startswith("0."):
        return text[1:]
    return text.replace("-0.", "-.", 1) if text.startswith("-0.") else text


def told_apart(a: float, b: float) -> tuple[str, str]:
    """Two numbers that are compared, with as many digits as it takes to see which is larger."""
    first, second = three_digits(a), three_digits(b)
    digits = 4
    while first == second and a != b and digits <= 17:
        first, second = f"{a:.{digits}g}", f"{b:.{digits}g}"
        digits += 1
    return first, second


def gradio_theme() -> gradio.themes.Base:
    """Gradio's own parts in the same colours and in system fonts."""
    import gradio as gr

    def pair(variable: str, name: str) -> dict[str, str]:
        colour = COLOURS[name]
        return {variable: colour.light, f"{variable}_dark": colour.dark}

    fonts = [font.strip().strip("'") for font in SANS.split(",")]
    mono = [font.strip().strip("'") for font in MONO.split(",")]
    return gr.themes.Base(
        font=fonts, font_mono=mono, text_size="md", spacing_size="md", radius_size="md"
    ).set(
        **pair("body_background_fill", "page"),
        **pair("body_text_color", "ink"),
        **pair("body_text_color_subdued", "muted"),
        **pair("background_fill_primary", "card"),
        **pair("background_fill_secondary", "page"),
        **pair("block_background_fill", "card"),
        **pair("block_border_color", "line"),
        **pair("block_label_text_color", "muted"),
        **pair("block_title_text_color", "ink"),
        **pair("block_info_text_color", "muted"),
        **pair("border_color_primary", "line"),
        **pair("border_color_accent", "accent"),
        color_accent="var(--c-accent)",
        **pair("input_background_fill", "card"),
        **pair("input_border_color", "line"),
        **pair("input_border_color_focus", "accent"),
        **pair("input_placeholder_color", "muted"),
        **pair("slider_color", "accent"),
        **pair("button_primary_background_fill", "accent"),
        **pair("button_primary_background_fill_hover", "accepted"),
        **pair("button_primary_text_color", "on_final"),
        **pair("button_secondary_background_fill", "sunken"),
        **pair("button_secondary_background_fill_hover", "line"),
        **pair("button_secondary_text_color", "ink"),
        **pair("checkbox_background_color_selected", "accent"),
        **pair("link_text_color", "accent"),
        block_shadow="none",
        block_border_width="0px",
        button_primary_shadow="none",
        button_secondary_shadow="none",
        input_shadow="none",
        input_shadow_focus="none",
    )
