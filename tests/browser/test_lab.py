"""The rule lab in a real browser: links, keys, dragging, class mode, phones, hostile names, pictures."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from app import lessons
from app.lab_query import to_query
from app.lab_state import MAX_TOKENS, clean_names
from tests.browser.conftest import PATIENCE_MS, Visitor

pytestmark = pytest.mark.browser
EVIL = ['<img src=x onerror="window.hacked=1">', "<b>bold</b>", "$x$", "\n", " a", "👩‍👩‍👧", "%{x}&lt;", ""]


class Lab:
    """The lab on a visitor's page; every action waits for its answer."""

    def __init__(self, visitor: Visitor, query: str = "tab=lab") -> None:
        self.visitor, self.page = visitor, visitor.page
        self.page.goto(f"{visitor.url}/?{query}")
        self.page.wait_for_selector(".lab[data-ready]")

    def answers(self) -> int:
        return int(self.page.get_attribute(".lab", "data-ready") or 0)

    def until(self, count: int) -> None:
        self.page.wait_for_function(
            "(n) => Number(document.querySelector('.lab').dataset.ready) >= n", arg=count, timeout=PATIENCE_MS
        )

    def press(self, key: str) -> None:
        count = self.answers()
        self.page.keyboard.press(key)
        self.until(count + 1)

    def click(self, selector: str) -> None:
        count = self.answers()
        self.page.locator(selector).first.click()
        self.until(count + 1)

    def text(self, selector: str) -> str:
        return self.visitor.text(selector)


@pytest.fixture
def lab(lab_desk: Visitor) -> Lab:
    return Lab(lab_desk)


def test_a_link_opens_the_lab_and_restores_it_and_editing_changes_the_address(desk: Visitor) -> None:
    state = lessons.open_card(2, 1)
    lab = Lab(desk, to_query(state))
    assert lab.page.input_value(".k-in") == "2"
    assert ".592" in lab.text(".left-table")
    assert lab.page.url.endswith(to_query(state))
    box = lab.page.locator("input[aria-label^='target probability of “have”'][type=text]")
    count = lab.answers()
    box.fill(".4")
    box.press("Enter")
    lab.until(count + 1)
    assert "sum of 1" in lab.text(".l-note")
    assert "lab.p=" in lab.page.url
    bars = lab.text(".left-table")
    lab.page.reload()
    lab.page.wait_for_selector(".lab[data-ready]")
    assert lab.text(".left-table") == bars


def test_bad_values_in_a_link_are_said_in_a_note(lab_desk: Visitor) -> None:
    lab = Lab(lab_desk, "tab=lab&lab.p=1,nan&run=first&step=2")
    assert "not finite" in lab.text(".l-note")
    lab.press("Space")
    assert "run=first&step=2" in lab.page.url, "keys of other tabs are left alone"


def test_every_lesson_can_be_walked_by_keyboard_alone(lab: Lab) -> None:
    seen = []
    for number, lesson in enumerate(lessons.LESSONS, 1):
        for index, card in enumerate(lesson.cards, 1):
            assert lab.text(".question h2").startswith(card.question[:12].replace("*", ""))
            assert lab.page.locator(".dot-btn[aria-current]").inner_text() == str(index)
            seen.append((number, index))
            if card.stage in ("lab", "recorded"):
                for _ in range(3):
                    lab.press("Space")
                lab.press("ArrowLeft")
                lab.press("r")
            lab.press("a")
            assert lab.page.locator(".l-answer").count() == 1
            if card.stage in ("lab", "recorded"):
                assert "total variation from the target" in lab.text(".card-law")
            if (number, index) != (6, len(lesson.cards)):
                lab.press("n")
    assert len(seen) == sum(len(lesson.cards) for lesson in lessons.LESSONS)
    lab.press("p")
    assert "lab.lesson=6" in lab.page.url
    for key, preset in enumerate(lessons.PRESETS, 1):
        lab.press(str(key))
        assert lab.text(".question h2").startswith(preset.question[:12])


def test_space_steps_one_trial_at_a_time_and_the_draw_falls_on_the_bar(lab: Lab) -> None:
    assert lab.page.locator(".rung .pin").count() == 0
    lab.press("Space")
    assert "✗ rejected" in lab.text(".rung.is-rejected")
    assert "not below .51" in lab.text(".now")
    lab.press("ArrowRight")
    assert lab.text(".came-out") == "comes out: have"
    lab.press("ArrowLeft")
    assert lab.page.locator(".came-out").count() == 0


def test_keys_are_never_taken_from_a_text_field(lab: Lab) -> None:
    question = lab.text(".question h2")
    name = lab.page.locator(".name-in").first
    name.click()
    name.fill("")
    lab.page.keyboard.type("r n 1 a p")
    assert name.input_value() == "r n 1 a p"
    assert lab.text(".question h2") == question
    count = lab.answers()
    name.press("Enter")
    lab.until(count + 1)
    assert "r␣n␣1␣a␣p" in lab.text(".left-table")


