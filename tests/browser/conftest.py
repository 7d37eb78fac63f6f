"""One server with recorded runs on a free loopback port, and a browser that can reach nothing else.

They live as long as the tests of this folder, not longer: an open page keeps a core busy.

The browser is Chromium from the environment variable CHROMIUM or from the path. Without one these tests
are skipped on a developer's machine and fail in continuous integration (CI is set there).
"""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from app.gallery import Gallery
from app.replay import ReplayRunner
from tests.synthetic import HOSTILE, synthetic_run

PATIENCE_MS = 60_000  # a busy machine is slow, not wrong
LOOPBACK = {"127.0.0.1", "localhost", "[::1]", ""}

# The browser tests that every run of the suite takes; the others take minutes and run by name:
# python -m pytest -m "browser and long" tests/browser
IN_EVERY_RUN = (
    "test_the_first_paint_is_a_recorded_run",
    "test_buttons_slider_and_keys_change_the_step",
    "test_a_click_on_the_step_bar_and_on_a_token",
    "test_arrow_keys_walk_the_tree",
    "test_the_views_switch_in_place",
    "test_trials_are_told_one_by_one",
    "test_what_rerank_cut_is_shown",
    "test_a_link_opens_a_recorded_run",
    "test_hostile_tokens_are_shown_literally",
    "test_a_phone_sees_everything",
    "test_at_temperature_zero_a_sentence",
    "test_the_opened_node_is_the_one",
    "test_a_nodes_siblings_are_taken",
    "test_a_double_click_shows_the_whole_tree",
    "test_the_theme_switches",
    "test_a_phones_tree_grows_downwards",
    "test_the_distributions_have_a_log_scale",
    "test_play_tells_the_trials",
    "test_zoom_is_kept",
    "test_no_button_of_a_figure",
    "test_an_example_runs",
    "test_stop_in_the_middle",
    "test_a_step_can_be_read_while",
    "test_a_bad_prompt_gets_one_sentence",
    "test_a_bad_seed",
    "test_a_recorded_run_opens_from_the_menu",
    "test_a_run_goes_on_while_its_tab",
    "test_a_click_on_a_node",
    "test_play_goes_on",
    "test_anything_that_moves",
    "test_a_file_that_is_no_trace",
    "test_the_server_is_reached_by_loopback_only",
    "test_a_link_opens_the_lab",
    "test_bad_values_in_a_link",
    "test_every_lesson_can_be_walked_by_keyboard_alone",
    "test_space_steps_one_trial_at_a_time",
    "test_keys_are_never_taken_from_a_text_field",
    "test_the_rule_menu_marks_the_misreading",
    "test_the_experiment_and_the_proof_show",
    "test_predictions_come_before_the_verdict",
    "test_class_mode_is_light_large",
    "test_a_bar_a_draw_and_u_can_be_dragged",
    "test_the_link_is_copied",
    "test_inside_a_frame_the_parent_hears",
    "test_a_picture_is_saved_whole",
    "test_pictures_and_fields_have_names",
    "test_lab_actions_do_not_wait",
    "test_hostile_names_are_shown_and_never_run",
    "test_a_race_runs_and_replays",
    "test_a_race_of_no_method_is_one_sentence",
    "test_a_race_fits_on_a_phone",
    "test_the_width_is_measured_and_explained",
    "test_greedy_is_identical_on_screen",
    "test_sampling_passes_the_misreading_fails",
    "test_a_blank_prompt_is_one_sentence",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the other browser tests as long, before long tests are left out."""
    for item in items:
        if item.get_closest_marker("browser") and not item.name.startswith(IN_EVERY_RUN):
            item.add_marker(pytest.mark.long)


@dataclass
class Server:
    """Where the page is, and the gate that a replayed run waits at after each step."""

    url: str
    gate: threading.Event = field(default_factory=threading.Event)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def launch(runner: Any, gallery: Gallery) -> tuple[Any, str]:
    from app.ui import build_demo, launch_options

    demo = build_demo(runner, gallery)
    options = launch_options(gallery) | {
        "server_port": free_port(),
        "prevent_thread_lock": True,
        "quiet": True,
    }
    _, url, _ = demo.launch(**options)
    return demo, url.rstrip("/")


@pytest.fixture(scope="package")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Gallery:
    folder = tmp_path_factory.mktemp("traces")
    runs = {
        "first": synthetic_run(seed=3, steps=14, mix=0.7),
        "greedy": synthetic_run(seed=8, steps=5, temperature=0.0),
        "hostile": synthetic_run(
            seed=5, steps=8, labels=HOSTILE, prompt='<img src=x onerror="window.hacked=1">'
        ),
        "paper": synthetic_run(seed=4, steps=6, tree="60/6/10"),
    }
    for name, run in runs.items():
        (folder / f"{name}.json").write_text(run.model_copy(update={"title": f"A {name} run"}).to_json())
    return Gallery(folder)


def wait_at(gate: threading.Event) -> None:
    """Until the gate is open, but not for ever: a failed test must not hang the next one."""
    gate.wait(20)


@pytest.fixture(scope="package")
def server(gallery: Gallery) -> Iterator[Server]:
    gate = threading.Event()
    gate.set()
    answer = synthetic_run(seed=11, steps=9)
    plain = synthetic_run(seed=12, steps=9, tree="1/1/1")
    demo, url = launch(ReplayRunner(answer, plain, pause=lambda: wait_at(gate)), gallery)
    yield Server(url, gate)
    gate.set()
    demo.close()


def chromium() -> str:
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    found = os.environ.get("CHROMIUM") or next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        reason = "no Chromium: install it (Debian: apt install chromium) or set CHROMIUM to its path"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    path = chromium()
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


class Visitor:
    """A page in a browser of its own, with what the tests do on it."""

    def __init__(self, browser: Any, url: str, **context: Any) -> None:
        self.url = url
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **context})
        self.context.set_default_timeout(PATIENCE_MS)
        self.blocked: list[str] = []
        self.errors: list[str] = []
        self.context.route("**/*", self._only_loopback)
        self.page = self.context.new_page()
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    def _only_loopback(self, route: Any) -> None:
        if (urlsplit(route.request.url).hostname or "") in LOOPBACK:
            route.continue_()
        else:
            self.blocked.append(route.request.url)
            route.abort()

    def open(self, query: str = "") -> Any:
        """The page, once its figures are drawn."""
        self.page.goto(f"{self.url}/{query}")
        self.page.wait_for_selector("#tree .main-svg")
        self.page.wait_for_selector("#steps .main-svg")
        return self.page

    def text(self, selector: str) -> str:
        return " ".join(self.page.inner_text(selector).split())

    def until(self, selector: str, words: str) -> None:
        """Waits until an element says something."""
        self.page.wait_for_function(
            "([s, w]) => document.querySelector(s)?.innerText.replace(/\\s+/g, ' ').includes(w)",
            arg=[selector, words],
        )

    def step(self) -> int:
        return int(self.page.inner_text(".nav-step b"))

    def until_step(self, step: int) -> None:
        self.page.wait_for_function(
            "(n) => document.querySelector('.nav-step b').innerText === String(n)", arg=step
        )

    def place_of(self, node: int) -> list[float]:
        """Where a node's box is on the screen, scrolled into sight."""
        found: list[float] = self.page.evaluate(
            """(node) => {
                const plot = document.querySelector('#tree .fig');
                plot.scrollIntoView({block: 'center'});
                const trace = plot._fullData.find((t) => t.customdata && t.mode === 'markers');
                const i = trace.customdata.indexOf(node) + 1;
                const {xaxis, yaxis, margin} = plot._fullLayout;
                const box = plot.getBoundingClientRect();
                return [box.left + plot._fullLayout._size.l + xaxis.d2p(trace.x[i]),
                        box.top + plot._fullLayout._size.t + yaxis.d2p(trace.y[i])];
            }""",
            node,
        )
        return found

    def click_node(self, node: int) -> None:
        """Clicks a node's box in the drawn tree."""
        place = self.place_of(node)
        self.page.mouse.move(place[0] - 3, place[1])
        self.page.mouse.move(*place)
        self.page.mouse.click(*place)

    def check(self) -> None:
        """Nothing left this machine, and no script failed."""
        assert not self.blocked, f"the page asked for {self.blocked}"
        assert not self.errors, self.errors

    def save_shot(self, name: str) -> None:
        """A picture of the page, where SHOTS names a folder."""
        if folder := os.environ.get("SHOTS"):
            self.page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)


