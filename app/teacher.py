"""The teacher's plan for twenty minutes, as data: one source for the tab and for ``docs/teacher.md``.

``python -m app.teacher`` writes the document.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "teacher.md"


@dataclass(frozen=True)
class Block:
    """A stretch of the lesson: minutes, what to click, what to ask, the answers to expect."""

    minutes: str
    title: str
    click: str
    ask: str
    expected: str
    wrong: str


BEFORE = (
    "Start the program before the class (`python app.py`) and open the rule lab once: the lab needs no "
    "model, no "
    "GPU and, once the program runs, no network.",
    "Press **class mode**: light theme, larger text. Leave **predict** off at the projector; students who "
    "follow on "
    "their own screens can switch it on.",
    "Send the class the address bar: the link holds the whole state, for everyone, after a restart too.",
    "Keys for a presenter's remote: right and left step through a draw, space is the main button, N and P "
    "change "
    "the card, R draws anew, A shows the answer.",
)

PLAN: tuple[Block, ...] = (
    Block(
        "0–4",
        "The question",
        "Lesson 1, card 1. Read it aloud. Hands up for each answer before anything is pressed.",
        "Draft and target agree, .51 to .49, and only “am” is drafted. Does it then always say “am”?",
        "Some say always (.51/.51 = 1), some say .51. Do not settle it yet.",
        "“The draft equals the target, so the ratio is 1.” It would be, if “am” had been drawn with .51. "
        "It was on a "
        "list, for certain.",
    ),
    Block(
        "4–8",
        "One draw at a time",
        "Space, space, R, and again. Then card 2: type .3, then .7, or drag the marker.",
        "Before each draw: accepted or rejected? After a rejection: what is left to draw from?",
        "“am” below .51; otherwise “have”, the only token left. .51 + .49 × 1 = 1.",
        "“A rejection costs the token.” It costs nothing: the same pass already holds what is left.",
    ),
    Block(
        "8–11",
        "The misreading",
        "Card 3, answer, then card 4: 10,000 draws under both rules with the same luck.",
        "Where did “have” go? Would more draws help?",
        "The accept probability became 1. No: the error bars shrink around the wrong value, total "
        "variation .49.",
        "“It is only noise.” The p-value says otherwise, and the line of total variation stays flat.",
    ),
    Block(
        "11–15",
        "Siblings",
        "Lesson 2, cards 1 and 2. Then card 4 for the token that nobody drafted.",
        "“am” (.51) is rejected. With what probability is “have” (.29) accepted now? Does the order matter?",
        ".29 / .49 = .592, but it gets its turn in only .49 of draws: .29 in all. The order does not matter.",
        "“.29.” That is its share of all draws, not of those that get this far.",
    ),
    Block(
        "15–18",
        "Why it works",
        "Lesson 2, card 5. Drag u slowly across a cut.",
        "Which token does the bar say, which do the trials say? Why can they never disagree?",
        "Cutting off the first piece and stretching the rest keeps u uniform, so both read the same place.",
        "“Then the trials need only one random number.” One would do; the decoder draws afresh: same law, "
        "other luck.",
    ),
    Block(
        "18–20",
        "Where p/q belongs, and the way out",
        "Lesson 3, card 1, then 2. Leave the misreadings on file as homework.",
        "When is it right to divide by the draft's probability?",
        "When the candidate was drawn with that probability. Divide by the probability of being offered, "
        "always.",
        "“EAGLE-2 forgot q.” Its q is 1.",
    ),
)

HOMEWORK = (
    "Find settings of your own in which the misreading gives a total variation above .6. Send the link.",
    "Lesson 3, card 3: a sampled draft that equals the target is never rejected. Why would anyone use a "
    "fixed list? "
    "(It offers several siblings at once: with two of them, am/have is accepted for certain.)",
    "Lesson 5: find costs at which speculation loses at every depth. What is the output then? (Still the "
    "target's.)",
)


def markdown() -> str:
    """The whole sheet as Markdown."""
    lines = ["# Twenty minutes with the rule lab: the teacher's sheet", ""]
    lines += [
        "One question carries the lesson: *if the draft only ever offers “am”, does the output only ever say "
    ]
    lines[-1] += "“am”?* Everything is in the tab **Rule lab**; card numbers are those on screen."
    lines += ["", "## Before the class", ""]
    lines += [f"- {item}" for item in BEFORE]
    for block in PLAN:
        lines += ["", f"## {block.minutes} min: {block.title}", ""]
        lines += [
            f"- **Click**: {block.click}",
            f"- **Ask**: {block.ask}",
            f"- **Expect**: {block.expected}",
            f"- **Usual wrong answer**: {block.wrong}",
        ]
    lines += ["", "## To take home", ""]
    lines += [f"{i}. {item}" for i, item in enumerate(HOMEWORK, 1)]
    lines += [
        "",
        "A handout: the button **print** gives the question, the draw and the law on one sheet; every "
        "picture has a "
        "button for SVG and PNG.",
        "",
        "<!-- Written by `python -m app.teacher` from app/teacher.py. -->",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    DOCUMENT.parent.mkdir(exist_ok=True)
    DOCUMENT.write_text(markdown(), encoding="utf-8")
