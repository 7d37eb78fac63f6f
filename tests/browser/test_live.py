"""The whole way in a real browser with the built-in pair: prompt in, live run, stepping, measured ratio."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from app.gallery import Gallery
from app.runner import Runner
from tests.browser.conftest import Visitor, launch

pytestmark = [pytest.mark.browser, pytest.mark.real]
LONG_MS = 240_000  # the first use may download and convert the target


@pytest.fixture
def live(browser: Any) -> Iterator[Visitor]:
    demo, url = launch(Runner(), Gallery())
    visitor = Visitor(browser, url)
    yield visitor
    visitor.context.close()
    demo.close()
    visitor.check()


def test_a_real_prompt_is_decoded_step_by_step(live: Visitor) -> None:
    page = live.open()
    assert "recorded run" in live.text("#source"), "the first paint needs no model"
    assert "temperature .7" in live.text("#source")
    assert "accepted" in live.text(".panel-title")
    live.context.set_default_timeout(LONG_MS)
    live.set_up(Seed="7", number_input_for_Most_new_tokens="24")
    page.fill("#prompt textarea", "Name three fruits.")
    page.click("#run")
    live.until("#source", "live run")
    live.until("#note", "Done.")
    assert "seed 7" in live.text("#source")
    live.until("#meters", "×")  # the ratio to plain decoding, measured in this visit
    page.click("#step-previous")
    page.focus("#tree .fig")
    page.keyboard.press("Home")
    live.until(".panel-title", "last token")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("!document.querySelector('.panel-title').innerText.includes('last token')")
    live.save_shot("live")
