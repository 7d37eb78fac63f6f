"""Decodes questions with a pair and counts; what is done is kept in a file, so a killed run goes on."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from eagle.decoder import Pair, generate
from eagle.evaluate.counts import Counts, count
from eagle.evaluate.questions import Question
from eagle.settings import Method, Settings, Tree
from eagle.text import PromptError
from eagle.trace import Finish


@dataclass(frozen=True)
class Column:
    """One column of the table: a temperature, with the trimmed draft vocabulary or without."""

    temperature: float
    full_vocabulary: bool

    @property
    def title(self) -> str:
        return f"T={self.temperature:g}{' full' if self.full_vocabulary else ''}"


@dataclass(frozen=True)
class Plan:
    """What is decoded: each column with its questions, and how."""

    columns: Sequence[tuple[Column, Sequence[Question]]]
    tree: Tree
    max_new_tokens: int
    seed: int = 0

    def settings(self, column: Column) -> Settings:
        return Settings(
            method=Method.EAGLE2,
            temperature=column.temperature,
            seed=self.seed,
            max_new_tokens=self.max_new_tokens,
            tree=self.tree,
        )


class Ledger:
    """Counts of finished questions, one JSON line each, in a file or only in memory."""

    def __init__(self, path: Path | None, header: dict[str, Any]) -> None:
        self._path = path
        self._done: dict[tuple[str, str, str], Counts] = {}
        lines = path.read_text().splitlines() if path and path.is_file() else []
        records = [record for record in map(_parse, lines) if record is not None]
        if records and records[0] != {"evaluation": header}:
            raise PromptError(f"{path} holds results of another head, target or setting; name another --out.")
        for record in records[1:]:
            self._done[record["column"], record["task"], record["id"]] = Counts(**record["counts"])
        if path:  # rewritten whole, so that a line which a kill cut short is gone
            path.write_text("".join(json.dumps(r) + "\n" for r in records or [{"evaluation": header}]))

    def get(self, column: Column, question: Question) -> Counts | None:
        return self._done.get((column.title, question.task, question.id))

    def put(self, column: Column, question: Question, counts: Counts) -> None:
        self._done[column.title, question.task, question.id] = counts
        if self._path:
            record = {"column": column.title, "task": question.task, "id": question.id}
            with self._path.open("a") as file:
                file.write(json.dumps(record | {"counts": counts.as_json()}) + "\n")


def _parse(line: str) -> dict[str, Any] | None:
    try:
        return json.loads(line)
    except ValueError:
        return None


def run_plan(pair: Pair, plan: Plan, ledger: Ledger) -> dict[Column, dict[str, Counts]]:
    """Counts by column and task, with a progress bar that shows τ so far."""
    total = sum(len(questions) for _, questions in plan.columns)
    results: dict[Column, dict[str, Counts]] = {}
    with tqdm(total=total, desc="eval", unit=" questions") as bar:
        for column, questions in plan.columns:
            chosen = untrimmed(pair) if column.full_vocabulary else pair
            tasks = results.setdefault(column, {})
            whole = Counts()
            for question in questions:
                counts = ledger.get(column, question)
                if counts is None:
                    counts = ask(chosen, question, plan.settings(column))
                    ledger.put(column, question, counts)
                tasks.setdefault(question.task, Counts()).add(counts)
                whole.add(counts)
                bar.set_postfix_str(f"{column.title} {question.task} τ {whole.tau or 0:.2f}")
                bar.update()
    return results


def ask(pair: Pair, question: Question, settings: Settings) -> Counts:
    """All turns of one question; each answer becomes part of the next turn's prompt."""
    assert isinstance(settings.tree, Tree)
    counts = Counts()
    messages: list[dict[str, str]] = []
    for turn in question.turns:
        messages.append({"role": "user", "content": turn})
        prompt: Any = messages if pair.tokenizer.chat_template else turn
        run = generate(pair, prompt, settings)
        counts.add(count(run, settings.tree.depth))
        if run.finish is Finish.CONTEXT or not run.text.strip():
            break
        messages.append({"role": "assistant", "content": run.text})
    return counts


def untrimmed(pair: Pair) -> Pair:
    """The same pair with a draft that scores the whole vocabulary."""
    assert pair.head is not None
    if pair.head.vocabulary is None:
        return pair
    head = copy.copy(pair.head)
    head.vocabulary = None
    head.scores = type(pair.head.scores)(pair.target.lm_head_weight())
    return replace(pair, head=head, info=pair.info.model_copy(update={"draft_vocabulary": None}))


def mean_tau(tasks: Iterable[Counts]) -> float | None:
    """The mean over tasks of each task's τ; a task without a step is left out."""
    values = [tau for tau in (counts.tau for counts in tasks) if tau is not None]
    return sum(values) / len(values) if values else None
