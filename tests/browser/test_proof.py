"""The Proof tab in a real browser, with a tiny live pair, on a phone."""

from __future__ import annotations

import pytest

from tests.browser.conftest import Visitor
from tests.browser.small_pages import fits, open_tab

pytestmark = pytest.mark.browser


@pytest.fixture
def proof(tiny: Visitor) -> Visitor:
    open_tab(tiny, "Proof", width=400)
    return tiny


def test_greedy_is_identical_on_screen(proof: Visitor) -> None:
    for name, value in (("Prompts", "2"), ("Tokens each", "16")):
        box = proof.page.get_by_label(f"number input for {name}")
        box.fill(value)
        box.press("Tab")
    proof.page.click("#greedy-go")
    proof.until("#greedy-note", "Done.")
    assert "Identical. 32 tokens of 2 prompts" in proof.text("#greedy-table")
    assert proof.page.locator("#greedy-table tbody tr").count() == 2


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
    fits(proof)


def test_a_blank_prompt_is_one_sentence(proof: Visitor) -> None:
    proof.page.fill("#sampling-card textarea", " ")
    proof.page.click("#sampling-go")
    proof.until("#sampling-note", "The prompt is empty")
    proof.page.wait_for_selector("#sampling-go", state="visible")
