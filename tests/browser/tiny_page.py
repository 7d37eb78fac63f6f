"""A page of one tab around a tiny live pair, for tabs that need a model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import gradio as gr

from app import proof, race
from app.crowd import CrowdRunner
from app.gallery import Gallery
from app.runner import Runner
from app.ui import launch_options
from eagle.trace import Costs
from tests.browser.conftest import Visitor, free_port
from tests.test_lossless import knowing_pair

PATIENCE_MS = 90_000  # a race or ten thousand judgements on a busy machine
COSTS = Costs(
    nodes=[1, 2, 4, 8, 16, 32, 64],
    pass_ms=[50, 52, 55, 60, 75, 110, 200],
    level_ms=5.0,
    typical_confidence=[0.5, 0.2, 0.1],
)


def pair() -> Any:
    made = knowing_pair()
    return replace(made, info=made.info.model_copy(update={"costs": COSTS}))


def one_tab(tab: str, runner: CrowdRunner, gallery: Gallery) -> gr.Blocks:
    """A page of this tab alone, in the style of the whole one: it opens several times faster."""
    with gr.Blocks(fill_width=True, analytics_enabled=False) as demo, gr.Tabs(), gr.Tab(tab):
        if tab == "Race":
            race.build(runner, gallery)
        else:
            proof.build(runner)
    return demo


@contextmanager
def visitor_of_tiny_page(browser: Any, gallery: Gallery, tab: str, **context: Any) -> Iterator[Visitor]:
    """A visitor of the tab, with the pair loaded."""
    runner = CrowdRunner(Runner(lambda say: pair()))
    runner.start_loading()
    demo = one_tab(tab, runner, gallery)
    options = {"server_port": free_port(), "prevent_thread_lock": True, "quiet": True}
    _, url, _ = demo.launch(**launch_options(gallery) | options)
    visitor = Visitor(browser, url.rstrip("/"), **context)
    visitor.context.set_default_timeout(PATIENCE_MS)
    visitor.page.goto(visitor.url)
    visitor.page.wait_for_selector("button.primary")
    yield visitor
    visitor.check()
    visitor.context.close()
    demo.close()
