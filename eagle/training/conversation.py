"""The target talks to itself: where each row of a corpus is, and what is fed to it next.

A user turn is sampled after an opened user header, the answer after an opened assistant header, and so
on until the row is full. What lies between the turns is not sampled but forced, token by token, so
that every row gets one token in every pass and no padding is needed.

    <user header> sampled question <end, assistant header> sampled answer <user header> sampled ...
        forced                              forced                            forced

Header and end tokens are read off the tokenizer's own chat template. Without a template a row is plain
text that starts after the end token, and all of it counts as answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eagle.training.errors import TrainingError

# Characters that no text may hold, to find where a template puts its contents.
MARKS = ("\ufdd0", "\ufdd1", "\ufdd2")
# Openings that spread the questions over kinds of task; half of the questions start freely.
FIRST_WORDS = (
    "What", "How", "Why", "Who", "When", "Where", "Which", "Can you", "Could you", "Write", "Explain",
    "List", "Give me", "Describe", "Summarize", "Translate", "Calculate", "Solve", "Create", "Tell me",
    "Write a Python function", "Write a short story", "Write an email", "Rewrite", "Complete", "Compare",
    "Is", "Are", "Do", "I", "My", "The", "In", "If", "Suggest", "Find", "Name", "Identify", "Read", "Given",
)  # fmt: skip


@dataclass(frozen=True)
class Template:
    """Ids that surround the turns. ``ends`` are the ids that end a turn.

    ``opening``: all before the first question; ``to_answer``: from a question's end to its answer;
    ``to_question``: from an answer's end to the next question. The last two begin with the end token
    where the template has one.
    """

    opening: tuple[int, ...]
    to_answer: tuple[int, ...]
    to_question: tuple[int, ...]
    ends: frozenset[int]
    chat: bool = True


def read_template(tokenizer: Any, ends: frozenset[int]) -> Template:
    """The chat template's own pieces; plain text where there is none."""
    if not tokenizer.chat_template:
        start = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else min(ends, default=0)
        return Template((start,), (), (start,), ends, chat=False)
    roles = ("user", "assistant", "user")
    messages = [{"role": r, "content": mark} for r, mark in zip(roles, MARKS, strict=True)]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=False)
    parts = []
    for mark in MARKS:
        if text.count(mark) != 1:
            raise TrainingError("The tokenizer's chat template changes its messages; no corpus can be made.")
        before, _, text = text.partition(mark)
        parts.append(tuple(tokenizer(before, add_special_tokens=False)["input_ids"]))
    return Template(parts[0], parts[1], parts[2], ends)


@dataclass
class Row:
    """One conversation under way.

    ``speaker`` is ``user`` or ``assistant``; ``forced`` is fed before anything is sampled; ``said`` counts
    the sampled tokens of the turn.
    """

    template: Template
    questions: Sequence[tuple[int, ...]]
    starts: Sequence[tuple[int, ...]]
    rng: np.random.Generator
    user_limit: int
    tokens: list[int] = field(default_factory=list)
    answer: list[bool] = field(default_factory=list)
    forced: deque[int] = field(default_factory=deque)
    speaker: str = "user"
    said: int = 0

    def __post_init__(self) -> None:
        self.forced.extend(self.template.opening)
        if self.template.chat:
            self._ask()
        else:
            self.speaker = "assistant"

    def sampling(self) -> bool:
        """Whether the next token is sampled, not forced."""
        return not self.forced

    def push(self, sampled: int) -> int:
        """Takes the row one token further: a forced one, or the sampled one. Returns it."""
        if self.forced:
            token = self.forced.popleft()
            self.tokens.append(token)
            self.answer.append(not self.template.chat)
            return token
        self.tokens.append(sampled)
        self.answer.append(self.speaker == "assistant")
        self.said += 1
        ended = sampled in self.template.ends
        if ended or (self.speaker == "user" and self.said >= self.user_limit):
            self._switch(ended, sampled)
        return sampled

    def _switch(self, ended: bool, last: int) -> None:
        """Queues what lies between this turn and the next, without an end token that is there already."""
        chat, asking = self.template.chat, self.speaker == "user"
        between = self.template.to_answer if asking else self.template.to_question
        self.forced.extend(between[1:] if ended and between[:1] == (last,) else between)
        self.said = 0
        if chat:
            self.speaker = "assistant" if asking else "user"
            if not asking:
                self._ask()

    def _ask(self) -> None:
        """Begins a question: one from the file whole, else freely or with given first words."""
        if self.questions:
            self.forced.extend(self.questions[int(self.rng.integers(len(self.questions)))])
            self.forced.extend(self.template.to_answer)
            self.speaker = "assistant"
        elif self.starts and self.rng.random() < 0.5:
            self.forced.extend(self.starts[int(self.rng.integers(len(self.starts)))])
