"""The card "how wide should the tree be on this machine": costs, promises, and the tree that pays.

Wiring and words; the numbers are made in :mod:`eagle.width` and :mod:`eagle.costs`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from app import job_tab
from app.figures import width as figures
from app.job_tab import Show
from app.jobs import Said, Stop
from app.panels import plural
from app.plotly_view import figure_value, make_figure, plotly_view
from app.race_view import number
from eagle.settings import Method, Settings, Tree
from eagle.trace import Costs, RunTrace

if TYPE_CHECKING:
    from app.gallery import Gallery
    from app.runner import RunSource
    from eagle.decoder import Pair
    from eagle.width import Width

TITLE = "<h2>How wide should the tree be on this machine?</h2>"
INTRO = (
    "A wider tree catches more tokens, but a pass over more tokens takes longer. The best tree ends where "
    "one more guess would cost more time than it is expected to save. That depends on the machine, so it is "
    "measured."
)
PROMPT = "Tell me a short story about a lighthouse keeper."
# As wide as the automatic tree may be, so that every tree it could choose is among the candidates.
WIDEST = Tree(total=63, depth=8, width=6)
TOKENS = 32


@dataclass(frozen=True)
class Measured:
    """Costs, the curves for one run's drafts at those costs, and where both come from."""

    costs: Costs
    width: Width | None
    live: bool
    used: Costs | None = None  # what tree auto goes by, where it is not these costs
    kept: bool = False  # whether they took the place of the costs that the next start recalls


def from_run(run: RunTrace) -> Measured | None:
    """What a recorded run knows; None where it was recorded without costs."""
    if run.pair.costs is None or run.settings.method is not Method.EAGLE2:
        return None
    from eagle.width import width

    return Measured(run.pair.costs, width(run.pair.costs, run), live=False)


def measuring(pair: Pair, stop: Stop) -> Iterator[Said | Measured]:
    """Measures the costs anew and keeps them, then drafts as widely as the automatic tree may."""
    from eagle import costs as paying
    from eagle import recording
    from eagle.decoder import decode
    from eagle.settings import SettingsError
    from eagle.text import encode
    from eagle.width import width

    if pair.head is None:
        raise SettingsError("This pair has no draft head, so there is no tree to size.")
    yield Said("Measuring what a pass costs, 1 to 64 tokens…", 0.1)
    costs = paying.measure(pair)
    kept = paying.keep(pair, costs)
    settings = Settings(tree=WIDEST, max_new_tokens=TOKENS, seed=0)
    prompt = encode(pair.tokenizer, PROMPT)
    steps = []
    for step in decode(pair, prompt, settings):
        steps.append(step)
        done = sum(len(one.emitted) for one in steps)
        yield Said(f"Drafting the widest trees: {plural(done, 'token')}…", 0.3 + 0.7 * done / TOKENS)
        if stop.is_set():
            return
    curves = width(costs, recording.run(pair.info, prompt, settings, steps))
    yield Measured(costs, curves, live=True, used=pair.info.costs, kept=kept)


def words(found: Measured) -> str:
    """The finding in plain words."""
    kind, badge = ("live", "measured now") if found.live else ("recorded", "from the recorded run")
    mark = f'<span class="badge badge-{kind}">{badge}</span>'
    return f'{mark}<p class="sentence">{_finding(found)}</p>{_promise(found)}{_used(found)}'


def _finding(found: Measured) -> str:
    width = found.width
    if width is None:
        return "Nothing was drafted, so there is no tree to size."
    if width.best_rate <= width.plain_rate:
        return (
            f"<b>Here no tree pays.</b> The best would make {number(width.best_rate)} tokens a second, plain "
            f"decoding {number(width.plain_rate)}."
        )
    return (
        f"<b>{plural(width.best_nodes, 'node')} in {plural(width.best_levels, 'level')}</b>: a step is "
        f"expected to bring {number(width.best_tokens)} tokens, "
        f"{number(width.best_rate)} a second. Plain decoding makes {number(width.plain_rate)}."
    )


def _promise(found: Measured) -> str:
    width = found.width
    if width is None:
        return ""
    return (
        '<p class="view-hint">Expected tokens are 1 for the target’s own and the values of the best '
        f"candidates, mean of {plural(width.steps, 'step')}. A value is only the draft’s own estimate: the "
        f"trees of this run promised {number(width.promised)} tokens a step, and the target let "
        f"{number(width.tau)} through. "
        f"One draft level costs {number(found.costs.level_ms)} ms.</p>"
    )


def _used(found: Measured) -> str:
    if not found.live:
        return ""
    then = ""
    if found.used is not None:
        before, now = number(found.used.pass_ms[0]), number(found.costs.pass_ms[0])
        then = f" (a pass over 1 token took {before} ms then, {now} ms now)"
    later = (
        "The new costs are kept for the next start"
        if found.kept
        else "The new costs are not kept, since other work disturbed them or the cache can not be written"
    )
    return (
        '<p class="view-hint">Until the demo is started again, tree “auto” goes on using what was measured '
        f"when the model was loaded{then}: other costs would mean other trees, and a seed would no longer "
        f"give the same answer. {later}. Tree “auto” decides anew in every step, from that step’s "
        "confidences; the picture is the mean over the run.</p>"
    )


def pictures(found: Measured) -> list[Any]:
    """The three figures."""
    width = found.width
    empty = make_figure([], figures.HEIGHT, alt="Nothing was drafted.")
    return [
        figures.latency(found.costs, width),
        figures.expected_tokens(width) if width else empty,
        figures.rate(width) if width else empty,
    ]


CAPTIONS = ("What a pass costs", "What a tree is expected to bring", "Tokens a second, all costs counted")


def build(runner: RunSource, gallery: Gallery) -> None:
    """Adds the card's components and events to the open context."""
    first = next((run for run in map(gallery.read, gallery.names()[:1]) if run), None)
    found = from_run(first) if first else None
    gr.HTML(f'{TITLE}<p class="view-hint">{INTRO}</p>', apply_default_css=False)
    buttons = job_tab.build_buttons("width", "Measure now")
    with gr.Column(visible=found is not None, elem_id="width-result") as result:
        said = gr.HTML(words(found) if found else "", elem_id="width-words", apply_default_css=False)
        empty = make_figure([], figures.HEIGHT, alt="Not measured yet.")
        drawn = pictures(found) if found else [empty] * 3
        views = []
        with gr.Row(elem_id="width-row", elem_classes=["three"]):
            for index, (caption, figure) in enumerate(zip(CAPTIONS, drawn, strict=True)):
                with gr.Column(min_width=260):
                    gr.HTML(f"<h3>{caption}</h3>", apply_default_css=False)
                    views.append(plotly_view(figure, elem_id=f"width-{index}", label=caption, order=4))

    def show(item: Measured) -> Show:
        values = [gr.update(visible=True), words(item), *map(figure_value, pictures(item))]
        return Show(values=values, over=True)

    job_tab.wire(runner, [], lambda _values: measuring, show, buttons, [result, said, *views])
