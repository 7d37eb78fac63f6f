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
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from app.gallery import Gallery
from app.replay import ReplayRunner
from tests.synthetic import HOSTILE, synthetic_run

PATIENCE_MS = 60_000  # a busy machine is slow, not wrong
LOOPBACK = {"127.0.0.1", "localhost", "[::1]", ""}


@dataclass
class Server:
    """Where the page is, the gate that a replayed run waits at after each step, and whether Stop arrived."""

    url: str
    gate: threading.Event
    told_to_stop: threading.Event


class WatchedRunner(ReplayRunner):
    """Says when it was told to stop."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.told_to_stop = threading.Event()

    def stop(self, visitor: str) -> None:
        super().stop(visitor)
        self.told_to_stop.set()


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
    gate.wait(PATIENCE_MS / 1000)


@pytest.fixture(scope="package")
def server(gallery: Gallery) -> Iterator[Server]:
    gate = threading.Event()
    gate.set()
    answer = synthetic_run(seed=11, steps=9)
    plain = synthetic_run(seed=12, steps=9, tree="1/1/1")
    runner = WatchedRunner(answer, plain, pause=lambda: wait_at(gate))
    demo, url = launch(runner, gallery)
    yield Server(url, gate, runner.told_to_stop)
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

    def set_up(self, **fields: str) -> None:
        """Opens the settings and fills them by label, blanks as underscores."""
        self.page.click("#settings button")
        for label, value in fields.items():
            self.enter(self.page.get_by_label(label.replace("_", " ")), value)

    def enter(self, box: Any, value: str) -> None:
        """Fills a box until the value stays: a part just mounted may be set once more."""
        held = 0
        while held < 3:
            if box.input_value() == value:
                held += 1
            else:
                held = 0
                box.fill(value)
            self.page.wait_for_timeout(50)

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