def test_a_bar_a_draw_and_u_can_be_dragged_and_typed(lab: Lab) -> None:
    bar = lab.page.locator(".bar-target input[type=range]").first
    box = bar.bounding_box()
    lab.page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + box["height"] / 2)
    lab.page.mouse.down()
    for share in (0.6, 0.7, 0.8):
        lab.page.mouse.move(box["x"] + share * box["width"], box["y"] + box["height"] / 2)
    lab.page.mouse.up()
    lab.page.wait_for_function("() => /lab\\.p=0\\.(7|8)/.test(location.search)")
    value = float(lab.page.locator(".bar-target input[type=range]").first.input_value())
    assert 0.7 < value < 0.9
    lab.page.keyboard.press("Home")
    lab.page.wait_for_function("() => /lab\\.p=0,1/.test(location.search)")
    draw = lab.page.locator(".rung .r-in").first
    draw.fill("0.25")
    draw.press("Enter")
    # Not a count of answers: a key on a slider asks twice, as it moves and when it rests.
    lab.page.wait_for_function("() => /lab\\.r=8:0\\.25/.test(location.search)")
    assert "r = .25" in lab.page.text_content(".rung .rung-bar")


def test_the_rule_menu_marks_the_misreading_as_biased(lab: Lab) -> None:
    count = lab.answers()
    lab.page.locator(".rule-menu select").select_option("misreading")
    lab.until(count + 1)
    assert "BIASED" in lab.text(".card-draw")
    lab.press("a")
    assert "BIASED · total variation from the target .49" in lab.text(".card-law")
    colour = lab.page.eval_on_selector(".card-law .mark", "(node) => getComputedStyle(node).color")
    assert colour == "rgb(179, 38, 30)"


def test_the_experiment_and_the_proof_show_without_any_other_host(lab: Lab) -> None:
    lab.click(".panel-head .toggle >> text=10,000")
    assert "G-test against the target: p below 1e-12" in lab.text(".notes")
    lab.click(".panel-tabs >> text=Why it works")
    lab.page.wait_for_selector("#lab-proof .katex-html")
    families = lab.page.evaluate(
        "() => document.fonts.ready.then(() => [...document.fonts].filter((f) => /KaTeX_M/.test(f.family)"
        " && f.status === 'loaded').length)"
    )
    assert families >= 1
    lab.click(".panel-tabs >> text=Teacher's page")
    assert lab.page.locator("#lab-proof").is_hidden()


def test_predictions_come_before_the_verdict(lab: Lab) -> None:
    lab.click(".lab-foot .toggle >> text=predict first")
    assert "where is the cut?" in lab.text(".rung.is-next")
    assert ".51" not in lab.text(".rung.is-next .rung-bar")
    lab.page.locator(".predict input").fill(".5")
    lab.click(".predict button >> text=rejected")
    assert "✗ rejected" in lab.text(".rung.is-rejected")
    assert "lab.guesses=0:0.5:0.51:0" in lab.page.url


def test_class_mode_is_light_large_and_kept_in_the_link(lab_desk: Visitor) -> None:
    lab = Lab(lab_desk, "tab=lab&__theme=dark")
    assert lab.page.evaluate("() => document.body.classList.contains('dark')")
    lab.click(".lab-foot .toggle >> text=class mode")
    assert not lab.page.evaluate("() => document.body.classList.contains('dark')")
    assert "lab.room=1" in lab.page.url
    for action in ("Space", "a", "n", "a"):
        lab.press(action)
    small = lab.page.evaluate(
        """() => {
            const walker = document.createTreeWalker(document.querySelector('.lab'), NodeFilter.SHOW_TEXT);
            const out = [];
            for (let node = walker.nextNode(); node; node = walker.nextNode()) {
                const box = node.parentElement;
                const shown = node.data.trim() && box.getClientRects().length;
                if (!shown || box.closest('title, option')) continue;
                const size = parseFloat(getComputedStyle(box).fontSize);
                if (size < 18) out.push([size, node.data.trim(), box.className.baseVal ?? box.className]);
            }
            return out;
        }"""
    )
    assert small == []
    lab.click(".lab-foot .toggle >> text=class mode")
    assert lab.page.evaluate("() => document.body.classList.contains('dark')")


def hostile_query() -> str:
    names = "&".join(f"lab.t={quote(name)}" for name in clean_names(EVIL))
    even = ",".join(["0.125"] * MAX_TOKENS)
    return f"tab=lab&lab.lesson=0&{names}&lab.p={even}&lab.q={even}&lab.k=8&lab.step=3&lab.n=100"


