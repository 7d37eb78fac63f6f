"""Tokens as labels. A token is a hostile string: nothing in it may be read as markup or as a format.

``visible`` makes blanks and control characters seen; ``plotly_text`` and ``html_text`` escape for the
two places where text is shown. Always in this order: visible, shorten, escape.
"""

from __future__ import annotations

import html
import unicodedata

SPACE = "␣"
NEWLINE = "↵"
TAB = "⇥"
EMPTY = "∅"
ELLIPSIS = "…"
_CONTROL_PICTURES = 0x2400
_MARKS = {" ": SPACE, "\n": NEWLINE, "\t": TAB, "\r": "␍", "\u00a0": "⍽"}
# Format, control, surrogate, private and unassigned characters are spelt out; so are odd blanks.
_SPELT = {"Cf", "Cc", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"}


def visible(text: str) -> str:
    """The text with every blank and control character seen: " a" and "a" differ, "" is ∅."""
    if not text:
        return EMPTY
    return "".join(_visible(character) for character in text)


def _visible(character: str) -> str:
    if character in _MARKS:
        return _MARKS[character]
    code = ord(character)
    if code < 0x20:
        return chr(_CONTROL_PICTURES + code)
    if unicodedata.category(character) in _SPELT:
        return f"<U+{code:04X}>"
    return character


def shorten(text: str, limit: int) -> str:
    """At most ``limit`` columns (wide characters count two), the end replaced by an ellipsis."""
    if columns(text) <= limit:
        return text
    kept, used = [], 1
    for character in text:
        used += _columns(character)
        if used > limit:
            break
        kept.append(character)
    return "".join(kept) + ELLIPSIS


def columns(text: str) -> int:
    """How many narrow characters wide the text is."""
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def plotly_text(text: str) -> str:
    """Escaped for plotly, which reads tags and entities and sets ``$...$`` as a formula."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("$", "&#36;")


def html_text(text: str) -> str:
    """Escaped for HTML text and attributes."""
    return html.escape(text, quote=True)


def plotly_token(text: str, limit: int = 24) -> str:
    """A token as a figure shows it."""
    return plotly_text(shorten(visible(text), limit))


def html_token(text: str, limit: int = 60) -> str:
    """A token as a panel shows it."""
    return html_text(shorten(visible(text), limit))


def quoted(text: str, limit: int = 40) -> str:
    """A token inside a sentence, in quotes, a single leading blank dropped for reading. Not escaped."""
    bare = text[1:] if len(text) > 1 and text[0] == " " and not text[1].isspace() else text
    return f"“{shorten(visible(bare), limit)}”"


def name_of(labels: dict[int, str], token: int) -> str:
    """The token's text, or its number where the trace has no text for it."""
    return labels.get(token, f"#{token}")
