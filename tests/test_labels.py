"""Tokens are hostile strings: each must be shown literally, and told apart from the others."""

from __future__ import annotations

import html

from hypothesis import given
from hypothesis import strategies as st

from app.labels import columns, html_token, plotly_text, plotly_token, quoted, shorten, visible
from tests.synthetic import HOSTILE


def unescape(text: str) -> str:
    return html.unescape(text)


def test_blanks_and_controls_are_seen() -> None:
    assert visible(" a") == "␣a"
    assert visible("a") == "a"
    assert visible("\n\n") == "↵↵"
    assert visible("\t") == "⇥"
    assert visible("") == "∅"
    assert visible("\x00") == "␀"
    assert visible("\u200b") == "<U+200B>"
    assert visible("\u202egnp") == "<U+202E>gnp", "text that would run backwards"


def test_different_tokens_have_different_labels() -> None:
    labels = [visible(token) for token in HOSTILE]
    assert len(set(labels)) == len(set(HOSTILE))


def test_plotly_sees_no_tag_no_entity_no_formula() -> None:
    for token in HOSTILE:
        text = plotly_token(token, 100)
        assert "<" not in text, token
        assert ">" not in text, token
        assert "$" not in text, token
        assert unescape(text) == shorten(visible(token), 100)
    assert plotly_text("&lt;b&gt;") == "&amp;lt;b&amp;gt;"
    assert plotly_text("$x$") == "&#36;x&#36;"


@given(st.text(max_size=80))
def test_html_labels_have_no_markup_for_any_text(text: str) -> None:
    shown = html_token(text)
    assert not set(shown) & set("<>\"'")
    assert unescape(shown) == shorten(visible(text), 60)


@given(st.text(max_size=80), st.integers(2, 40))
def test_labels_are_as_short_as_asked(text: str, limit: int) -> None:
    shown = shorten(visible(text), limit)
    assert columns(shown) <= limit
    assert shown.endswith("…") or shown == visible(text)


def test_wide_characters_count_two() -> None:
    assert columns("漢字") == 4
    assert shorten("漢字漢字", 5) == "漢字…"


def test_a_sentence_quotes_a_word_without_its_leading_blank() -> None:
    assert quoted(" because") == "“because”"
    assert quoted(" ") == "“␣”", "but a blank alone is shown"
