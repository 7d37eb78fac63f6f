"""The Proof tab in a real browser, with a tiny live pair."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from app.gallery import Gallery
from tests.browser.conftest import Visitor
from tests.browser.tiny_page import visitor_of_tiny_page

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def proof(browser: Any, gallery: Gallery) -> Iterator[Visitor]:
    with visitor_of_tiny_page(browser, gallery, "Proof", viewport={"width": 400, "height": 800}) as visitor:
        yield visitor


def test_greedy_is_identical_on_screen(proof: Visitor) -> None:
    proof.page.click("#greedy-go")
    proof.until("#greedy-note", "Done.")
    assert "Identical. 240 tokens of 5 prompts" in proof.text("#greedy-table")
    assert proof.page.locator("#greedy-table tbody tr").count() == 5


def test_sampling_passes_the_misreading_fails_and_a_phone_shows_it(proof: Visitor) -> None:
    page = proof.page
    page.fill("#sampling-card textarea", "What is a tree?")
    page.click("#sampling-go")
    proof.until("#sampling-note", "Done.")
    proof.until("#sampling-setup", "all 10,000 judgements")
    assert page.locator("#verdict-two .verdict-good").count() == 1
    assert page.locator("#verdict-two .verdict-bad .biased-mark").count() == 1
    page.wait_for_selector("#shares-one .main-svg")
    page.wait_for_selector("#shares-two .main-svg")
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    proof.save_shot("proof-phone")


def test_a_blank_prompt_is_one_sentence(proof: Visitor) -> None:
    proof.page.fill("#sampling-card textarea", " ")
    proof.page.click("#sampling-go")
    proof.until("#sampling-note", "The prompt is empty")
    assert proof.page.is_visible("#sampling-go")
