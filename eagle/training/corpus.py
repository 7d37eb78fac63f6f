"""Text that the target wrote itself, in shards.

All rows of a shard go through the target together, one token each a pass, with temperatures 0, 0.7 and
1.0 taking turns. A shard depends on its index, the target and the settings alone, and is put in place
whole: a killed run makes the missing shards and ends with the same files.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from tqdm import tqdm
from transformers.cache_utils import Cache, DynamicLayer

from eagle.training.conversation import FIRST_WORDS, Row, Template, read_template
from eagle.training.errors import TrainingError
from eagle.training.source import Source

TEMPERATURES = (0.0, 0.7, 1.0)
RECORD = "corpus.json"
# A nucleus is looked for among this many tokens first; only flatter rows are sorted whole.
NUCLEUS_GUESS = 1024


@dataclass(frozen=True)
class Plan:
    """What decides a corpus besides target and prompts. ``user_top_p`` shapes questions, never answers."""

    shards: int = 20
    rows: int = 96
    length: int = 288
    user_limit: int = 48
    user_top_p: float = 0.9
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("shards", "rows", "length", "user_limit"):
            if getattr(self, name) < 1:
                raise TrainingError(f"{name} must be at least 1, but is {getattr(self, name)}.")
        if not 0 < self.user_top_p <= 1:
            raise TrainingError(f"user_top_p must be above 0 and at most 1, but is {self.user_top_p}.")


class Columns(Cache):
    """Keys and values [B, G, length, D] of all layers, allocated once; a pass adds one column."""

    def __init__(self, length: int) -> None:
        super().__init__(layer_class_to_replicate=DynamicLayer)
        self.length, self.filled = length, 0
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        if layer_idx not in self._layers:
            self._layers[layer_idx] = (self._room(key_states), self._room(value_states))
        end = self.filled + key_states.shape[2]
        for store, fresh in zip(self._layers[layer_idx], (key_states, value_states), strict=True):
            store[:, :, self.filled : end] = fresh
        keys, values = self._layers[layer_idx]
        return keys[:, :, :end], values[:, :, :end]

    def _room(self, like: Tensor) -> Tensor:
        return like.new_zeros(*like.shape[:2], self.length, like.shape[3])

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.filled

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:
        return self.filled + query_length, 0


def make_corpus(
    source: Source,
    folder: Path,
    plan: Plan,
    questions: Sequence[str] = (),
    rank: int = 0,
    world: int = 1,
    report: Callable[[str], None] = lambda sentence: None,
) -> None:
    """Makes the shards that are missing from ``folder``; process ``rank`` of ``world`` takes every world-th.

    Raises TrainingError when the folder was begun with another target or plan.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _check_record(folder, source, plan, questions)
    template = read_template(source.tokenizer, source.target.end_tokens)
    asked = [_ids(source, text) for text in questions]
    missing = [i for i in range(rank, plan.shards, world) if not shard_path(folder, i).is_file()]
    total = len(missing) * plan.rows * plan.length
    with tqdm(total=total, desc="corpus", unit=" tokens", unit_scale=True) as bar:
        for index in missing:
            _write(shard_path(folder, index), write_shard(source, template, plan, index, asked, bar))
            report(f"shard {index + 1} of {plan.shards} written")


def shard_path(folder: Path, index: int) -> Path:
    return folder / f"shard_{index:05d}.npz"


def _ids(source: Source, text: str) -> tuple[int, ...]:
    return tuple(source.tokenizer(text, add_special_tokens=False)["input_ids"])


