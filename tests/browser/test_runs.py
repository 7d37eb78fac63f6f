"""Runs, files and visitors in a real browser, against a runner that replays a recorded run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import PATIENCE_MS, Server, Visitor
from tests.synthetic import HOSTILE, synthetic_run

pytestmark = pytest.mark.browser
ANSWER = synthetic_run(seed=11, steps=9)


def ask(visitor: Any, prompt: str) -> None:
    visitor.page.fill("#prompt textarea", prompt)
    visitor.page.click("#run")


def choose(visitor: Any, path: Path) -> None:
    """Opens a file as a visitor does: by the button and the browser's own dialog."""
    with visitor.page.expect_file_chooser() as dialog:
        visitor.page.click("#import")
    dialog.value.set_files(str(path))


def test_an_example_runs_and_the_meters_compare_it_with_plain_decoding(desk: Visitor) -> None:
    visitor = desk
    page = visitor.open()
    page.click(".chip >> nth=0")
    page.wait_for_function("document.querySelector('#prompt textarea').value.length > 10")
    prompt = page.input_value("#prompt textarea")
    page.click("#run")
    visitor.until("#note", "Done.")
    visitor.until("#source", "live run")
    assert prompt in visitor.text("#source")
    visitor.until_step(9)
    visitor.until("#meters", "×")
    assert "vanilla" in visitor.text("#meters")
    assert page.is_visible("#run")
    shown = "".join(page.locator(".answer .tok").all_text_contents()).replace("↵", "")
    assert shown == ANSWER.text
    visitor.save_shot("after-run")


def test_stop_in_the_middle_then_run_again(desk: Visitor, server: Server) -> None:
    visitor = desk
    page = visitor.open()
    server.gate.clear()
    server.told_to_stop.clear()
    try:
        ask(visitor, "first question")
        visitor.until("#source", "running")
        page.wait_for_selector("#stop", state="visible")
        visitor.until("#nav", "The pictures follow when the timing is over")
        page.click("#stop")
        visitor.until("#note", "Stopping after this step")
        assert server.told_to_stop.wait(PATIENCE_MS / 1000)
    finally:
        server.gate.set()
    page.wait_for_selector("#run", state="visible")
    visitor.until("#source", "stopped")
    page.wait_for_selector(".nav:not(.behind)")
    ask(visitor, "second question")
    visitor.until("#source", "second question")
    visitor.until_step(9)


def test_a_step_can_be_read_while_the_run_goes_on(desk: Visitor, server: Server) -> None:
    visitor = desk
    page = visitor.open()
    server.gate.clear()
    try:
        ask(visitor, "slowly please")
        visitor.until("#source", "running")
        page.click(".answer .tok >> nth=0")
        page.wait_for_selector(".answer .tok.chosen")
        page.wait_for_selector(".nav:not(.behind)")
    finally:
        server.gate.set()
    visitor.until("#note", "Done.")
    assert visitor.step() == 0, "the visitor chose this step; the run does not take it away"


@pytest.mark.parametrize(
    ("prompt", "says"),
    [("", "The prompt is empty"), ("   ", "The prompt is empty"), ("x" * 50_000, "50,000 characters")],
)
def test_a_bad_prompt_gets_one_sentence_and_the_page_goes_on(desk: Visitor, prompt: str, says: str) -> None:
    visitor = desk
    page = visitor.open()
    ask(visitor, prompt)
    visitor.until("#note .fault", says)
    page.wait_for_selector("#run", state="visible")
    assert "recorded run" in visitor.text("#source"), "what was on screen is still there"
    assert page.locator(".toast-wrap .error").count() == 0


def test_a_bad_seed_names_the_field_and_its_range(desk: Visitor) -> None:
    visitor = desk
    visitor.open()
    visitor.set_up(Seed="<b>x</b>")
    ask(visitor, "hello")
    visitor.until("#note .fault", "seed must be a whole number from 0 to")
    assert "<b>x</b>" in visitor.text("#note")


def saved_hostile_run(visitor: Visitor, button: str, path: Path) -> Path:
    """Opens the hostile recorded run and saves it by a button, as a visitor does."""
    page = visitor.open("?run=hostile&step=2")
    visitor.until(".source-prompt", "<img")
    with page.expect_download() as caught:
        page.click(button)
    caught.value.save_as(path)
    return path


def test_export_and_import_round_trip(visit: Any, tmp_path: Path) -> None:
    saved = saved_hostile_run(visit(), "#export", tmp_path / "saved.json")
    other = visit()
    other.open()
    choose(other, saved)
    other.until("#source", "imported run")
    other.until(".source-prompt", "<img")
    other.until("#note", "audit")
    other.page.wait_for_timeout(1500)  # longer than the page asks for the pair's state
    other.until("#note", "audit")