def test_hostile_names_are_shown_and_never_run(lab_desk: Visitor) -> None:
    lab = Lab(lab_desk, hostile_query())
    assert lab.page.evaluate("() => window.hacked") is None
    assert lab.page.locator(".lab img").count() == 0
    assert "<b>bold</b>" in lab.text(".outcome-table")
    assert "∅" in lab.text(".left-table")


@pytest.fixture
def phone(lab_desk: Visitor) -> Iterator[Visitor]:
    lab_desk.page.set_viewport_size({"width": 400, "height": 800})
    yield lab_desk
    lab_desk.page.set_viewport_size({"width": 1280, "height": 900})


@pytest.mark.long
def test_nothing_is_cut_off_or_overlaps_on_a_phone(phone: Visitor) -> None:
    lab = Lab(phone, hostile_query())
    pages = [to_query(lessons.open_card(number, 1)) for number in range(1, 7)]
    for query in [hostile_query(), *pages]:
        lab.page.goto(f"{lab.visitor.url}/?{query}")
        lab.page.wait_for_selector(".lab[data-ready]")
        for view in ("experiment", "why", "misreadings", "letters", "teacher"):
            if lab.page.locator(".panel-tabs").count():
                lab.page.evaluate("() => window.scrollTo(0, 0)")
                index = ["experiment", "why", "misreadings", "letters", "teacher"].index(view)
                lab.click(f".panel-tabs button:nth-child({index + 1})")
            wide = lab.page.evaluate("() => document.documentElement.scrollWidth - window.innerWidth")
            assert wide <= 0, (query[:60], view)


def test_the_link_is_copied_from_the_pages_own_address(lab: Lab) -> None:
    lab.visitor.context.grant_permissions(["clipboard-read", "clipboard-write"])
    lab.press("Space")
    lab.page.locator("[data-local=copy]").click()
    lab.page.wait_for_selector(".l-note")
    copied = lab.page.evaluate("() => navigator.clipboard.readText()")
    assert copied == f"{lab.visitor.url}/?tab=lab&lab.step=1"


def test_inside_a_frame_the_parent_hears_of_the_state(desk: Visitor) -> None:
    page = desk.page
    page.goto(f"{desk.url}/gradio_api/startup-events")
    page.evaluate(
        """(url) => {
            window.heard = [];
            window.postMessage = (...message) => window.heard.push(message);
            document.body.innerHTML = `<iframe src="${url}" style="width:1200px;height:800px"></iframe>`;
        }""",
        f"{desk.url}/?tab=lab",
    )
    frame = page.frame_locator("iframe")
    frame.locator(".lab[data-ready]").wait_for()
    frame.locator(".controls .main").click()
    page.wait_for_function("() => window.heard.some(([data]) => /lab.step=1/.test(data.queryString || ''))")
    heard = page.evaluate("() => window.heard.find(([data]) => /lab.step=1/.test(data.queryString || ''))")
    assert heard[1] == "https://huggingface.co"


def test_a_picture_is_saved_whole(lab: Lab) -> None:
    lab.press("a")
    with lab.page.expect_download() as waiting:
        lab.page.locator(".card-law [data-local=svg]").click()
    drawn = waiting.value.path().read_text(encoding="utf-8")
    assert waiting.value.suggested_filename == "the-exact-law.svg"
    assert "var(" not in drawn
    assert re.search(r"✓ am", drawn)
    assert "<pattern" in drawn
    with lab.page.expect_download() as waiting:
        lab.page.locator(".card-law [data-local=png]").click()
    assert waiting.value.path().read_bytes().startswith(b"\x89PNG")


def test_pictures_and_fields_have_names_for_screen_readers(lab: Lab) -> None:
    lab.press("a")
    unnamed = lab.page.evaluate(
        """() => [...document.querySelectorAll('.lab svg[role=img], .lab input, .lab select, .lab button')]
            .filter((node) => !(node.getAttribute('aria-label') || node.innerText || node.closest('label')))
            .map((node) => node.outerHTML.slice(0, 80))"""
    )
    assert unnamed == []
    labels = lab.page.evaluate(
        "() => [...document.querySelectorAll('.lab svg[role=img]')]"
        ".map((node) => node.getAttribute('aria-label'))"
    )
    assert any("“am” accepted: .51" in label and "“have” drawn at the end: .49" in label for label in labels)


def test_lab_actions_do_not_wait_for_the_models_queue(desk: Visitor) -> None:
    lab = Lab(desk)
    requests: list[str] = []
    lab.page.on("request", lambda request: requests.append(request.url))
    lab.press("Space")
    assert any("component_server" in url for url in requests)
    assert not any("queue/join" in url for url in requests), json.dumps(requests)
