"""Proof of losslessness on a loaded pair: what the decoder samples against the target's exact law.

(Greedy decoding is compared in ``eagle/greedy_check.py``.) Sampling starts from a prompt and one fixed
first token, the root: the plain next token of a prompt is never drafted. Given the root EAGLE-2's
draft is certain, so one draft and one target pass serve any number of judgements with fresh draws.
What is sampled is the next token and the next two. The law they should follow comes from vanilla's
own passes over the root and over each possible next token, never from the pass over the tree.

Shapes: V vocabulary, n judgements, m siblings, R uniform numbers a judgement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eagle import decoder, rules
from eagle.decoder import Pair, State
from eagle.drafts import Draft
from eagle.goodness import Law
from eagle.host import Rows, bring
from eagle.recording import Walk
from eagle.rules import Array, Candidate
from eagle.settings import Method, Settings, SettingsError
from eagle.trace import ROOT, PromptTrace

Judge = Literal["eagle2", "misreading"]
Tokens = NDArray[np.int64]
ENDED = -1  # in the place of a second token: the first one ended the answer
# The law of the next two tokens has a cell a pair of possible tokens, and a pass a first token.
MOST_TOKENS = 20
ROOM = 32  # tokens a run may still emit at the root, so that no tree is cut short by the end of a run


@dataclass(frozen=True)
class Place:
    """Where the rule is offered candidates: p [V] from the pass over the tree, the siblings in order,
    and the head's confidence [V] there, which only the misreading looks at."""

    p: Array
    tokens: list[int]
    confidence: Array

    def candidates(self, judge: Judge) -> list[Candidate]:
        """What the rule is offered: certain candidates, or (misread) ones said to be drawn."""
        if judge == "eagle2":
            return [Candidate(token) for token in self.tokens]
        return rules.without_replacement(self.tokens, self.confidence)


@dataclass(frozen=True)
class After:
    """What follows one first token: the exact law [V] of the second, and where it is judged.

    ``accepted``: below its node in the first tree (None: it is no child of the root). ``drawn``: in
    a tree of its own, drafted once it was emitted as the step's last token. Both are None, as is the
    law, where the first token ended the answer.
    """

    law: Array | None
    accepted: Place | None
    drawn: Place | None


@dataclass
class Opening:
    """The root with its tree, read by the target once. ``law`` [V] is vanilla's, of the next token."""

    state: State
    settings: Settings
    drafted: Draft
    rows: Rows
    features: Tensor
    law: Array
    first: Place
    below: dict[int, Place]

    @property
    def root(self) -> int:
        return self.state.ids[-1]

    @property
    def nodes(self) -> int:
        return int(self.drafted.kept.token.shape[0])

    def support(self) -> list[int]:
        """Tokens that can come next, by vanilla's pass or by the tree's; the most likely first."""
        possible = np.flatnonzero((self.law > 0) | (self.first.p > 0))
        return sorted(possible.tolist(), key=lambda token: (-self.law[token], token))


def check_settings(settings: Settings) -> None:
    """Raises SettingsError unless the experiment has a law small enough to be written down."""
    if settings.method is not Method.EAGLE2:
        raise SettingsError(f"the sampling proof is about eagle2, but the method is {settings.method}.")
    if settings.temperature == 0:
        raise SettingsError("temperature must be above 0 here: at 0 nothing is drawn.")
    if not 2 <= settings.top_k <= MOST_TOKENS:
        raise SettingsError(
            f"top_k must be from 2 to {MOST_TOKENS} here, so that the law of two tokens can be listed, "
            f"but is {settings.top_k}."
        )


def open_at(pair: Pair, prompt: PromptTrace, settings: Settings) -> Opening:
    """Fixes the target's most likely first token as the root, drafts there, and reads the tree once.

    Raises SettingsError for settings outside the experiment, PromptError for an impossible prompt.
    """
    check_settings(settings)
    settings = settings.model_copy(update={"max_new_tokens": ROOM})
    state = decoder.start(pair, prompt, settings)
    decoder.prefill(state, settings.model_copy(update={"temperature": 0.0}))
    if state.finish is not None:
        raise SettingsError(
            "The most likely first token ends the answer, so nothing follows: take another prompt."
        )
    return _opening(state, settings)


