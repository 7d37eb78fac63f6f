"""Greedy decoding with a draft against vanilla, token for token, and where they part why they do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from eagle import decoder
from eagle.decoder import Pair
from eagle.settings import Method, Settings
from eagle.trace import PromptTrace

# How many rounding steps of the logits' number type may lie between two passes over the same tokens:
# half types round each layer's output, single precision only sums in another order.
NEAR = {torch.float32: 64, torch.float16: 8, torch.bfloat16: 4}


@dataclass(frozen=True)
class Difference:
    """Where eagle2's greedy text leaves vanilla's. ``position`` counts new tokens from 0; a token is
    None where that run had ended. ``best`` are the two largest logits of one plain pass over the
    text they share, ``rounding_step`` the distance between neighbouring numbers of their size."""

    position: int
    vanilla: int | None
    eagle: int | None
    best: tuple[float, float]
    rounding_step: float
    near_tie: bool

    @property
    def gap(self) -> float:
        return self.best[0] - self.best[1]


@dataclass(frozen=True)
class GreedyCheck:
    """One prompt decoded greedily by both; ``tokens`` were compared, ``passes`` is what eagle2 took."""

    prompt: PromptTrace
    tokens: int
    passes: int
    difference: Difference | None
    vanilla: list[int] = field(default_factory=list)
    eagle: list[int] = field(default_factory=list)


class Stop(Protocol):
    """A flag that another thread may set, such as ``threading.Event``."""

    def is_set(self) -> bool: ...


def greedy_check(
    pair: Pair, prompt: PromptTrace, settings: Settings, stop: Stop | None = None
) -> GreedyCheck | None:
    """Decodes with ``settings`` at temperature 0 and with vanilla, and compares; None when stopped."""
    vanilla = _decode(pair, prompt, settings.model_copy(update={"method": Method.VANILLA}), stop)
    eagle = _decode(pair, prompt, settings, stop) if vanilla else None
    if vanilla is None or eagle is None:
        return None
    (wanted, _), (got, passes) = vanilla, eagle
    position = first_difference(wanted, got)
    found = None if position is None else _difference(pair, prompt, wanted, got, position)
    return GreedyCheck(prompt, min(len(wanted), len(got)), passes, found, wanted, got)


def _decode(
    pair: Pair, prompt: PromptTrace, settings: Settings, stop: Stop | None
) -> tuple[list[int], int] | None:
    """The greedy text's ids and the target passes it took; None when stopped."""
    steps = []
    for step in decoder.decode(pair, prompt, settings.model_copy(update={"temperature": 0.0})):
        steps.append(step)
        if stop is not None and stop.is_set():
            return None
    return [token for step in steps for token in step.emitted.token], len(steps) - 1


def first_difference(a: Sequence[int], b: Sequence[int]) -> int | None:
    """The first place where two lists differ, their length included."""
    for position, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return position
    return None if len(a) == len(b) else min(len(a), len(b))


def _difference(pair: Pair, prompt: PromptTrace, vanilla: list[int], eagle: list[int], at: int) -> Difference:
    logits = _last_logits(pair, prompt.token + vanilla[:at])
    best = logits.topk(2).values
    top = best.abs().max()
    step = float(torch.nextafter(top, torch.full_like(top, torch.inf)) - top)
    gap = float(best[0].double() - best[1].double())
    return Difference(
        position=at,
        vanilla=vanilla[at] if at < len(vanilla) else None,
        eagle=eagle[at] if at < len(eagle) else None,
        best=(float(best[0]), float(best[1])),
        rounding_step=step,
        near_tie=gap <= NEAR.get(pair.target.dtype, 0) * step,
    )


@torch.inference_mode()
def _last_logits(pair: Pair, ids: list[int]) -> Tensor:
    """Logits [V] after these tokens, in the target's own number type, from a cache of its own."""
    target = pair.target
    cache = target.new_cache(len(ids) + 1)
    row = torch.tensor(ids, device=target.device)
    for chunk in torch.arange(len(ids), device=target.device).split(decoder.PREFILL_CHUNK):
        features = target.forward(row[chunk], chunk, None, cache)
        cache.keep_first(chunk.shape[0])
    return target.logits(features[-1:])[0].cpu()
