"""Lessons, presets and misreadings, as data: each names a state of the lab and what to ask about it.

A page of the lab is a lesson's card (lessons 1 to 6), a preset (lesson 0) or a misreading (lesson 7);
its ``settings`` are fields of :class:`app.lab_state.LabState` that differ from the default. Numbers
in the texts are checked by ``tests/test_lessons.py`` against the rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from app.lab_state import DEFAULT, TEST_COLUMN, Guess, LabState, tidy

Stage = Literal["lab", "tree", "speed", "recorded"]
SPARE_NAMES = ("was", "think", "do", "can", "will", "love", "know", "see")
PRESET_PAGES, MISREADING_PAGES = 0, 7


@dataclass(frozen=True)
class Card:
    """One page: a question, what to look for, what is true. ``right`` numbers the choices from 1.

    The exact law stays covered until the answer is shown, unless ``open`` says otherwise.
    """

    title: str
    question: str
    look: str
    reveal: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    choices: tuple[str, ...] = ()
    right: int = 0
    stage: Stage = "lab"
    open: bool = False
    link: tuple[str, str] | None = None


@dataclass(frozen=True)
class Lesson:
    """A handful of cards on one idea."""

    title: str
    cards: tuple[Card, ...]


def typed(*draws: float) -> tuple[tuple[int, float], ...]:
    """Draws set by hand for the first trials."""
    return tuple((TEST_COLUMN + i, draw) for i, draw in enumerate(draws))


THREE = {
    "tokens": ("am", "have", "was"),
    "target": (0.51, 0.29, 0.2),
    "draft": (0.6, 0.3, 0.1),
    "k": 2,
}
ARTICLES = {"tokens": ("the", "a", "one"), "target": (0.5, 0.3, 0.2)}
LEANING = {**ARTICLES, "draft": (0.2, 0.6, 0.2)}
FIVE = {
    "tokens": ("am", "have", "was", "think", "do"),
    "target": (0.4, 0.25, 0.15, 0.12, 0.08),
    "draft": (0.45, 0.3, 0.1, 0.1, 0.05),
    "k": 2,
}
BAD_DRAFT = {"tokens": ("am", "have", "was"), "target": (0.1, 0.2, 0.7), "draft": (0.8, 0.15, 0.05), "k": 2}

_ONE_COIN = Lesson(
    "One coin",
    (
        Card(
            "The question",
            "After “I”, draft and target agree: “am” .51, “have” .49. EAGLE-2 drafts only its most "
            "confident token, “am”. Does it then always say “am”?",
            "Press space: the draw falls on the bar. What happens when it falls to the right of .51?",
            "“am” was certain to be offered, so q = 1, and it is accepted with the target's own .51. In "
            "the other .49 it is rejected and struck out, and all that is left is “have”: .49 × 1 = .49. "
            "Out comes .51 / .49, exactly the target.",
            choices=("Yes, always “am”", "No: “am” 51 times in 100", "Mostly “am”, well above .51"),
            right=2,
        ),
        Card(
            "What if the die had shown .3?",
            "The draw you see was rejected. Type .3 for it, or drag the marker. Which token comes out?",
            "Only the draw changed. The bar, the candidates and the law stayed where they were.",
            ".3 is below .51, so “am” is accepted and nothing else is drawn. Any draw from .51 up "
            "rejects it. “Accept probability” is the length of the piece; the verdict is where the draw "
            "fell.",
            {"typed": typed(0.8), "step": 1},
            choices=("“am”", "“have”"),
            right=1,
        ),
        Card(
            "The misreading",
            "Now judge as if “am” had been drawn from the draft: divide by the confidence, min(1, .51 / "
            ".51). "
            "What comes out?",
            "Where is the cut on the bar now? How much of it is left for “have”?",
            "The accept probability is 1: always “am”, never “have”, .49 away from the target (total "
            "variation). Dividing by the confidence is right for a candidate that was *drawn* with that "
            "probability. This one was on a fixed list, offered every time.",
            {"rule": "misreading", "other": "eagle2"},
            choices=(".51 / .49 as before", "always “am”", ".26 / .74"),
            right=2,
        ),
        Card(
            "Many draws",
            "10,000 draws under both rules, with the same luck. Which one can tell “am” from the target?",
            "Follow the total variation as the draws add up: one line goes down, the other stays at .49.",
            "EAGLE-2's shares stay within sampling noise of .51 / .49. The misreading's never move. "
            "More draws do not cure a bias.",
            {"draws": 10_000},
            open=True,
        ),
    ),
)

_SIBLINGS = Lesson(
    "Siblings and the residual",
    (
        Card(
            "The second sibling",
            "Target: “am” .51, “have” .29, “was” .20; two are drafted. “am” has just been rejected. "
            "With what probability is “have” accepted now?",
            "In “what is left”: “am” is struck out and the rest grow until they sum to 1 again.",
            ".29 / (1 − .51) = .592. It looks like more than .29, but “have” only gets its turn in .49 of "
            "all "
            "draws: .49 × .592 = .29, the target's own.",
            {**THREE, "typed": typed(0.8), "step": 1},
            choices=(".29", ".592", ".49"),
            right=2,
        ),
        Card(
            "The other order",
            "Offer “have” first and “am” second. Does the output change?",
            "Read the two accept probabilities, then the law.",
            "The accept probabilities change: .29, then .51 / (1 − .29) = .718. The output does not: each "
            "child is accepted with exactly its target probability, in any order.",
            {**THREE, "order": (1, 0)},
            choices=("Yes, “have” comes out more often", "No, not at all"),
            right=2,
        ),
        Card(
            "All rejected",
            "Target .5, .3, .2. Both candidates are about to be rejected. What is the last draw taken from?",
            "Press space twice and watch what is left after each rejection.",
            "After the first rejection (0, .6, .4), after the second (0, 0, 1). The step still brings one "
            "token, "
            "the target's own, and it costs no further pass.",
            {**ARTICLES, "draft": (0.6, 0.3, 0.1), "k": 2, "typed": typed(0.9, 0.9)},
            choices=("From the target again: .5, .3, .2", "From what is left: only “one”", "The step fails"),
            right=2,
        ),
        Card(
            "Never drafted",
            "Five tokens, two of them drafted. “think” (.12) is not. How often does it come out?",
            "In the law, find the piece for “think”. Which path leads there?",
            "Exactly .12. It comes out when both candidates are rejected: .35 × .343 = .12. A short list "
            "makes "
            "fewer drafts accepted; it cuts nothing off the output.",
            FIVE,
            choices=("Never", "Less than .12", "Exactly .12"),
            right=3,
        ),
        Card(
            "One number for everything",
            "Could a single number u decide all of it, candidates and rest?",
            "Drag u. Above: draw a token from the target at once. Below: the trials, one by one. "
            "Do they ever disagree?",
            "They never disagree. Cut the bar at p(x1), p(x1) + p(x2), ... In the first piece the first "
            "trial is accepted. "
            "Otherwise (u − p1) / (1 − p1) is again uniform: the next trial's draw. So the whole rule equals "
            "“draw x from the target; if x was drafted, walk there”.",
            {**THREE, "view": "why"},
            choices=("Yes", "No, each trial needs its own"),
            right=1,
        ),
    ),
)

_SAMPLED_DRAFTS = Lesson(
    "Sampled drafts: where p/q belongs",
    (
        Card(
            "The draft rolls a die too",
            "In speculative sampling the draft *draws* its candidate. It drew “a”, which it does in .6 of "
            "all "
            "cases; the target gives “a” .3. With what probability must it be accepted?",
            "“a” is offered twice as often as it should come out. What must happen to half of the offers?",
            "min(1, p/q) = .3 / .6 = .5. Then “a” comes out .6 × .5 = .3. The rejected .3 goes to the tokens "
            "that were offered too seldom: here all of it to “the”, .2 + .3 = .5.",
            {**LEANING, "rule": "chain", "typed": ((0, 0.5),)},
            choices=(".3", ".5", ".6"),
            right=2,
        ),
        Card(
            "The same ratio on a fixed list",
            "Now “a” is not drawn: it is simply the draft's favourite and offered every time. Keep .3 / .6?",
            "Compare the two laws. Which token has disappeared?",
            "Then “a” would come out .5 of the time instead of .3, and “one” never. The ratio must be taken "
            "with the probability of being *offered*: 1 here. .3 / 1 = .3.",
            {**LEANING, "rule": "misreading", "other": "eagle2"},
            choices=("Yes, p/q is p/q", "No"),
            right=2,
        ),
        Card(
            "A perfect draft",
            "The draft equals the target, and its one candidate is drawn. How often is it rejected?",
            "Switch the rule to EAGLE-2 and compare the mass of “accepted”.",
            "Never: p/q = 1. On a fixed list “am” would be rejected .49 of the time. That is the price of a "
            "fixed list; what it buys is siblings: with k = 2 one of the two is always accepted.",
            {"rule": "chain", "other": "eagle2"},
            choices=("Never", ".49 of the time", ".26 of the time"),
            right=1,
        ),
        Card(
            "Several drawn: EAGLE-1",
            "EAGLE-1 draws its siblings without replacement. “a” was drawn and rejected. Does only the "
            "entry of "
            "“a” change in what is left?",
            "Compare what is left with max(0, p − q), token by token.",
            "The whole draft is subtracted, norm(max(0, p − q)). Where the draft was certain, q is 1 on "
            "the candidate and 0 elsewhere, so the same formula takes out only the candidate: that is "
            "EAGLE-2.",
            {**LEANING, "rule": "eagle1", "k": 2, "typed": ((0, 0.5), (1, 0.3), *typed(0.8)), "step": 2},
            choices=("Yes", "No"),
            right=2,
        ),
        Card(
            "Temperature",
            "Move the temperature. Which bars move under EAGLE-2, and which under the sampled rules?",
            "Switch the rule and watch the draft's bars.",
            "Under EAGLE-2 only the target's: the draft's list stays what it was. A sampled draft is drawn "
            "at "
            "the same temperature, so both move. The output equals the target at that temperature each time.",
            {**LEANING, "temperature": 0.5, "k": 2},
            choices=("Both, always", "Only the target's, always", "It depends on the rule"),
            right=3,
        ),
    ),
)

_TREES = Lesson(
    "Trees: confidence, value, expand and rerank",
    (
        Card(
            "Confidence and value",
            "Each number on an arrow is a confidence: the head's probability of this token, given its path. "
            "Which token of the second level does the head believe in most?",
            "Multiply along the path: that product is the value.",
            "“am a”: .55 × .5 = .275. “have a” has the larger confidence (.7), but its path starts with .35: "
            "value .245. A value estimates how likely the whole path is to be accepted.",
            {"total": 10},
            choices=("“a” after “am”", "“a” after “have”"),
            right=1,
            stage="tree",
        ),
        Card(
            "Expand, then rerank",
            "Expand goes on from the two most valuable nodes of each level. Rerank then keeps the most "
            "valuable "
            "nodes of the whole tree. With 6 kept: is “not” (level 2, never expanded) among them?",
            "Move the number of kept nodes. A parent always comes before its child: why?",
            "“not” is kept: its value .165 beats “student” (.138) on level 3. A child's value is never "
            "above its parent's, "
            "so what is kept is always a connected tree.",
            {"total": 6},
            choices=("Yes", "No, only expanded nodes are kept"),
            right=1,
            stage="tree",
        ),
        Card(
            "What confidence is not",
            "The head says “am” .55. Is that the probability with which the target accepts it?",
            "Go back to lesson 1: which number was the draw tested against?",
            "It is tested against the target's own probability. The confidence decides *whether and in which "
            "order* a token is offered, never how it is judged. A well trained head has confidences near the "
            "accept rate, and a bad one only costs speed.",
            {"total": 6},
            choices=("Yes", "No"),
            right=2,
            stage="tree",
        ),
    ),
)

_SPEED = Lesson(
    "What speeds it up, and what does not",
    (
        Card(
            "τ: tokens for one pass",
            "A chain of 5 drafted tokens; each level is walked with probability .7. How many tokens does one "
            "target pass bring on average?",
            "The target adds one token of its own to whatever was accepted.",
            "τ = 1 + .7 + .7² + ... + .7⁵ = 2.94. Deeper chains add less and less: no depth gets past "
            "1 / (1 − .7) = 3.33.",
            {"share": 0.7, "depth": 5},
            choices=("3.5", "2.94", "5"),
            right=2,
            stage="speed",
        ),
        Card(
            "ω: what a step costs",
            "Each draft step costs .24 of a target pass (a large head for a small target). Which depth is "
            "best?",
            "Watch the peak of the curve while you move the cost of a draft step.",
            "Speedup = τ / (1 + ω). With .24 a step the peak is at depth 2 (1.48); with .06 it is at depth 5 "
            "(2.26). A cheaper head or a smaller draft vocabulary moves it; the target's law never moves.",
            {"share": 0.7, "depth": 5, "draft_step": 0.24, "extra_token": 0.0},
            choices=("As deep as possible", "A shallow one", "It makes no difference"),
            right=2,
            stage="speed",
        ),
        Card(
            "When it loses",
            "The head is poor (.3 a level) and verifying is dear (.15 of a pass for each token). Deeper?",
            "Is there any depth at which the solid line is above 1?",
            "Below 1 speculation is slower than plain decoding, and every level makes it worse. The output "
            "is "
            "still exactly the target's. This picture is arithmetic on the numbers you chose; measured "
            "ones are "
            "on the page's race.",
            {"share": 0.3, "depth": 5, "draft_step": 0.24, "extra_token": 0.15},
            choices=("Yes, more tokens are accepted", "No"),
            right=2,
            stage="speed",
        ),
    ),
)

_REAL = Lesson(
    "The real thing",
    (
        Card(
            "A node of a recorded run",
            "These are the real numbers of one node: the target's probabilities and the head's confidences. "
            "Which candidates will be accepted?",
            "Only the candidates keep their names; all other tokens of the vocabulary are taken as one.",
            "The same rule, the same bar. Draw again and again: each candidate is accepted with the target's "
            "own probability, and the rest of the vocabulary gets what is left.",
            stage="recorded",
            open=True,
        ),
        Card(
            "The same node, misread",
            "Judge the same real node with the misreading. Which tokens does it favour?",
            "Compare the columns of the outcome table.",
            "Tokens to which the head gives too little are accepted too often, and what is left is bent as "
            "well. In a long text such errors add up, one at every node.",
            {"rule": "misreading", "other": "eagle2"},
            stage="recorded",
            open=True,
        ),
    ),
)

LESSONS: tuple[Lesson, ...] = (_ONE_COIN, _SIBLINGS, _SAMPLED_DRAFTS, _TREES, _SPEED, _REAL)


PRESETS: tuple[Card, ...] = (
    Card(
        "am / have",
        "Draft = target, one candidate. When does “have” come out?",
        "Space, then R, a few times.",
        "",
    ),
    Card(
        "Three siblings",
        "Two of three are drafted. What does the second one's turn look like?",
        "Accept probabilities .51, then .592.",
        "",
        {**THREE, "typed": typed(0.8)},
    ),
    Card(
        "All rejected",
        "Both candidates fall. What is left to draw from?",
        "What is left: (0, .6, .4), then (0, 0, 1).",
        "",
        {**ARTICLES, "draft": (0.6, 0.3, 0.1), "k": 2, "typed": typed(0.9, 0.9)},
    ),
    Card(
        "A sure token",
        "After “New” both models are sure of “York”. How often is a draft wasted?",
        "The accept probability of a sure token is near 1: this is where speed comes from.",
        "",
        {
            "tokens": ("York", "Zealand", "Orleans"),
            "target": (0.97, 0.02, 0.01),
            "draft": (0.94, 0.03, 0.03),
        },
    ),
    Card(
        "A sampled draft",
        "The draft draws its candidate. Where does p/q belong?",
        "A token offered too often is accepted with p/q; one offered too seldom always.",
        "",
        {**LEANING, "rule": "chain"},
    ),
    Card(
        "A bad draft",
        "The draft is wrong about everything. Is the output wrong too?",
        "Few candidates are accepted, and the output is exactly the target's.",
        "",
        BAD_DRAFT,
    ),
)


# Pages of the lab.


def page(state: LabState) -> Card:
    """The card that a state is on; the first one of its lesson where there is no such card."""
    cards = cards_of(state.lesson)
    return cards[state.card - 1] if 1 <= state.card <= len(cards) else cards[0]


def cards_of(lesson: int) -> tuple[Card, ...]:
    """The cards of a lesson; 0 gives the presets, 7 the misreadings."""
    if lesson == PRESET_PAGES:
        return PRESETS
    if lesson == MISREADING_PAGES:
        from app.misreadings import MISREADINGS

        return MISREADINGS
    return LESSONS[lesson - 1].cards


def neighbour(lesson: int, card: int, step: int) -> tuple[int, int]:
    """The next (1) or previous (-1) card over all lessons, staying at the ends."""
    every = [(i, j) for i, les in enumerate(LESSONS, 1) for j in range(1, len(les.cards) + 1)]
    if (lesson, card) not in every:
        return every[0]
    return every[max(0, min(len(every) - 1, every.index((lesson, card)) + step))]


def open_card(
    lesson: int, card: int, *, room: bool = False, predict: bool = False, guesses: tuple[Guess, ...] = ()
) -> LabState:
    """The state that a card starts with."""
    chosen = cards_of(lesson)[card - 1]
    start = replace(DEFAULT, **dict(chosen.settings))
    return tidy(replace(start, lesson=lesson, card=card, room=room, predict=predict, guesses=guesses))
