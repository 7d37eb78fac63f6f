"""Pages of a few tabs alone: they open several times faster than the whole one, in the same style."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import gradio as gr
from playwright.sync_api import TimeoutError

from app import lab_view, proof, race
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


def race_and_proof(gallery: Gallery) -> gr.Blocks:
    """The tabs that need a model, around a tiny live pair."""
    runner = CrowdRunner(Runner(lambda say: pair()))
    runner.start_loading()
    with gr.Blocks(fill_width=True, analytics_enabled=False) as demo, gr.Tabs():
        with gr.Tab("Race"):
            race.build(runner, gallery)
        with gr.Tab("Proof"):
            proof.build(runner)
    return demo


def lab_alone() -> gr.Blocks:
    """The rule lab."""
    with gr.Blocks(fill_width=True, analytics_enabled=False) as demo, gr.Tabs(), gr.Tab("Rule lab"):
        lab_view.build()
    return demo


@contextmanager
def visitor_of(browser: Any, gallery: Gallery, demo: gr.Blocks) -> Iterator[Visitor]:
    """A visitor of a page, which is served as the whole one is."""
    options = {"server_port": free_port(), "prevent_thread_lock": True, "quiet": True}
    _, url, _ = demo.launch(**launch_options(gallery) | options)
    visitor = Visitor(browser, url.rstrip("/"))
    visitor.context.set_default_timeout(PATIENCE_MS)
    visitor.page.goto(visitor.url)
    yield visitor
    visitor.check()
    visitor.context.close()
    demo.close()


def open_tab(visitor: Visitor, name: str, width: int = 1280) -> None:
    """Shows a tab of the page in a window of this width."""
    visitor.page.set_viewport_size({"width": width, "height": 900})
    visitor.page.click(f"button[role=tab] >> text={name}")


def fits(visitor: Visitor) -> None:
    """Nothing is wider than the window, once figures have taken its width."""
    try:
        visitor.page.wait_for_function(
            "() => document.documentElement.scrollWidth <= window.innerWidth", timeout=15_000
        )
    except TimeoutError:
        wide = visitor.page.evaluate(
            """() => [...document.querySelectorAll('body *')]
                .filter((node) => node.getBoundingClientRect().right > window.innerWidth + 1)
                .map((node) => `${node.tagName} #${node.id} .${node.getAttribute('class')}`)"""
        )
        raise AssertionError(f"wider than the window: {wide[:12]}") from None
