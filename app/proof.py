"""The Proof tab: greedy text token for token, and sampling against the exact law, on the loaded pair.

Wiring only. The computations are in :mod:`eagle.greedy_check`, :mod:`eagle.lossless` and
:mod:`eagle.goodness`, the words in :mod:`app.proof_view`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from app import ask, job_tab, proof_view
from app.figures.proof import shares
from app.job_tab import Show
from app.jobs import Said, Stop
from app.plotly_view import figure_value, make_figure, plotly_view
from app.proof_view import Sampled
from eagle.prompts import read_questions
from eagle.settings import Method, Settings, SettingsError

if TYPE_CHECKING:
    from app.jobs import Job
    from app.runner import RunSource
    from eagle.decoder import Pair
    from eagle.greedy_check import GreedyCheck
    from eagle.lossless import After, Judge, Opening

MOST_PROMPTS, MOST_GREEDY_TOKENS = 20, 128
DRAWS = (1_000, 10_000, 100_000)
BATCHES = 10  # pictures while sampling
CHECKED = 100  # judgements that the decoder's own walk repeats
MOST_ROWS = 16  # of a figure
MOST_ROWS_OF_TWO = 20
DEFAULT_PROMPT = "Tell me a short story about a lighthouse keeper who finds a bottle on the beach."
INTRO = (
    "Speculative decoding claims to change the speed and nothing else. Here that claim is put to the test on "
    "the model that is loaded now."
)
GREEDY = (
    "<h2>1. Greedy: the same text, token for token</h2><p class='view-hint'>At temperature 0 the target "
    "always takes its most likely token, so the answer with guesses must be the answer without.</p>"
)
SAMPLING = (
    "<h2>2. Sampling: the same law</h2><p class='view-hint'>Above temperature 0 two answers differ by luck, "
    "so single texts prove nothing. What must agree is how often each token comes out: many judgements "
    "against the exact probabilities.</p>"
)


@dataclass(frozen=True)
class Greedy:
    """Prompts compared so far."""

    checks: list[GreedyCheck]
    labels: dict[int, str]
    dtype: str
    over: bool


# The jobs.


def greedy_job(count: int, tokens: int, tree: str) -> Job:
    """Compares the first ``count`` prompts that ship with the page, one of each kind before the next."""
    if count not in range(1, MOST_PROMPTS + 1):
        raise SettingsError(f"prompts must be a whole number from 1 to {MOST_PROMPTS}, but is {count!r:.40}.")
    if tokens not in range(1, MOST_GREEDY_TOKENS + 1):
        raise SettingsError(
            f"tokens must be a whole number from 1 to {MOST_GREEDY_TOKENS}, but is {tokens!r:.40}."
        )
    settings = Settings(max_new_tokens=int(tokens), tree=tree, seed=0)
    prompts = varied_prompts(int(count))

    def job(pair: Pair, stop: Stop) -> Iterator[Said | Greedy]:
        from eagle.greedy_check import greedy_check
        from eagle.text import encode, label

        checks: list[GreedyCheck] = []
        labels: dict[int, str] = {}
        for index, prompt in enumerate(prompts):
            yield Said(f"Prompt {index + 1} of {len(prompts)}: vanilla, then EAGLE-2…", index / len(prompts))
            check = greedy_check(pair, encode(pair.tokenizer, prompt), settings, stop)
            if check is None:
                return
            checks.append(check)
            found = check.difference
            tokens = [] if found is None else [t for t in (found.vanilla, found.eagle) if t is not None]
            labels |= {token: label(pair.tokenizer, token) for token in tokens}
            yield Greedy(list(checks), dict(labels), pair.info.target.dtype, index + 1 == len(prompts))

    return job


def varied_prompts(count: int) -> list[str]:
    """The first prompts of assets/prompts.jsonl, a kind after the other."""
    kinds: dict[str, list[str]] = {}
    for question in read_questions(ask.PROMPTS):
        kinds.setdefault(question.category, []).append(question.text)
    longest = max(map(len, kinds.values()))
    turns = [texts[i] for i in range(longest) for texts in kinds.values() if i < len(texts)]
    return turns[:count]


def sampling_job(prompt: str, settings: Settings, n: int, misread: bool) -> Job:
    """Sets the experiment up, then judges n times, in batches so that the picture grows."""
    if n not in DRAWS:
        raise SettingsError(f"draws must be one of {', '.join(f'{d:,}' for d in DRAWS)}, but is {n!r:.40}.")

    def job(pair: Pair, stop: Stop) -> Iterator[Said | Sampled]:
        from eagle import lossless
        from eagle.decoder import with_seed
        from eagle.text import encode

        yield Said("Reading the prompt, drafting once, one pass over the tree…", 0.02)
        chosen = with_seed(settings)
        opening = lossless.open_at(pair, encode(pair.tokenizer, prompt), chosen)
        afters: dict[int, After] = {}
        tokens = opening.support()
        for index, token in enumerate(tokens):
            words = f"The law after each possible token, and a tree there: {index + 1} of {len(tokens)}…"
            yield Said(words, 0.05 + 0.75 * index / len(tokens))
            afters[token] = lossless.after(opening, token)
        judges: list[Judge] = ["eagle2", "misreading"] if misread else ["eagle2"]
        yield from _sample(pair, opening, afters, judges, n, chosen.seed or 0)

    return job


def _sample(
    pair: Pair, opening: Opening, afters: dict[int, After], judges: list[Judge], n: int, seed: int
) -> Iterator[Said | Sampled]:
    """Judgements in growing batches; the same numbers for each way of judging."""
    import numpy as np

    from eagle import goodness, lossless

    rng = np.random.Generator(np.random.PCG64(seed))
    u = rng.random((n, lossless.numbers_needed(opening, afters)))
    law_1, law_2 = lossless.law_of_one(opening), lossless.law_of_two(opening, afters)
    own_1 = {judge: lossless.outcome_of_one(opening, judge) for judge in judges}
    own_2 = {judge: lossless.outcome_of_two(opening, afters, judge) for judge in judges}
    pairs = {judge: lossless.judge_pairs(opening, afters, judge, u) for judge in judges}
    same = lossless.same_as_decoder(opening, u[:CHECKED], pairs["eagle2"][:CHECKED])
    labels = _labels(pair, [*law_2, *(cell for own in own_2.values() for cell in own)])
    for batch in range(1, BATCHES + 1):
        size = n * batch // BATCHES
        one = [goodness.compare(j, pairs[j][:size, :1], law_1, own_1[j]) for j in judges]
        two = [goodness.compare(j, pairs[j][:size], law_2, own_2[j]) for j in judges]
        yield Said(f"{size:,} of {n:,} judgements…", 0.8 + 0.2 * batch / BATCHES)
        yield Sampled(
            root=_labels(pair, [(opening.root,)])[opening.root],
            labels=labels,
            nodes=opening.nodes,
            siblings=len(opening.first.tokens),
            trees=len(afters),
            one=[goodness.shortened(found, MOST_ROWS) for found in one],
            two=[goodness.shortened(found, MOST_ROWS_OF_TWO) for found in two],
            checked=min(CHECKED, n),
            same=same,
            over=batch == BATCHES,
        )


def _labels(pair: Pair, cells: list[tuple[int, ...]]) -> dict[int, str]:
    from eagle.text import label

    return {
        token: label(pair.tokenizer, token)
        for token in {token for cell in cells for token in cell if token >= 0}
    }


# The tab.


def build(runner: RunSource) -> None:
    """Adds the tab's components and events to the open Blocks context."""
    gr.HTML(f'<p class="lead">{INTRO}</p>', apply_default_css=False)
    with gr.Column(elem_id="greedy-card", elem_classes=["card"]):
        _build_greedy(runner)
    with gr.Column(elem_id="sampling-card", elem_classes=["card"]):
        _build_sampling(runner)