def test_the_saved_page_shows_every_step_with_no_network(visit: Any, browser: Any, tmp_path: Path) -> None:
    visitor = visit()
    saved = saved_hostile_run(visitor, "#export-page", tmp_path / "run.html")
    visitor.until("#note", "All 9 steps; opens without a network.")
    run = synthetic_run(seed=5, steps=8, labels=HOSTILE)
    reader = Visitor(browser, saved.as_uri())
    asked: list[str] = []
    reader.context.on("request", lambda request: asked.append(request.url.split("?")[0]))
    alone = reader.page
    alone.goto(saved.as_uri())
    alone.wait_for_selector("#tree .main-svg")
    alone.wait_for_selector("#lengths .main-svg")
    for index, step in enumerate(run.steps):
        alone.evaluate(
            """(n) => { const s = document.querySelector('.nav input'); s.value = n;
                s.dispatchEvent(new Event('input', {bubbles: true})); }""",
            index,
        )
        reader.until_step(step.index)
        drawn = "document.querySelector('#tree .fig').layout.uirevision.toString().split('-')[0]"
        alone.wait_for_function(f"(n) => {drawn} === String(n)", arg=step.index)
    alone.keyboard.press("ArrowLeft")
    reader.until_step(run.steps[-2].index)
    alone.click("#step-next")
    reader.until_step(run.steps[-1].index)
    alone.click("[data-view=draft]")
    alone.wait_for_selector("[data-view=draft][aria-selected=true]")
    reader.save_shot("saved-page")
    assert '<img src=x onerror="window.hacked=1">' in reader.text(".source-prompt")
    assert alone.evaluate("window.hacked") is None
    assert alone.evaluate("document.querySelectorAll('img, .fig a').length") == 0
    assert asked == [saved.as_uri()], "the file itself and nothing else"
    reader.context.close()
    reader.check()


def test_a_run_goes_on_while_its_tab_is_not_seen(desk: Visitor, server: Server) -> None:
    visitor = desk
    page = visitor.open()
    lifecycle = page.context.new_cdp_session(page)
    server.gate.clear()
    try:
        ask(visitor, "while you look elsewhere")
        visitor.until("#source", "running")
        page.get_by_role("tab", name="Rule lab").click()
        page.wait_for_selector("#lab .stage", state="visible")
        lifecycle.send("Page.setWebLifecycleState", {"state": "frozen"})
    finally:
        server.gate.set()
    page.wait_for_timeout(1500)  # the run ends while the page sleeps; the page can not tell us
    lifecycle.send("Page.setWebLifecycleState", {"state": "active"})
    page.get_by_role("tab", name="Explore").click()
    visitor.until("#note", "Done.")
    visitor.until_step(9)
    page.wait_for_function(
        "document.querySelector('#tree .fig').layout?.uirevision?.toString().startsWith('9-')"
    )
    box = page.locator("#tree .main-svg").first.bounding_box()
    assert box["width"] > 300, "drawn at full size, not at that of a hidden tab"
    assert box["height"] > 40


def test_a_file_that_is_no_trace_gets_one_sentence(desk: Visitor, tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text('{"version": 1, "steps": "<script>"}')
    visitor = desk
    visitor.open()
    choose(visitor, bad)
    visitor.until("#note .fault", "This is not a trace that can be read")


def test_two_visitors_never_see_each_others_runs(visit: Any) -> None:
    one, two = visit(), visit()
    one.open()
    two.open()
    ask(one, "the first visitor's question")
    ask(two, "another visitor's question")
    for visitor, theirs, others in (
        (one, "the first visitor", "another"),
        (two, "another visitor", "the first"),
    ):
        visitor.until("#note", "Done.")
        visitor.until("#source", theirs)
        visitor.until_step(9)
        assert others not in visitor.text("#source")
    one.page.click("#step-previous")
    one.until_step(8)
    assert two.step() == 9
    one.page.reload()
    one.page.wait_for_selector("#tree .main-svg")
    assert "recorded run" in one.text("#source"), "a reload starts clean"


def test_a_recorded_run_opens_from_the_menu(desk: Visitor) -> None:
    visitor = desk
    page = visitor.open()
    page.click("#recorded input")
    page.get_by_role("option", name="A paper run").click()
    visitor.until("#source", "tree 60/6/10")
    visitor.until(".sentence", "Guessed 60 tokens")
