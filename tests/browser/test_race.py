"""The Race tab in a real browser, with a tiny live pair: a race, its replay, and the width of the tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from app.gallery import Gallery
from tests.browser.conftest import Visitor
from tests.browser.tiny_page import visitor_of_tiny_page

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def race(browser: Any, gallery: Gallery) -> Iterator[Visitor]:
    with visitor_of_tiny_page(browser, gallery, "Race") as visitor:
        yield visitor


def lanes(visitor: Visitor) -> list[str]:
    return visitor.page.locator(".lane-text").all_text_contents()


def test_a_race_runs_and_replays_at_the_recorded_pace(race: Visitor) -> None:
    page = race.page
    page.click("#race-go")
    race.until("#race-note", "Done.")
    race.until("#race-lanes .source", "live race")
    page.wait_for_selector(".race[data-playing='0']")
    done = lanes(race)
    assert len(done) == 3 and len(set(done)) == 1 and done[0], "temperature 0: the same text in every lane"
    assert "the same tokens" in race.text("#race-lanes")
    assert "2 repeats" in race.text("#race-meters")
    assert page.locator("#race-cost .main-svg").count() > 0
    race.save_shot("race")
    clock = race.text(".race-clock")
    page.click(".race-restart")
    page.wait_for_selector(".race[data-playing='1']")
    page.click(".race-play")
    page.wait_for_selector(".race[data-playing='0']")
    page.locator(".race-at").evaluate("(e) => { e.value = 0; e.dispatchEvent(new Event('input')); }")
    assert race.text(".race-clock") == "0.00 s"
    first = lanes(race)
    assert all(len(text) < len(done[0]) for text in first) and first[0] == first[1], "only the first token"
    page.select_option(".race-speed select", "4")
    page.click(".race-play")
    page.wait_for_selector(".race[data-playing='0']")
    assert lanes(race) == done and race.text(".race-clock") == clock


def test_a_bad_tree_is_one_sentence_and_the_next_race_starts(race: Visitor) -> None:
    page = race.page
    for box in page.locator("#race-ask input[type=checkbox]").all():
        box.uncheck()
    page.click("#race-go")
    race.until("#race-note", "methods must name at least one")
    assert page.is_visible("#race-go") and not page.is_visible("#race-stop")
    page.locator("#race-ask input[type=checkbox]").first.check()
    page.click("#race-go")
    race.until("#race-note", "Done.")


def test_the_width_is_measured_and_explained(race: Visitor) -> None:
    race.page.click("#width-go")
    race.until("#width-note", "Done.")
    race.until("#width-words", "measured now")
    said = race.text("#width-words")
    assert "promised" in said and "goes on using what was measured when the model was loaded" in said
    race.page.wait_for_function("document.querySelectorAll('#width-row .main-svg').length >= 3")


def test_nothing_is_wider_than_a_phone(browser: Any, gallery: Gallery) -> None:
    phone = {"viewport": {"width": 400, "height": 800}}
    with visitor_of_tiny_page(browser, gallery, "Race", **phone) as visitor:
        visitor.page.click("#race-go")
        visitor.until("#race-note", "Done.")
        visitor.page.wait_for_selector("#race-cost .main-svg")
        assert visitor.page.evaluate("document.documentElement.scrollWidth") <= 400
        visitor.save_shot("race-phone")
