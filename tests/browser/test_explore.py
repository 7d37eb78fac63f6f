"""The Explore tab in a real browser: first paint, stepping, nodes, keys, themes, phones, hostile tokens."""

from __future__ import annotations

import json
import os
import statistics
from typing import Any

import pytest

from app.figures.residual import lowest, parent_of
from app.session import FINAL, Look, View, opening, step_of, telling_node, to_step, walk
from app.theme import three_digits
from app.to_lab import NOT_A_GUESS, lab_state
from tests.browser.conftest import Server, Visitor
from tests.synthetic import HOSTILE, synthetic_run

pytestmark = pytest.mark.browser
FIRST = synthetic_run(seed=3, steps=14, mix=0.7)


def test_the_first_paint_is_a_recorded_run_with_a_telling_node_open(desk: Visitor) -> None:
    visitor = desk
    visitor.open()
    look = opening(FIRST)
    assert "recorded run" in visitor.text("#source")
    assert "temperature .7" in visitor.text("#source")
    assert visitor.step() == FIRST.steps[look.step].index
    assert "accepted" in visitor.text(".panel-title")
    assert "was rejected" in visitor.text(".verdict")
    assert "Guessed 12 tokens" in visitor.text(".sentence")
    visitor.save_shot("first")


def test_buttons_slider_and_keys_change_the_step(desk: Visitor) -> None:
    visitor = desk
    page = visitor.open("?run=first&step=5")
    visitor.until_step(5)
    page.click("#step-next")
    visitor.until_step(6)
    page.keyboard.press("ArrowLeft")
    visitor.until_step(5)
    page.keyboard.press("ArrowRight")
    visitor.until_step(6)
    page.focus("#prompt textarea")
    page.keyboard.press("ArrowLeft")
    slider = page.locator(".nav input[type=range]")
    for value in range(14):  # dragged fast: the last place counts
        slider.evaluate(
            "(s, v) => { s.value = v; s.dispatchEvent(new Event('input', {bubbles: true})); }", value
        )
    visitor.until_step(13)
    assert "step=13" in page.url


def test_a_click_on_the_step_bar_and_on_a_token_goes_there(desk: Visitor) -> None:
    visitor = desk
    page = visitor.open()
    token = page.locator(".answer .tok[data-step='2']").first
    token.click()
    visitor.until_step(2)
    page.wait_for_selector(".answer .tok.here[data-step='2']")
    place = page.evaluate(
        """() => { const p = document.querySelector('#steps .fig'); p.scrollIntoView({block: 'center'});
          const b = p.getBoundingClientRect(), s = p._fullLayout._size;
          return [b.left + s.l + p._fullLayout.xaxis.d2p(9), b.top + s.t + 20]; }"""
    )
    page.mouse.move(place[0] - 2, place[1])
    page.mouse.move(*place)
    page.mouse.click(*place)
    visitor.until_step(9)


def test_a_click_on_a_node_opens_its_panel(desk: Visitor) -> None:
    visitor = desk
    page = visitor.open()
    step = step_of(FIRST, opening(FIRST))
    assert step.tree is not None
    rejected = next(trial.node for trial in step.trials if not trial.accepted)
    visitor.click_node(rejected)
    visitor.until(".panel-title", "rejected")
    assert str(step.tree.confidence[rejected]) in page.inner_html("#node")
    visitor.click_node(FINAL)
    assert step.final is not None
    visitor.until(".panel-title", step.final.origin.value)
    visitor.click_node(-1)
    visitor.until(".panel-title", "last token")


