"""What showing a run costs it, and memory run after run: ``python -m tests.page_cost [--rounds N]``.

Starts the page with the built-in pair on a free loopback port and opens it in Chromium. Then the same
runs are decoded by turns: alone, and asked for on the page with the browser drawing on the same cores.
After that run follows run on the page, each with a seed of its own, and the server's memory is read after
each. Exit status 1 when a promised number was missed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import psutil
from tqdm import tqdm

from app.crowd import CrowdRunner
from app.gallery import Gallery
from app.limits import Limits
from app.pair_holder import State
from app.runner import Decoding, Runner
from eagle.settings import Settings, Tree
from eagle.trace import RunTrace, StepTrace
from tests.browser.conftest import Visitor, chromium, launch

PROMPT = "Tell me a story about a fox."
MOST_LOST = 0.10  # of the decoder's speed, to drawing
MOST_GROWN_MB = 60.0  # after the first fifth of the runs, in which what is kept of recent runs fills up
PATIENCE_MS = 300_000


class Watched:
    """A run whose steps are clocked as they come."""

    def __init__(self, inner: Decoding) -> None:
        self.inner, self.note = inner, inner.note
        self.came: list[float] = []

    def waiting(self) -> Iterator[str]:
        return self.inner.waiting()

    def __iter__(self) -> Iterator[StepTrace]:
        for step in self.inner:
            self.came.append(time.perf_counter())
            yield step

    def trace(self) -> RunTrace:
        return self.inner.trace()

    def tokens_per_s(self) -> float:
        """By the clock on the wall from the prompt's pass to the end: waiting for a core counts."""
        tokens = sum(len(step.emitted) for step in self.trace().steps[1:])
        return tokens / (self.came[-1] - self.came[0])


class WatchedRunner(Runner):
    """Keeps the newest run to read its clock."""

    newest: Watched

    def begin(self, prompt: str, settings: Settings, visitor: str) -> Watched:
        self.newest = Watched(super().begin(prompt, settings, visitor))
        return self.newest


class Page:
    """The page as its visitor uses it."""

    def __init__(self, visitor: Visitor) -> None:
        self.visitor, self.page = visitor, visitor.open()
        visitor.context.set_default_timeout(PATIENCE_MS)

    def set_up(self, tree: str, tokens: int) -> None:
        self.visitor.set_up(number_input_for_Most_new_tokens=str(tokens))
        self.page.get_by_label("Also time plain decoding").uncheck()
        if tree != "12/4/4":
            self.page.get_by_text(tree, exact=True).click()
        self.page.fill("#prompt textarea", PROMPT)

    def run(self, seed: int) -> None:
        self.page.get_by_label("Seed").fill(str(seed))
        self.page.click("#run")
        self._until("#source", f"seed {seed} ")
        self._until("#note", "Done.")

    def _until(self, selector: str, words: str) -> None:
        """Looks now and then: looking at every frame would be most of what is measured.

        It waits in the browser's driver, through which the page's requests go; a sleep would hold them up.
        """
        while words not in self.visitor.text(selector):
            self.page.wait_for_timeout(500)


def main() -> int:
    args = options()
    runner = WatchedRunner()
    demo, url = launch(CrowdRunner(runner, Limits(runs_per_minute=10_000)), Gallery())
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        page = Page(Visitor(browser, url))
        runner.start_loading()
        while runner.status().state is not State.READY:
            time.sleep(0.2)
        page.set_up(args.tree, args.max_new_tokens)
        lost = drawing_cost(runner, page, args)
        grown = growth(page, args.runs)
        browser.close()
    demo.close()
    print(f"speed lost to drawing: {100 * lost:.1f}% (promised: under {100 * MOST_LOST:.0f}%)")
    print(f"memory after {args.runs} runs over that after the first fifth: {grown:+.0f} MB")
    return int(lost >= MOST_LOST or grown >= MOST_GROWN_MB)


def drawing_cost(runner: WatchedRunner, page: Page, args: argparse.Namespace) -> float:
    """The share of its speed that a run loses when it is shown, the median of the rounds."""
    tree: Any = args.tree if args.tree == "auto" else Tree.parse(args.tree)
    lost = []
    for number in tqdm(range(args.rounds), desc="by turns", unit="round"):
        seed = 1000 + number
        settings = Settings(tree=tree, temperature=0.7, seed=seed, max_new_tokens=args.max_new_tokens)

        def decode(settings: Settings = settings) -> None:
            for _ in runner.begin(PROMPT, settings, "alone"):
                pass

        def alone() -> float:
            # In a thread that ends with the run, as on the page: while two threads hold a pool of OpenMP
            # workers each, more of them than cores, every worker sleeps sooner and all runs lose a fifth.
            thread = threading.Thread(target=decode)
            thread.start()
            thread.join()
            return runner.newest.tokens_per_s()

        def shown(seed: int = seed) -> float:
            page.run(seed)
            return runner.newest.tokens_per_s()

        order = (alone, shown) if number % 2 else (shown, alone)
        speed = {way.__name__: way() for way in order}
        lost.append(1 - speed["shown"] / speed["alone"])
        tqdm.write(f"alone {speed['alone']:.2f}, shown {speed['shown']:.2f} tokens a second")
    return statistics.median(lost)


def growth(page: Page, runs: int) -> float:
    """Megabytes by which this process grew between a fifth of the runs and their end."""
    resident = []
    for number in tqdm(range(runs), desc="run after run", unit="run"):
        page.run(50_000 + number)
        resident.append(psutil.Process().memory_info().rss / 1e6)
        if number % max(1, runs // 10) == 0 or number == runs - 1:
            tqdm.write(f"run {number + 1}: {resident[-1]:.0f} MB")
    return resident[-1] - resident[runs // 5] if resident else 0.0


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.page_cost", description=__doc__.split("\n\n")[1])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--tree", default="12/4/4", choices=["12/4/4", "auto"])
    parser.add_argument("--max-new-tokens", type=int, default=64)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
