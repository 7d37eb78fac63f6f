"""The decoding loop. Read this file first.

A step drafts a tree, lets the target read the whole tree in one pass, judges it, commits what was
accepted, and yields a record of all of it. The first step is the prompt's pass and has no tree.

All draws of a run come from one generator, ``numpy.random.Generator(numpy.random.PCG64(seed))``, one
``random()`` at a time, in this order: step 0's token; then in each step the numbers that a sampled
draft used, one number a trial in the order of the trials, and one for the final token.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eagle import recording, rules
from eagle.cache import KVCache
from eagle.costs import AUTO_DEPTH, AUTO_TOTAL, AUTO_WIDTH
from eagle.draft_head import DraftHead
from eagle.host import Rows, bring
from eagle.methods import Draft, candidates_at, check_possible, draft
from eagle.recording import Walk
from eagle.settings import Method, Settings
from eagle.static_tree import STATIC_NODES
from eagle.target import PREFILL_CHUNK, Target
from eagle.text import Prompt, PromptError, TextStream, encode
from eagle.trace import ROOT, Finish, PairInfo, PromptTrace, RunTrace, StepTrace


@dataclass(frozen=True)
class Pair:
    """A target, the head trained for it (None: only vanilla runs), their tokenizer and their names."""

    target: Target
    head: DraftHead | None
    tokenizer: Any
    info: PairInfo


@dataclass
class State:
    """What a run carries from step to step.

    ``ids`` are all tokens; the last one, the root of the next tree, is not in the target's cache
    yet. ``new_tokens`` [n] and ``new_features`` [n, F] are the pairs that the head has not read yet;
    the last new token is that root.
    """

    pair: Pair
    ids: list[int]
    limit: int
    rng: np.random.Generator
    cache: KVCache
    text: TextStream
    head_cache: KVCache
    new_tokens: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.long))
    new_features: Tensor = field(default_factory=lambda: torch.empty(0))
    guess: Tensor = field(default_factory=lambda: torch.empty(0))
    left: int = 0
    index: int = 0
    finish: Finish | None = None
    labelled: set[int] = field(default_factory=set)

    @property
    def head(self) -> DraftHead:
        assert self.pair.head is not None
        return self.pair.head


def decode(pair: Pair, prompt: Prompt | PromptTrace, settings: Settings) -> Iterator[StepTrace]:
    """Yields one record a step, the prompt's pass first; stops at an end token or at a limit.

    ``settings.seed`` None decodes with seed 0; :func:`generate` and the page draw a fresh one first.
    Raises PromptError, SettingsError or NumericsError, each with one plain sentence.
    """
    encoded = prompt if isinstance(prompt, PromptTrace) else encode(pair.tokenizer, prompt)
    state = start(pair, encoded, settings)
    yield prefill(state, settings)
    while state.finish is None:
        began = clock(pair)
        drafted = drafting(state, settings)
        drafted_at = clock(pair)
        logits, features = read(state, drafted)
        drafted, rows = bring(drafted, logits, settings, f"in step {state.index + 1}")
        verified_at = clock(pair)
        walk = judge(state, drafted, rows)
        commit(state, walk, features)
        times = recording.times(began, drafted_at, verified_at, clock(pair))
        yield recording.step(state, drafted, rows, walk, times)


def start(pair: Pair, prompt: PromptTrace, settings: Settings) -> State:
    """Checks that the run is possible and makes room for it."""
    check_possible(pair, settings)
    room = pair.target.max_context - len(prompt.token)
    if not prompt.token:
        raise PromptError("The prompt has no tokens.")
    if room < 1:
        raise PromptError(
            f"The prompt has {len(prompt.token):,} tokens, but the target's context holds "
            f"{pair.target.max_context:,}, the answer included. Shorten it."
        )
    limit = min(settings.max_new_tokens, room)
    nodes, drafted = room_for_tree(settings)
    rows = len(prompt.token) + limit
    head_rows = rows + drafted if pair.head else 0
    return State(
        pair=pair,
        ids=list(prompt.token),
        limit=limit,
        left=limit,
        rng=np.random.Generator(np.random.PCG64(settings.seed or 0)),
        cache=pair.target.new_cache(rows + nodes + 1),
        head_cache=KVCache(1, head_rows),
        text=TextStream(pair.tokenizer),
        labelled=set(prompt.token),
    )


def room_for_tree(settings: Settings) -> tuple[int, int]:
    """Rows that a step's tree may take in the target's cache and in the head's."""
    if settings.method in (Method.CHAIN, Method.EAGLE1):
        return STATIC_NODES, STATIC_NODES
    if settings.tree == "auto":
        return AUTO_TOTAL, AUTO_DEPTH * AUTO_WIDTH
    return settings.tree.total, settings.tree.depth * settings.tree.width