def test_a_double_click_shows_the_whole_tree_and_never_turns_it(desk: Visitor) -> None:
    visitor = desk
    page = visitor.open()
    ranges = """(() => { const l = document.querySelector('#tree .fig').layout;
        return [l.xaxis.range, l.yaxis.range, l.xaxis.autorange === true, l.yaxis.autorange === true]; })()"""
    before = page.evaluate(ranges)
    page.mouse.dblclick(*visitor.place_of(-1))
    visitor.until(".panel-title", "last token")
    page.evaluate("new Promise((done) => setTimeout(done, 50))")
    assert page.evaluate(ranges) == before
    page.evaluate("Plotly.relayout(document.querySelector('#tree .fig'), {'xaxis.range': [0, 200]})")
    page.mouse.dblclick(*visitor.place_of(-1))
    page.wait_for_function(f"(b) => JSON.stringify({ranges}) === JSON.stringify(b)", arg=before)


def test_a_nodes_siblings_are_taken_to_the_rule_lab(desk: Visitor) -> None:
    visitor = desk
    page = visitor.open()
    look = opening(FIRST)
    state = lab_state(FIRST, step_of(FIRST, look), look.node)
    assert state is not None
    page.click("#node [data-act=lab]")
    page.wait_for_selector("#lab .stage", state="visible")
    names = "[...document.querySelectorAll('#lab input.name-in')].map((field) => field.value)"
    page.wait_for_function(
        f"(wanted) => JSON.stringify({names}) === wanted",
        arg=json.dumps(state.tokens, separators=(",", ":"), ensure_ascii=False),
    )
    shown = [field.input_value() for field in page.locator("#lab .stage input.box-in").all()]
    assert {three_digits(p) for p in (*state.target, *state.draft)} <= set(shown)
    page.get_by_role("tab", name="Explore").click()
    page.focus("#tree .fig")
    page.keyboard.press("Home")
    visitor.until(".panel-title", "last token")
    assert page.is_disabled("#node [data-act=lab]")
    visitor.until("#node", NOT_A_GUESS)


def test_arrow_keys_walk_the_tree_when_it_has_the_focus(desk: Visitor) -> None:
    visitor = desk
    page = visitor.open()
    look = opening(FIRST)
    page.focus("#tree .fig")
    for key in ("ArrowLeft", "ArrowRight", "ArrowDown", "End"):
        look = walk(FIRST, look, key)
        page.keyboard.press(key)
        page.wait_for_function(
            "(n) => new URL(location).searchParams.get('node') === String(n)", arg=look.node
        )
    assert visitor.step() == FIRST.steps[look.step].index, "the step has stayed"


def test_the_views_switch_in_place_and_keep_the_selection(desk: Visitor) -> None:
    visitor = desk
    page = visitor.open()
    chosen = page.inner_text(".panel-token")
    for view in (View.DRAFT, View.OUTCOME, View.VERIFY):
        page.click(f"[data-view={view}]")
        page.wait_for_selector(f"[data-view={view}][aria-selected=true]")
        assert page.inner_text(".panel-token") == chosen
        visitor.save_shot(f"view-{view}")


def test_trials_are_told_one_by_one(desk: Visitor) -> None:
    visitor = desk
    page = visitor.open()
    step = step_of(FIRST, opening(FIRST))
    page.click(".story button")
    visitor.until(".story-at", f"trial 1 of {len(step.trials)}")
    visitor.until(".panel-title", "accepted" if step.trials[0].accepted else "rejected")
    page.click(".story [data-by='1']")
    visitor.until(".story-at", f"trial 2 of {len(step.trials)}")
    visitor.save_shot("trial")
    page.click(".story [data-by='0']")
    visitor.until(".story", "step through")


def test_what_rerank_cut_is_shown_on_demand(desk: Visitor) -> None:
    visitor = desk
    page = visitor.open("?run=paper&step=2&view=draft")
    visitor.until(".tree-key", "rerank kept 60 of 510 candidates")
    page.click("[data-act=cut]")
    page.wait_for_selector("#candidates .main-svg")
    count = page.evaluate(
        "document.querySelector('#candidates .fig')._fullData.map((t) => t.x.length).reduce((a, b) => a + b)"
    )
    assert count == 510
    visitor.save_shot("cut")


