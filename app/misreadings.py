"""Misreadings on file: ways in which people went wrong in public, what is true, and where it was said.

Each is a page of the lab (lesson 7): ``question`` is what was thought, ``reveal`` what is true,
``link`` the thread. The threads are cited for the question they ask; most were answered there.
"""

from __future__ import annotations

from typing import Any

from app.lessons import BAD_DRAFT, FIVE, LEANING, THREE, Card, typed

_EAGLE = "https://github.com/SafeAILab/EAGLE/issues/"


def _file(
    title: str, thought: str, look: str, truth: str, url: str, settings: dict[str, Any] | None = None
) -> Card:
    name = url.removeprefix("https://github.com/").replace("/issues/", " #").replace("/pull/", " #")
    return Card(title, thought, look, truth, settings or {}, link=(name, url), open=True)


MISREADINGS: tuple[Card, ...] = (
    _file(
        "q is the number printed beside the token",
        "“The code fixes the draft's probability at 1. It should be the confidence; this is a bug.”",
        "The confidence is .51, yet q is 1: “am” is offered every single time.",
        "q is the probability with which this candidate was put forward. A top-k list is deterministic, so "
        "each candidate on it was put forward with probability 1, whatever confidence is printed beside it.",
        _EAGLE + "329",
    ),
    _file(
        "The second token is never tried",
        "“Draft = target, “am” .51, “have” .49: “am” is accepted with .51 / .51 = 1, so “have” can't come "
        "out.”",
        "This is the rule as misread: the law is 1 / 0.",
        "“am” is accepted with .51 / 1 = .51. In the other .49, “have” is all that is left.",
        _EAGLE + "110",
        {"rule": "misreading", "other": "eagle2"},
    ),
    _file(
        "min(1, q/p): the ratio upside down",
        "“With p the target and q the draft, accept with min(1, q/p).”",
        "“a” is offered with .6 and wanted with .3: q/p would accept it always.",
        "It is the target's probability over the probability of being offered. 2302.01318 writes q for the "
        "target and p for the draft, 2211.17192 the other way round; carried across, the ratio flips.",
        _EAGLE + "110",
        {**LEANING, "rule": "chain", "typed": ((0, 0.5),)},
    ),
    _file(
        "Two siblings can't both have q = 1",
        "“If token 233 and token 464 are both proposed with probability 100%, that is 200%.”",
        "Two trials, two one-point distributions, one after the other.",
        "They are two proposals, each certain in its own turn; nothing says that they share one "
        "distribution. "
        "The second is tested against what p has become, .592 here, not against .29.",
        _EAGLE + "183",
        {**THREE, "typed": typed(0.8), "step": 1},
    ),
    _file(
        "Top-k must be sampled, or the output is cut off",
        "“Candidates must be drawn at random; a fixed top-k list can't preserve the target's distribution.”",
        "Three of the five tokens are never drafted. Find them in the outcome table.",
        "Tokens off the list come out of the last draw, with exactly their target probability. Any list will "
        "do, even a bad one: it only changes how much is accepted.",
        _EAGLE + "221",
        FIVE,
    ),
    _file(
        "A greedy draft makes the output greedy",
        "“Top-k drafting turns sampling from the target into greedy decoding of the draft.”",
        "The draft's favourite is “am” (.8); the target gives it .1. See what comes out.",
        "The draft only suggests. What is accepted, and what is drawn when nothing is, follows the target. "
        "At "
        "temperature 0 the target's law is one token, so the output is its greedy text, tree or no tree.",
        _EAGLE + "301",
        BAD_DRAFT,
    ),
    _file(
        "Order matters",
        "“Siblings should be tried in a random order rather than one after the other.”",
        "“have” goes first here. Put “am” first and compare the two laws.",
        "With a fixed list each child is accepted with exactly its target probability in any order. The "
        "order "
        "changes the accept probabilities on the way and the number of trials, never the output.",
        "https://github.com/ggml-org/llama.cpp/pull/5625",
        {**THREE, "order": (1, 0)},
    ),
    _file(
        "Rejecting wastes probability",
        "“After a rejection, why not simply draw from the target as it was?”",
        "After “am” was rejected, only “have” is left.",
        "Nothing is lost: the mass of a rejection is given to the tokens that have had too little so far. "
        "Drawing from the uncorrected target would give “am” a second chance: .51 + .49 × .51 = .76.",
        "https://github.com/eth-sri/language-model-arithmetic/issues/14",
        {"typed": typed(0.8), "step": 1},
    ),
    _file(
        "Only the rejected entry changes, always",
        "“After a rejection it is enough to adjust the rejected token's entry.”",
        "The candidate was drawn from the draft: compare what is left with max(0, p − q).",
        "True for a fixed list, where q is 0 everywhere else. For a *sampled* candidate the two whole "
        "distributions must be subtracted; an early version did not, and sampled text got worse.",
        _EAGLE + "20",
        {**LEANING, "rule": "eagle1", "k": 2, "typed": ((0, 0.5), (1, 0.3), *typed(0.8)), "step": 2},
    ),
)
