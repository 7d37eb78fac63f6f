"""The Race tab in a real browser, with a tiny live pair: a race, its replay, and the width of the tree."""

from __future__ import annotations

import pytest

from tests.browser.conftest import Visitor
from tests.browser.small_pages import fits, open_tab

pytestmark = pytest.mark.browser
FEW = "16"  # tokens: enough for several steps


@pytest.fixture
def race(tiny: Visitor) -> Visitor:
    open_tab(tiny, "Race")
    return tiny


def lanes(visitor: Visitor) -> list[str]:
    return visitor.page.locator(".lane-text").all_text_contents()


def run_a_race(visitor: Visitor) -> None:
    """A short race, watched to its end."""
    page = visitor.page
    tokens = page.get_by_label("number input for Most new tokens")
    if not tokens.is_visible():
        page.click("#race-ask >> text=Settings of all lanes")
    tokens.fill(FEW)
    tokens.press("Tab")
    page.click("#race-go")
    visitor.until("#race-note", "Done.")
    visitor.until("#race-lanes .source", "live race")
    page.wait_for_selector(".race[data-playing='0']")


def test_a_race_runs_and_replays_at_the_recorded_pace(race: Visitor) -> None:
    page = race.page
    run_a_race(race)
    done = lanes(race)
    assert len(done) == 3 and len(set(done)) == 1 and done[0], "temperature 0: the same text in every lane"
    assert "the same tokens" in race.text("#race-lanes")
    assert "2 repeats" in race.text("#race-meters")
    assert page.locator("#race-cost .main-svg").count() > 0
    clock = race.text(".race-clock")
    assert (
        page.evaluate(
            "() => { document.querySelector('.race-restart').click();"
            " return document.querySelector('.race').dataset.playing; }"
        )
        == "1"
    ), "a replay may be over before it can be looked at"
    page.wait_for_selector(".race[data-playing='0']")
    assert lanes(race) == done and race.text(".race-clock") == clock
    page.locator(".race-at").evaluate("(e) => { e.value = 0; e.dispatchEvent(new Event('input')); }")
    assert race.text(".race-clock") == "0.00 s"
    first = lanes(race)
    assert all(len(text) < len(done[0]) for text in first) and len(set(first)) == 1, "only the first token"
    page.select_option(".race-speed select", "4")
    page.click(".race-play")
    page.wait_for_selector(".race[data-playing='0']")
    assert lanes(race) == done and race.text(".race-clock") == clock


def test_a_race_of_no_method_is_one_sentence_and_the_next_one_starts(race: Visitor) -> None:
    page = race.page
    boxes = page.locator("#race-ask input[type=checkbox]")
    chosen = [box for box in boxes.all() if box.is_checked()]
    for box in chosen:
        box.uncheck()
    page.click("#race-go")
    race.until("#race-note", "methods must name at least one")
    assert page.is_visible("#race-go") and not page.is_visible("#race-stop")
    for box in chosen:
        box.check()
    run_a_race(race)


def test_the_width_is_measured_and_explained(race: Visitor) -> None:
    race.page.click("#width-go")
    race.until("#width-note", "Done.")
    race.until("#width-words", "measured now")
    said = race.text("#width-words")
    assert "promised" in said and "goes on using what was measured when the model was loaded" in said
    race.page.wait_for_function("document.querySelectorAll('#width-row .main-svg').length >= 3")


def test_a_race_fits_on_a_phone(race: Visitor) -> None:
    open_tab(race, "Race", width=400)
    run_a_race(race)
    race.page.wait_for_selector("#race-cost .main-svg")
    fits(race)