@pytest.fixture(scope="package")
def tiny(browser: Any, gallery: Gallery) -> Iterator[Visitor]:
    """One visitor of the Race and Proof tabs with a tiny live pair, for all the tests that need a model."""
    from tests.browser.small_pages import race_and_proof, visitor_of

    with visitor_of(browser, gallery, race_and_proof(gallery)) as visitor:
        yield visitor


@pytest.fixture(scope="package")
def lab_reader(browser: Any, gallery: Gallery) -> Iterator[Visitor]:
    from tests.browser.small_pages import lab_alone, visitor_of

    with visitor_of(browser, gallery, lab_alone()) as visitor:
        yield visitor


@pytest.fixture
def lab_desk(lab_reader: Visitor) -> Iterator[Visitor]:
    """One page of the rule lab alone, for the tests that need no other tab."""
    yield from at_the_desk(lab_reader)


@pytest.fixture(scope="package")
def reader(browser: Any, server: Server) -> Iterator[Visitor]:
    visitor = Visitor(browser, server.url)
    yield visitor
    visitor.context.close()


@pytest.fixture
def desk(reader: Visitor) -> Iterator[Visitor]:
    """One page for most tests, which open it anew: what it has loaded once stays in its cache."""
    yield from at_the_desk(reader)


def at_the_desk(reader: Visitor) -> Iterator[Visitor]:
    """The page of an earlier test for the next one, which answers for its own errors only."""
    reader.blocked.clear()
    reader.errors.clear()
    yield reader
    reader.check()


@pytest.fixture
def visit(browser: Any, server: Server) -> Iterator[Any]:
    """Makes visitors; closes them, and fails if one tried to leave this machine or had a script error."""
    made: list[Visitor] = []

    def make(**context: Any) -> Visitor:
        made.append(Visitor(browser, server.url, **context))
        return made[-1]

    yield make
    for visitor in made:
        visitor.context.close()
        visitor.check()