def test_a_link_opens_a_recorded_run_at_a_step_and_a_node(desk: Visitor) -> None:
    visitor = desk
    visitor.open("?run=hostile&step=3&node=-2&view=outcome")
    visitor.until(".source-prompt", "<img src=x")
    visitor.until_step(3)
    visitor.page.wait_for_selector("[data-view=outcome][aria-selected=true]")
    visitor.page.goto(f"{visitor.url}/?run=nothing")
    visitor.until("#note", "not here")
    assert "recorded run" in visitor.text("#source")


def test_hostile_tokens_are_shown_literally_and_nothing_runs(desk: Visitor) -> None:
    visitor = desk
    page = visitor.open("?run=hostile&step=3")
    run = synthetic_run(seed=5, steps=8, labels=HOSTILE)
    visitor.until(".source-prompt", "<img src=x")
    for index in range(len(run.steps)):
        page.evaluate(
            """(n) => { const s = document.querySelector('.nav input'); s.value = n;
                s.dispatchEvent(new Event('input', {bubbles: true})); }""",
            index,
        )
        visitor.until_step(index)
        drawn = "(n) => document.querySelector('#tree .fig').layout.uirevision.toString()"
        page.wait_for_function(f"{drawn}.split('-')[0] === String(n)", arg=index)
        assert page.evaluate("document.querySelectorAll('#tabs img, #tabs script, .fig a').length") == 0
    assert page.evaluate("window.hacked") is None
    shown = page.evaluate("[...document.querySelectorAll('.fig text')].map((t) => t.textContent).join(' ')")
    drawn = {token for token in HOSTILE if token.startswith("<b") and token in shown}
    assert drawn, "at least one tag is drawn as text"
    assert "MathJax" not in page.evaluate("Object.keys(window).join(' ')")
    visitor.save_shot("hostile")


def test_the_theme_switches_with_figures_open(desk: Visitor) -> None:
    visitor = desk
    page = visitor.open()
    colours = "() => document.querySelector('#tree .fig').data.map((t) => t.fillcolor).filter(Boolean).join()"
    light = page.evaluate(colours)
    page.click(".theme-switch")
    page.wait_for_function(f"(old) => ({colours})() !== old", arg=light)
    page.wait_for_function("getComputedStyle(document.body).backgroundColor === 'rgb(14, 18, 24)'")
    visitor.save_shot("dark")
    page.click(".theme-switch")
    page.wait_for_function(f"(old) => ({colours})() === old", arg=light)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_phone_sees_everything_without_sideways_scrolling(visit: Any, theme: str) -> None:
    visitor = visit(viewport={"width": 400, "height": 800}, has_touch=True, is_mobile=True)
    page = visitor.open(f"?__theme={theme}")
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    for selector in (
        "#answer",
        "#steps .main-svg",
        "#tree .main-svg",
        "#node",
        "#strip .main-svg",
        "#meters",
    ):
        assert page.locator(selector).first.bounding_box()["height"] > 40, selector
    visitor.save_shot(f"phone-{theme}")


def grown(page: Any) -> str:
    """Waits for the drawn tree; whether it grows ``down`` or to the ``right``."""
    page.wait_for_selector("#tree .main-svg")
    return "down" if page.evaluate("document.querySelector('#tree .fig').layout.meta.down") else "right"