@torch.inference_mode()
def prefill(state: State, settings: Settings) -> StepTrace:
    """The prompt's pass, in chunks, and the first token, drawn from the target."""
    target = state.pair.target
    began = clock(state.pair)
    ids = torch.tensor(state.ids, device=target.device)
    features = []
    for chunk in torch.arange(ids.shape[0], device=target.device).split(PREFILL_CHUNK):
        features.append(target.forward(ids[chunk], chunk, None, state.cache))
        state.cache.keep_first(chunk.shape[0])
    _, rows = bring(None, target.logits(features[-1][-1:]), settings, "after the prompt")
    final = rules.inverse_cdf(rows.p(0), state.rng.random())
    walk = Walk(nodes=[], trials=[], final=final, at=ROOT)
    state.new_tokens = torch.cat((ids[1:], torch.tensor([final.token], device=target.device)))
    state.new_features = torch.cat(features)
    emit(state, [final.token])
    return recording.prompt_step(
        state, walk, recording.times(began, began, clock(state.pair), clock(state.pair))
    )


@torch.inference_mode()
def drafting(state: State, settings: Settings) -> Draft | None:
    """Lets the head read what was committed, then draft."""
    if settings.method is Method.VANILLA:
        return None
    state.guess = state.head.extend(state.new_tokens, state.new_features, state.head_cache)
    return draft(state, settings, state.rng.random)


@torch.inference_mode()
def read(state: State, drafted: Draft | None) -> tuple[Tensor, Tensor]:
    """One target pass over the root and all nodes: logits [N + 1, V] and features [N + 1, F]."""
    target = state.pair.target
    root = state.new_tokens[-1:]
    position = len(state.ids) - 1
    if drafted is None:
        ids, positions, block = root, torch.full_like(root, position), None
    else:
        ids = torch.cat((root, drafted.kept.token))
        positions = torch.cat((torch.zeros_like(root), drafted.kept.depth)) + position
        block = drafted.block
    features = target.forward(ids, positions, block, state.cache)
    return target.logits(features), features


def judge(state: State, drafted: Draft | None, rows: Rows) -> Walk:
    """Walks down from the root: at each node the rule is offered the children, in order.

    Stops below an accepted end token or at the limit, so that nothing after it is ever drawn.
    Draft and rows are the host's (``eagle/host.py``).
    """
    walk = Walk(nodes=[], trials=[], final=None, at=ROOT)
    if drafted is None:
        walk.final = rules.vanilla(rows.p(0), state.rng.random).final
        return walk
    while True:
        children = drafted.children.get(walk.at, ())
        candidates = candidates_at(children, drafted.tokens, drafted)
        verdict = rules.judge(rows.p(walk.at + 1), candidates, state.rng.random)
        walk.trials += zip(children, verdict.trials, strict=False)
        if verdict.accepted is None:
            walk.final = verdict.final
            return walk
        walk.at = children[verdict.accepted]
        walk.nodes.append(walk.at)
        token = drafted.tokens[walk.at]
        walk.tokens.append(token)
        if token in state.pair.target.end_tokens or len(walk.nodes) == state.left:
            return walk


@torch.inference_mode()
def commit(state: State, walk: Walk, features: Tensor) -> None:
    """Keeps the rows of the root and the accepted path, and notes what the head has yet to read."""
    tokens = walk.tokens + ([walk.final.token] if walk.final else [])
    kept = [0, *(node + 1 for node in walk.nodes)]
    sent = torch.tensor(kept + tokens, device=features.device)  # all that the device has to be told
    rows, state.new_tokens = sent[: len(kept)], sent[len(kept) :]
    state.new_features = features[rows[: len(tokens)]]
    state.cache.keep(rows)
    emit(state, tokens)


def emit(state: State, tokens: list[int]) -> None:
    """Adds tokens to the answer and decides whether the run is over."""
    state.ids += tokens
    state.left -= len(tokens)
    if tokens[-1] in state.pair.target.end_tokens:
        state.finish = Finish.END_TOKEN
    elif state.left <= 0:
        full = len(state.ids) >= state.pair.target.max_context
        state.finish = Finish.CONTEXT if full else Finish.LENGTH


def clock(pair: Pair) -> float:
    """Seconds, once the device has finished what it was given."""
    if pair.target.device.type == "cuda":
        torch.cuda.synchronize(pair.target.device)
    return time.perf_counter()


def generate(pair: Pair, prompt: Prompt, settings: Settings, chat: bool = True) -> RunTrace:
    """A whole run as one record. A missing seed is drawn first and recorded."""
    settings = with_seed(settings)
    encoded = encode(pair.tokenizer, prompt, chat)
    return recording.run(pair.info, encoded, settings, list(decode(pair, encoded, settings)))


def with_seed(settings: Settings) -> Settings:
    """The same settings with a seed: the given one, or a fresh one from the operating system."""
    if settings.seed is not None:
        return settings
    fresh = int(np.random.SeedSequence().generate_state(1)[0])
    return settings.model_copy(update={"seed": fresh})