def _opening(state: State, settings: Settings) -> Opening:
    """Vanilla's pass over the root, then the draft there and the pass over it."""
    where = "while the tree was read"
    _, plain = bring(None, decoder.read(state, None)[0], settings, where)
    drafted = decoder.drafting(state, settings)
    assert drafted is not None
    first_level = torch.nonzero(drafted.kept.parent == ROOT).flatten()
    confidences = _confidences(state, drafted, first_level)
    logits, features = decoder.read(state, drafted)  # last: its row of the root is the one to commit
    here, rows = bring(drafted, logits, settings, where)
    assert here is not None
    tokens = here.tokens

    def place(node: int, confidence: Array) -> Place:
        children = [tokens[child] for child in here.children.get(node, ())]
        return Place(rows.p(node + 1), children, confidence)

    below = {tokens[node]: place(node, confidences[i + 1]) for i, node in enumerate(first_level.tolist())}
    return Opening(state, settings, here, rows, features, plain.p(0), place(ROOT, confidences[0]), below)


@torch.inference_mode()
def _confidences(state: State, drafted: Draft, nodes: Tensor) -> list[Array]:
    """The head's whole distribution [V] at the root and at each of these first-level nodes."""
    committed, count = state.head_cache.length, nodes.shape[0]
    own = torch.eye(count, dtype=torch.bool, device=nodes.device)
    tokens = drafted.kept.token[nodes]
    guesses = state.head.grow(tokens, state.guess.expand(count, -1), own, committed, state.head_cache)
    state.head_cache.length = committed
    logs = state.head.log_confidence(torch.cat((state.guess, guesses))).double().cpu()
    out = torch.zeros(count + 1, state.pair.target.vocab_size, dtype=torch.float64)
    ids = state.head.token_ids(torch.arange(logs.shape[1], device=nodes.device)).cpu()
    out[:, ids] = logs.exp()
    return list((out / out.sum(-1, keepdim=True)).numpy())


def after(opening: Opening, token: int) -> After:
    """What follows a first token: one plain pass for the law, one draft and one pass for its own tree."""
    state = opening.state
    with _kept(state):
        final = rules.FinalDraw(token, 0.0, 0.0, 1.0, opening.first.p)
        decoder.commit(state, Walk([], [], final, ROOT), opening.features)
        if state.finish is not None:
            return After(None, None, None)
        next_one = _opening(state, opening.settings)
        return After(next_one.law, opening.below.get(token), next_one.first)


@contextmanager
def _kept(state: State) -> Iterator[None]:
    """Whatever is committed inside is forgotten afterwards; the rows before are never touched."""
    ids, left, finish, guess = list(state.ids), state.left, state.finish, state.guess
    new = state.new_tokens, state.new_features
    lengths = state.cache.length, state.head_cache.length
    try:
        yield
    finally:
        state.ids, state.left, state.finish, state.guess = ids, left, finish, guess
        state.new_tokens, state.new_features = new
        state.cache.length, state.head_cache.length = lengths


# Judging, many at once.


@dataclass(frozen=True)
class Judged:
    """Outcomes [n] of one place: the token, whether it was an accepted candidate, numbers used."""

    token: Tokens
    accepted: NDArray[np.bool_]
    used: Tokens


def judge_many(p: Array, candidates: Sequence[Candidate], u: Array) -> Judged:
    """Row i is :func:`eagle.rules.judge` with the numbers u[i] [R] in order, R at least m + 1.

    The list is fixed, so what p has become by the i-th trial is the same in every row.
    """
    n, m = u.shape[0], len(candidates)
    token = np.zeros(n, dtype=np.int64)
    used = np.full(n, m + 1, dtype=np.int64)
    waiting = np.ones(n, dtype=bool)
    for trial, candidate in enumerate(candidates):
        hit = waiting & (u[:, trial] < rules.accept_probability(p, candidate))
        token[hit], used[hit] = candidate.token, trial + 1
        waiting &= ~hit
        p = rules.residual(p, candidate)[0]
    if waiting.any():
        edges = np.cumsum(p)  # as rules.inverse_cdf cuts its bar
        edges /= edges[-1]
        token[waiting] = np.searchsorted(edges, u[waiting, m], side="right")
    return Judged(token, ~waiting, used)