def test_a_phones_tree_grows_downwards_and_can_be_walked(visit: Any) -> None:
    visitor = visit(viewport={"width": 400, "height": 800}, has_touch=True, is_mobile=True)
    page = visitor.open("?run=first&step=5")
    visitor.until_step(5)
    page.wait_for_function("document.querySelector('#tree .fig').layout?.meta?.down === true")
    look = to_step(FIRST, Look(narrow=True), 5)
    page.focus("#tree .fig")
    for key in ("ArrowUp", "ArrowDown", "ArrowRight", "Home", "ArrowDown"):
        look = walk(FIRST, look, key)
        page.keyboard.press(key)
        page.wait_for_function(
            "(n) => new URL(location).searchParams.get('node') === String(n)", arg=look.node
        )
    tree = FIRST.steps[5].tree
    assert tree is not None
    visitor.click_node(tree.children(-1)[0])
    page.wait_for_function("new URL(location).searchParams.get('node') === '0'")
    visitor.save_shot("phone-tree")
    drawn = page.evaluate("document.querySelector('#tree [data-drawn]').dataset.drawn")
    page.click("#step-next")
    visitor.until_step(6)
    page.wait_for_function(
        "(d) => document.querySelector('#tree [data-drawn]').dataset.drawn !== d", arg=drawn
    )
    assert grown(page) == "down"
    page.set_viewport_size({"width": 900, "height": 800})
    page.wait_for_function("document.querySelector('#tree .fig').layout?.meta?.down === false")
    assert visitor.step() == 6, "turning the phone changes nothing else"


def test_the_distributions_have_a_log_scale_on_demand(desk: Visitor) -> None:
    visitor = desk
    page = visitor.open()
    look = opening(FIRST)
    step = step_of(FIRST, look)
    scale = "document.querySelector('#strip .fig').layout?.uirevision?.toString().split('-').pop()"
    page.wait_for_function(f"{scale} === 'False'")
    page.click("[data-act=log]")
    page.wait_for_function(f"{scale} === 'True'")
    least = lowest(step, FIRST.labels(), parent_of(step, look.node))
    visitor.until("#strip-title", f"the lowest value here above 0 is {three_digits(least)}")
    visitor.save_shot("log-scale")
    page.click("#step-next")
    page.wait_for_function(
        f"(r) => {scale} === 'True' && document.querySelector('#strip .fig').layout.uirevision !== r", arg=""
    )
    page.click("[data-act=log]")
    page.wait_for_function(f"{scale} === 'False'")


PLAYING = "document.documentElement.dataset.playing"


def test_play_goes_on_to_the_end_and_stops_there(desk: Visitor) -> None:
    visitor = desk
    last = len(FIRST.steps) - 1
    page = visitor.open(f"?run=first&step={last - 2}")
    visitor.until_step(last - 2)
    page.click("[data-pace]:not(html)")
    assert visitor.text(".pace") == "every .7 s"
    page.click("[data-play=step]")
    assert visitor.text("[data-play=step]") == "❚❚ pause"
    visitor.until_step(last)
    page.wait_for_function(f"{PLAYING} === undefined")
    assert visitor.text("[data-play=step]") == "▶ play"


def test_play_tells_the_trials_and_stops_with_the_story(desk: Visitor) -> None:
    visitor = desk
    page = visitor.open()
    trials = len(step_of(FIRST, opening(FIRST)).trials)
    page.click("[data-pace]:not(html)")
    page.click("[data-play=story]")
    for trial in range(1, trials + 1):
        visitor.until(".story-at", f"trial {trial} of {trials}")
    visitor.until(".story", "step through")
    page.wait_for_function(f"{PLAYING} === undefined")
    assert visitor.step() == FIRST.steps[opening(FIRST).step].index, "the step has stayed"


def test_anything_that_moves_stops_play_and_so_does_a_hidden_page(desk: Visitor) -> None:
    visitor = desk
    page = visitor.open("?run=first&step=2")
    visitor.until_step(2)

    def play() -> None:
        page.click("[data-play=step]")
        page.wait_for_function(f"{PLAYING} === 'step'")

    stops = (
        lambda: page.click("[data-play=step]"),
        lambda: page.keyboard.press("ArrowLeft"),
        lambda: page.click("#step-previous"),
        lambda: visitor.click_node(-1),
        lambda: page.get_by_role("tab", name="Race").click(),
    )
    for stop in stops:
        play()
        stop()
        page.wait_for_function(f"{PLAYING} === undefined")
    visitor.open("?run=first&step=2")  # a step may have been on its way when play was stopped
    visitor.until_step(2)
    play()
    visitor.until_step(3)
    page.evaluate(
        """Object.defineProperty(document, 'hidden', {configurable: true, get: () => true});
        document.dispatchEvent(new Event('visibilitychange'));"""
    )
    page.wait_for_function(f"{PLAYING} === undefined")
    page.wait_for_timeout(1800)  # a pace and more: nothing is to happen, so there is no event to wait for
    assert visitor.step() == 3


