"""Stand-ins with known laws: a Markov pair, a head that knows its target, draws that are handed in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor

from eagle import decoder
from eagle.audit import audit
from eagle.cache import KVCache
from eagle.decoder import Pair, generate
from eagle.settings import Settings
from eagle.target import Target
from eagle.trace import ModelInfo, PairInfo, PromptTrace, RunTrace
from tests.tiny import byte_tokenizer


class MarkovTarget(Target):
    """Logits of the next token are a row of ``table`` [V, V]; features are one-hot tokens."""

    def __init__(self, table: Tensor, end_tokens: frozenset[int] = frozenset()) -> None:
        self.table = table.float()
        self.layers, self.hidden_size, self.vocab_size = 1, table.shape[0], table.shape[0]
        self.max_context = 10_000
        self.end_tokens = end_tokens
        self.device, self.dtype = torch.device("cpu"), torch.float32

    def forward(self, ids: Tensor, positions: Tensor, block: Tensor | None, cache: KVCache) -> Tensor:
        rows = ids.float().view(1, 1, -1, 1)
        cache.write(0, rows, rows)
        return torch.nn.functional.one_hot(ids, self.vocab_size).float()

    def logits(self, features: Tensor) -> Tensor:
        return self.table[features.argmax(-1)]

    def embed(self, ids: Tensor) -> Tensor:
        return torch.nn.functional.one_hot(ids, self.vocab_size).float()

    def lm_head_weight(self) -> Tensor:
        return torch.eye(self.vocab_size)


class MarkovHead:
    """Drafts from rows of its own ``table`` [V, V]; a guess is the one-hot of the last token."""

    vocabulary: Tensor | None = None

    def __init__(self, target: MarkovTarget, table: Tensor) -> None:
        self.target, self.table = target, table.float()
        self.draft_vocabulary_size = table.shape[0]

    def new_cache(self, capacity: int) -> KVCache:
        return KVCache(1, capacity)

    def extend(self, tokens: Tensor, features: Tensor, cache: KVCache) -> Tensor:
        return self.target.embed(tokens[-1:])

    def grow(self, tokens: Tensor, features: Tensor, seen: Tensor, position: int, cache: KVCache) -> Tensor:
        return self.target.embed(tokens)

    def log_confidence(self, guesses: Tensor) -> Tensor:
        return self.table[guesses.argmax(-1)].log_softmax(-1).clamp(max=0.0)

    def token_ids(self, index: Tensor) -> Tensor:
        return index


class OracleHead(MarkovHead):
    """Drafts what its target would say, sharpened, with ``noise`` on the logits.

    A guess is the number of a path in ``paths``.
    """

    def __init__(self, target: Target, prompt: list[int], noise: float = 0.0) -> None:
        self.target, self.noise = target, noise  # type: ignore[assignment]
        self.draft_vocabulary_size = target.vocab_size
        self.committed = prompt[:1]
        self.paths: list[list[int]] = []

    def extend(self, tokens: Tensor, features: Tensor, cache: KVCache) -> Tensor:
        self.committed = self.committed + tokens.tolist()
        return self._number([self.committed])

    def grow(self, tokens: Tensor, features: Tensor, seen: Tensor, position: int, cache: KVCache) -> Tensor:
        above = features[:, 0].long().tolist()
        return self._number([self.paths[a] + [t] for a, t in zip(above, tokens.tolist(), strict=True)])

    def log_confidence(self, guesses: Tensor) -> Tensor:
        return torch.stack([self._next(self.paths[i]) for i in guesses[:, 0].long().tolist()])

    def _number(self, paths: list[list[int]]) -> Tensor:
        first = len(self.paths)
        self.paths += paths
        return torch.arange(first, len(self.paths)).float()[:, None].repeat(1, 2)

    def _next(self, path: list[int]) -> Tensor:
        logits = plain_logits(self.target, path)[-1]
        generator = torch.Generator().manual_seed(hash(tuple(path)) % 2**31)  # ints hash to themselves
        return (5 * logits + self.noise * torch.randn(logits.shape, generator=generator)).log_softmax(-1)


def plain_logits(target: Target, ids: list[int]) -> Tensor:
    """Logits [N, V] of one uncached pass over plain text."""
    with torch.inference_mode():
        cache = target.new_cache(len(ids))
        return target.logits(target.forward(torch.tensor(ids), torch.arange(len(ids)), None, cache))


def info() -> PairInfo:
    one = ModelInfo(name="stub", hash=None, dtype="float32", weights="fp32", device="cpu", parameters=0)
    return PairInfo(target=one, head=one)


def markov_pair(target: Tensor, draft: Tensor, end_tokens: frozenset[int] = frozenset()) -> Pair:
    """A pair whose target and head are two tables of logits [V, V]."""
    model = MarkovTarget(target, end_tokens)
    return Pair(model, MarkovHead(model, draft), byte_tokenizer(), info())  # type: ignore[arg-type]


def ids_prompt(ids: list[int]) -> PromptTrace:
    """A prompt of these ids, whatever the tokenizer."""
    return PromptTrace(text="", token=ids, labels=[str(i) for i in ids], chat=False)


def prompt_of(length: int, seed: int = 0) -> list[int]:
    """Random byte tokens."""
    return np.random.default_rng(seed).integers(0, 256, length).tolist()


def with_oracle(pair: Pair, prompt: list[int], noise: float) -> Pair:
    """The same pair with a head that guesses well; above noise 0 some of its guesses are wrong."""
    return replace(pair, head=OracleHead(pair.target, prompt, noise))  # type: ignore[arg-type]


def audited(pair: Pair, prompt: list[int], **settings: object) -> RunTrace:
    """A run of 48 tokens at temperature 0 unless told otherwise, in which the audit finds nothing."""
    done = generate(pair, prompt, Settings(**{"seed": 0, "max_new_tokens": 48, **settings}))
    assert audit(done) == []
    return done


class Scripted:
    """Uniform numbers that are handed in one by one; zeros when they run out."""

    def __init__(self, numbers: list[float]) -> None:
        self.numbers, self.used = numbers, 0

    def random(self) -> float:
        self.used += 1
        return self.numbers[self.used - 1] if self.used <= len(self.numbers) else 0.0


def run_with(pair: Pair, prompt: PromptTrace, settings: Settings, draws: Any) -> RunTrace:
    """A run whose generator is replaced by ``draws`` (anything with a ``random`` method)."""
    state = decoder.start(pair, prompt, settings)
    state.rng = draws
    with mock.patch.object(decoder, "start", return_value=state):
        return decoder.recording.run(
            pair.info, prompt, settings, list(decoder.decode(pair, prompt, settings))
        )


def law_of_decoder(pair: Pair, prompt: PromptTrace, settings: Settings) -> dict[tuple[int, ...], float]:
    """The exact law of what a run emits, by walking through every way its draws can fall.

    Each draw of a run only chooses between intervals; the record says in which one it fell and where
    that one ends. So a run with a draw just at that end takes the next way, until 1 is reached.
    """
    law: dict[tuple[int, ...], float] = {}
    for tokens, mass in _ways(pair, prompt, settings, [], 1.0):
        law[tokens] = law.get(tokens, 0.0) + mass
    return law


def _ways(
    pair: Pair, prompt: PromptTrace, settings: Settings, fixed: list[float], mass: float
) -> Iterator[tuple[tuple[int, ...], float]]:
    draws = Scripted(fixed)
    run = run_with(pair, prompt, settings, draws)
    if draws.used <= len(fixed):
        yield tuple(run.token_ids), mass
        return
    u = 0.0
    while u < 1:
        run = run_with(pair, prompt, settings, Scripted([*fixed, u]))
        high = _intervals(run, pair)[len(fixed)]
        if high > u:
            yield from _ways(pair, prompt, settings, [*fixed, u], mass * (high - u))
        u = max(high, u + 1e-15)  # where the end that was derived here is a rounding below the real one


def _intervals(run: RunTrace, pair: Pair) -> list[float]:
    """For each draw of a run, in order, where the interval ends that holds it."""
    found: list[float] = []
    for step in run.steps:
        if step.tree and step.tree.draft_draw:
            found += _draft_intervals(step.tree, pair, run.settings)
        found += [trial.accept if trial.accepted else 1.0 for trial in step.trials]
        if step.final:
            found.append(step.final.high)
    return found


def _draft_intervals(tree: Any, pair: Pair, settings: Settings) -> list[float]:
    """The same for the draws of a sampled draft, from the head's own table."""
    found = []
    table = pair.head.table.log_softmax(-1).double().numpy() / settings.temperature  # type: ignore[union-attr]
    for node, (parent, token) in enumerate(zip(tree.parent, tree.token, strict=True)):
        q = np.exp(table[tree.root if parent < 0 else tree.token[parent]])
        for sibling in range(node):
            if tree.parent[sibling] == parent:
                q[tree.token[sibling]] = 0.0
        edges = np.cumsum(q)
        found.append(float(edges[token] / edges[-1]))
    return found
