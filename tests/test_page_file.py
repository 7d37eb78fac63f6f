"""The saved page holds every step of the run, fetches nothing, and shows hostile strings literally."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from app.figures.tree import draft_tree
from app.page_file import saved_page
from app.plotly_view import figure_value
from app.session import Look, View, Visit, to_step, to_view
from eagle.trace import RunTrace
from tests.synthetic import HOSTILE, synthetic_run

RUN = synthetic_run(seed=3, steps=6, mix=0.7)
HOSTILE_RUN = synthetic_run(
    seed=5,
    steps=5,
    labels=HOSTILE,
    prompt='</script><script>window.hacked=1</script><img src=x onerror="x()">',
)


class Page(HTMLParser):
    """The file's tags, attributes, scripts and words; scripts are data to a parser, as to a browser."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.scripts: list[str] = []
        self.words: list[str] = []
        self.inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        self.inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside == "script":
            self.scripts[-1] += data
        else:
            self.words.append(data)


def page_of(run: RunTrace) -> Page:
    return Page(saved_page(Visit(run)).text)


def data_of(page: Page) -> dict[str, Any]:
    return dict(json.loads(page.scripts[0]))


@pytest.mark.parametrize("run", [RUN, HOSTILE_RUN, synthetic_run(seed=2, steps=2, tree="60/6/10")])
def test_every_step_is_there_with_the_explorers_own_figures(run: RunTrace) -> None:
    data, labels = data_of(page_of(run)), run.labels()
    assert len(data["steps"]) == len(run.steps)
    for index, (saved, step) in enumerate(zip(data["steps"], run.steps, strict=True)):
        root = run.steps[index - 1].emitted.token[-1] if index else None
        for view in View:
            look = to_view(to_step(run, Look(), index), view)
            assert saved["tree"][view] == json.loads(figure_value(draft_tree(step, labels, look, root)))
        assert f"step <b>{step.index}</b>" in saved["nav"]
        assert saved["strip"]["layout"]["height"] > 0


@pytest.mark.parametrize("run", [RUN, HOSTILE_RUN])
def test_nothing_is_fetched_and_only_our_scripts_run(run: RunTrace) -> None:
    page = page_of(run)
    assert page.tags.count("script") == 5, "the data, plotly.js, the colours and two scripts of ours"
    assert not {"img", "link", "iframe", "a", "base", "form", "object"} & set(page.tags)
    assert not [
        name for name, _ in page.attributes if name in ("src", "href", "srcset") or name.startswith("on")
    ]
    rules = next(value for name, value in page.attributes if name == "content" and "default-src" in value)
    assert rules.startswith("default-src 'none'; script-src 'sha256-")
    assert "http" not in rules
    assert "unsafe-inline" not in re.sub(r"style-src [^;]*", "", rules)
    assert len(page.scripts[1]) > 1_000_000, "plotly.js is in the file"
    assert saved_page(Visit(run)).text.count(page.scripts[1][:2000]) == 1, "once"


def test_hostile_strings_are_shown_literally() -> None:
    page = page_of(HOSTILE_RUN)
    assert "</script><script>window.hacked=1</script>" in "".join(page.words)
    assert "<" not in page.scripts[0], "nothing in the data looks like markup"


def test_a_long_run_is_cut_at_a_stated_size() -> None:
    whole = saved_page(Visit(RUN))
    assert (whole.steps, whole.of) == (7, 7)
    assert "All 7 steps" in "".join(Page(whole.text).words)
    part = saved_page(Visit(RUN), most_bytes=150_000)
    assert 1 <= part.steps < 7
    assert len(data_of(Page(part.text))["steps"]) == part.steps
    said = "".join(Page(part.text).words)
    assert f"The first {part.steps} of 7 steps: a page holds at most 20 MB of figures" in said
    assert saved_page(Visit(RUN), most_bytes=1).steps == 1, "never an empty page"