def test_zoom_is_kept_within_a_step_and_not_beyond(desk: Visitor) -> None:
    visitor = desk
    page = visitor.open()
    whole = "document.querySelector('#tree .fig').layout.xaxis.range.map(Math.round).join()"
    before = page.evaluate(whole)
    page.locator("#tree .fig").scroll_into_view_if_needed()
    box = page.locator("#tree .fig").bounding_box()
    page.mouse.move(box["x"] + 20, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 420, box["y"] + box["height"] - 20, steps=6)
    page.mouse.up()
    page.wait_for_function(f"(b) => {whole} !== b", arg=before)
    zoomed = page.evaluate(whole)
    page.focus("#tree .fig")
    chosen = page.inner_text(".panel-token")
    page.keyboard.press("Home")
    page.wait_for_function("(c) => document.querySelector('.panel-token').innerText !== c", arg=chosen)
    drawn = "document.querySelector('#tree [data-drawn]').dataset.drawn"
    page.wait_for_function(f"() => Number({drawn}) > 1")
    assert page.evaluate(whole) == zoomed, "another node of the same step"
    page.click("#step-next")
    page.wait_for_function(f"(z) => {whole} !== z", arg=zoomed)


def test_no_button_of_a_figure_sends_it_away(desk: Visitor) -> None:
    page = desk.open()
    page.hover("#tree .fig")
    titles = page.evaluate(
        "[...document.querySelectorAll('.modebar-btn')].map((b) => b.dataset.title).join()"
    )
    assert "Download" in titles
    assert not any(word in titles for word in ("Share", "loud", "Edit"))


@pytest.mark.long
def test_a_step_change_is_painted_soon(desk: Visitor) -> None:
    visitor = desk
    page = visitor.open()
    times = page.evaluate(
        """async () => {
          const view = document.querySelector('#tree [data-drawn]'), times = [];
          for (let i = 0; i < 12; i++) {
            const before = view.dataset.drawn, began = performance.now();
            document.querySelector(i % 2 ? '#step-next' : '#step-previous').click();
            while (view.dataset.drawn === before && performance.now() - began < 5000)
              await new Promise((r) => requestAnimationFrame(r));
            times.push(performance.now() - began);
            await new Promise((r) => setTimeout(r, 150));
          }
          return times;
        }"""
    )
    print(f"step to painted: median {statistics.median(times):.0f} ms, best {min(times):.0f} ms")
    # Promised for an idle machine; where others compete for its cores only a freeze is a failure.
    idle = os.getloadavg()[0] < (os.cpu_count() or 1)
    assert min(times) < (150 if idle else 1000), json.dumps(times)


def test_at_temperature_zero_a_sentence_says_why_everything_is_zero_or_one(desk: Visitor) -> None:
    visitor = desk
    visitor.open("?run=greedy&step=2&node=0")
    visitor.until("#node", "every accept probability is 0 or 1")


def test_the_opened_node_is_the_one_that_tells_most() -> None:
    """Guards the helper that the tests above rely on."""
    look = Look(step=opening(FIRST).step)
    assert telling_node(step_of(FIRST, look)) == opening(FIRST).node


def test_the_server_is_reached_by_loopback_only(server: Server) -> None:
    assert server.url.startswith("http://127.0.0.1:")
