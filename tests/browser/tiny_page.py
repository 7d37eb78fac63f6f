"""The whole page around a tiny live pair, for tabs that need a model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from app.crowd import CrowdRunner
from app.gallery import Gallery
from app.runner import Runner
from eagle.trace import Costs
from tests.browser.conftest import Visitor, launch
from tests.test_lossless import knowing_pair

COSTS = Costs(
    nodes=[1, 2, 4, 8, 16, 32, 64],
    pass_ms=[50, 52, 55, 60, 75, 110, 200],
    level_ms=5.0,
    typical_confidence=[0.5, 0.2, 0.1],
)


def pair() -> Any:
    made = knowing_pair()
    return replace(made, info=made.info.model_copy(update={"costs": COSTS}))


@contextmanager
def visitor_of_tiny_page(browser: Any, gallery: Gallery, tab: str, **context: Any) -> Iterator[Visitor]:
    """A visitor with this tab open."""
    demo, url = launch(CrowdRunner(Runner(lambda say: pair())), gallery)
    visitor = Visitor(browser, url, **context)
    visitor.page.goto(url)
    visitor.page.click(f"button[role=tab]:has-text('{tab}')")
    yield visitor
    visitor.check()
    visitor.context.close()
    demo.close()