@torch.inference_mode()
def write_shard(
    source: Source,
    template: Template,
    plan: Plan,
    index: int,
    questions: Sequence[tuple[int, ...]],
    bar: Any = None,
) -> dict[str, NDArray[Any]]:
    """One shard's arrays: a function of its arguments (on one machine)."""
    target, device = source.target, source.target.device
    rngs = np.random.SeedSequence([plan.seed, index]).spawn(plan.rows + 1)
    starts = [_ids(source, words) for words in FIRST_WORDS] if template.chat else []
    rows = [Row(template, questions, starts, np.random.default_rng(rng), plan.user_limit) for rng in rngs[1:]]
    generator = torch.Generator(device=device)
    generator.manual_seed(int(rngs[0].generate_state(1)[0]))
    answers = torch.tensor(np.resize(TEMPERATURES, plan.rows), dtype=torch.float32, device=device)
    cache = Columns(plan.length)
    sampled = [0] * plan.rows
    for _ in range(plan.length):
        fed = [row.push(token) for row, token in zip(rows, sampled, strict=True)]
        column = torch.tensor(fed, device=device)[:, None]
        features = target.backbone(input_ids=column, cache=cache, use_cache=True).last_hidden_state[:, -1]
        cache.filled += 1
        asking = torch.tensor([row.speaker == "user" for row in rows], device=device)
        sampled = choose(target.logits(features).float(), answers, asking, plan.user_top_p, generator)
        if bar is not None:
            bar.update(plan.rows)
    kind = np.uint16 if target.vocab_size <= 2**16 else np.uint32
    return {
        "tokens": np.array([row.tokens for row in rows], dtype=kind),
        "assistant": np.array([row.answer for row in rows], dtype=bool),
        "temperature": answers.cpu().numpy(),
    }


def choose(
    logits: Tensor, temperature: Tensor, asking: Tensor, top_p: float, generator: torch.Generator
) -> list[int]:
    """The next token of each row from logits [B, V].

    Answers: at the row's temperature, 0 being the largest logit. Questions (``asking`` [B]): at
    temperature 1 from the smallest set of tokens with mass ``top_p``.
    """
    scale = torch.where(asking, 1.0, temperature)[:, None]
    p = (logits / scale.clamp_min(1e-3)).softmax(-1)
    if top_p < 1 and bool(asking.any()):
        p[asking] = nucleus(p[asking], top_p)
    mass = p.cumsum(-1, dtype=torch.float64)
    draw = torch.rand(len(p), 1, generator=generator, device=p.device, dtype=torch.float64) * mass[:, -1:]
    drawn = torch.searchsorted(mass, draw, right=True)[:, 0]
    return torch.where(scale[:, 0] == 0, logits.argmax(-1), drawn).tolist()


def nucleus(p: Tensor, top_p: float) -> Tensor:
    """p [B, V] without the tokens outside the smallest set of mass ``top_p``; not renormalised."""
    for size in (min(NUCLEUS_GUESS, p.shape[1]), p.shape[1]):
        values, order = p.topk(size, dim=-1)
        reached = values.cumsum(-1)
        if bool((reached[:, -1] >= top_p).all()):
            break
    values[reached - values >= top_p] = 0
    return torch.zeros_like(p).scatter_(-1, order, values)


def _write(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.unfinished")
    unfinished.write_bytes(buffer.getvalue())
    unfinished.replace(path)


def _check_record(folder: Path, source: Source, plan: Plan, questions: Sequence[str]) -> None:
    """Writes what the folder's shards are made of, or checks that it is the same as before."""
    record = {
        "target": source.name,
        "target_sha256": source.sha256,
        "questions": len(questions),
        **{name: value for name, value in asdict(plan).items() if name != "shards"},
    }
    path = folder / RECORD
    if path.is_file():
        try:
            before = json.loads(path.read_text())
        except ValueError:
            raise TrainingError(f"{path} is not valid JSON; delete it or name another folder.") from None
        if before != record:
            changed = ", ".join(name for name in record if before.get(name) != record[name])
            raise TrainingError(
                f"The corpus in {folder} was begun with another {changed}; name another folder."
            )
        return
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.unfinished")
    unfinished.write_text(json.dumps(record, indent=1))
    unfinished.replace(path)


def read_prompts(path: Path) -> list[str]:
    """User turns from a file: JSON lines with ``turns`` (all of them), or plain lines of text."""
    return list(_prompts(path))


def _prompts(path: Path) -> Iterator[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TrainingError(f"The prompt file {path} can not be read ({error!s:.80}).") from None
    for line in lines:
        if not line.strip():
            continue
        if path.suffix != ".jsonl":
            yield line.strip()
            continue
        try:
            turns = json.loads(line)["turns"]
        except (ValueError, KeyError, TypeError):
            raise TrainingError(
                f"A line of {path.name} is no JSON object with turns: {line[:60]!r}."
            ) from None
        yield from turns