def numbers_needed(opening: Opening, afters: dict[int, After]) -> int:
    """R: uniform numbers that the longest judgement of two tokens can use."""
    places = [place for one in afters.values() for place in (one.accepted, one.drawn) if place]
    return len(opening.first.tokens) + 1 + max((len(place.tokens) + 1 for place in places), default=0)


def judge_pairs(opening: Opening, afters: dict[int, After], judge: Judge, u: Array) -> Tokens:
    """The next two tokens [n, 2] of n judgements; row i uses u[i] [R] one number after the other,
    as the decoder does. ``ENDED`` stands where no second token follows."""
    first = judge_many(opening.first.p, opening.first.candidates(judge), u)
    out = np.stack((first.token, np.full(u.shape[0], ENDED)), axis=1)
    for token in np.unique(first.token).tolist():
        for accepted in (False, True):
            rows = np.flatnonzero((first.token == token) & (first.accepted == accepted))
            place = afters[token].accepted if accepted else afters[token].drawn
            if rows.size == 0 or place is None:
                continue
            candidates = place.candidates(judge)
            columns = first.used[rows][:, None] + np.arange(len(candidates) + 1)
            out[rows, 1] = judge_many(place.p, candidates, u[rows[:, None], columns]).token
    return out


# Exact laws.


def law_of_one(opening: Opening) -> Law:
    """Vanilla's exact law of the next token."""
    return {(token,): float(opening.law[token]) for token in np.flatnonzero(opening.law).tolist()}


def law_of_two(opening: Opening, afters: dict[int, After]) -> Law:
    """Vanilla's exact law of the next two tokens."""
    law: Law = {}
    for (token,), mass in law_of_one(opening).items():
        second = afters[token].law
        if second is None:
            law[token, ENDED] = mass
            continue
        law.update({(token, int(t)): mass * float(second[t]) for t in np.flatnonzero(second)})
    return law


def outcome_of_one(opening: Opening, judge: Judge) -> Law:
    """The exact law of what this judging gives as the next token."""
    out = rules.law_given(opening.first.p, opening.first.candidates(judge))
    return {(int(token),): float(out[token]) for token in np.flatnonzero(out)}


def outcome_of_two(opening: Opening, afters: dict[int, After], judge: Judge) -> Law:
    """The exact law of what this judging gives as the next two tokens."""
    law: Law = {}
    for branch in rules.branches_given(opening.first.p, opening.first.candidates(judge)):
        place = afters[branch.token].accepted if branch.accepted else afters[branch.token].drawn
        if place is None:
            law[branch.token, ENDED] = law.get((branch.token, ENDED), 0.0) + branch.mass
            continue
        second = rules.law_given(place.p, place.candidates(judge))
        for token in np.flatnonzero(second).tolist():
            law[branch.token, token] = law.get((branch.token, token), 0.0) + branch.mass * float(
                second[token]
            )
    return law


# The decoder's own judging, one at a time.


class _Numbers:
    """A generator that hands out given numbers in order."""

    def __init__(self, numbers: list[float]) -> None:
        self._numbers = iter(numbers)

    def random(self) -> float:
        return next(self._numbers, 0.5)  # below the second token: no longer looked at


def same_as_decoder(opening: Opening, u: Array, pairs: Tokens) -> int:
    """How many of these judgements u [n, R] the decoder's own walk repeats with the same outcome.

    Compared are the next token and, where the walk goes on in the same tree, the one after.
    """
    state, same = opening.state, 0
    for row, pair in zip(u.tolist(), pairs.tolist(), strict=True):
        state.rng = _Numbers(row)  # type: ignore[assignment]
        walk = decoder.judge(state, opening.drafted, opening.rows)
        emitted = (walk.tokens + ([walk.final.token] if walk.final else []))[:2]
        same += emitted == pair[: len(emitted)]
    return same