def _build_greedy(runner: RunSource) -> None:
    gr.HTML(GREEDY, apply_default_css=False)
    with gr.Row():
        count = gr.Slider(1, MOST_PROMPTS, 5, step=1, label="Prompts", min_width=160)
        tokens = gr.Slider(8, MOST_GREEDY_TOKENS, 48, step=8, label="Tokens each", min_width=160)
        tree = _tree()
    buttons = job_tab.build_buttons("greedy", "Compare")
    table = gr.HTML("", elem_id="greedy-table", apply_default_css=False)

    def show(item: Greedy) -> Show:
        table = proof_view.greedy_table(item.checks, item.labels, item.dtype, item.over)
        return Show(values=[table], over=item.over)

    job_tab.wire(runner, [count, tokens, tree], lambda values: greedy_job(*values), show, buttons, [table])


def _tree() -> gr.Dropdown:
    return gr.Dropdown(
        [(words, value) for words, value in ask.TREE_WORDS if value != "custom"],
        value="12/4/4",
        allow_custom_value=True,
        label="Tree: total/levels/width",
        min_width=180,
    )


def _build_sampling(runner: RunSource) -> None:
    gr.HTML(SAMPLING, apply_default_css=False)
    with gr.Row():
        prompt = gr.Textbox(DEFAULT_PROMPT, label="Prompt", lines=1, max_lines=6, scale=3, min_width=280)
        draws = gr.Radio([(f"{n:,}", n) for n in DRAWS], value=10_000, label="Judgements", min_width=220)
        misread = gr.Checkbox(True, label="Also judge with the misreading (biased)", min_width=220)
    with gr.Accordion("Settings", open=False, elem_classes=["plain-accordion"]), gr.Row():
        temperature = gr.Slider(0.1, 2, 1, step=0.05, label="Temperature", min_width=150)
        top_k = gr.Slider(
            2, 20, 10, step=1, label="Top-k", info="Keeps the law small enough to be listed.", min_width=150
        )
        seed = gr.Textbox(
            "1", label="Seed of the draws", placeholder="blank: fresh", max_lines=1, min_width=120
        )
        tree = _tree()
    buttons = job_tab.build_buttons("sampling", "Sample")
    with gr.Column(visible=False, elem_id="sampling-result") as result:
        setup = gr.HTML("", elem_id="sampling-setup", apply_default_css=False)
        legend = gr.HTML("", elem_id="sampling-key", apply_default_css=False)
        empty = make_figure([], 40, alt="Nothing was sampled yet.")
        gr.HTML("<h2>The next token</h2>", apply_default_css=False)
        verdict_1 = gr.HTML("", elem_id="verdict-one", apply_default_css=False)
        figure_1 = plotly_view(empty, elem_id="shares-one", label="Shares of the next token", order=1)
        gr.HTML("<h2>The next two tokens</h2>", apply_default_css=False)
        verdict_2 = gr.HTML("", elem_id="verdict-two", apply_default_css=False)
        figure_2 = plotly_view(empty, elem_id="shares-two", label="Shares of the next two tokens", order=2)

    def job_from(values: list[Any]) -> Job:
        text, n, biased, heat, k, given_seed, shape = values
        settings = ask.settings_from(
            {
                "method": Method.EAGLE2,
                "temperature": heat,
                "top_p": 1,
                "top_k": k,
                "seed": given_seed,
                "max_new_tokens": 1,
                "tree": shape,
            }
        )
        return sampling_job(str(text or ""), settings, n, bool(biased))

    def show(item: Sampled) -> Show:
        values = [
            gr.update(visible=True),
            proof_view.setup(item),
            proof_view.key(len(item.one) > 1),
            proof_view.verdicts(item.one, item.over),
            figure_value(shares(item.one, item.labels)),
            proof_view.verdicts(item.two, item.over),
            figure_value(shares(item.two, item.labels)),
        ]
        return Show(values=values, over=item.over)

    inputs = [prompt, draws, misread, temperature, top_k, seed, tree]
    outputs = [result, setup, legend, verdict_1, figure_1, verdict_2, figure_2]
    job_tab.wire(runner, inputs, job_from, show, buttons, outputs)
