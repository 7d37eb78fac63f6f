"""transformers' own ``generate`` as a contender: what a visitor would otherwise run."""

from __future__ import annotations

import time
from typing import Any

import torch

from eagle.bench import VANILLA, Contender, Sample
from eagle.settings import Settings

PROMPT_LOOKUP_TOKENS = 3


def outside(model: Any, settings: Settings, at: str = "") -> list[Contender]:
    """``generate`` plain, and with its assisted prompt lookup; ``at`` ends the names, vanilla's too."""
    found = [
        transformers_generate(model, f"transformers generate{at}", settings),
        transformers_generate(
            model, f"transformers prompt lookup{at}", settings, prompt_lookup_num_tokens=PROMPT_LOOKUP_TOKENS
        ),
    ]
    for contender in found:
        contender.base = VANILLA + at
    return found


def transformers_generate(model: Any, name: str, settings: Settings, **options: Any) -> Contender:
    """``generate`` on the same weights, timed from the end of its prompt's pass on.

    The streamer is told the prompt first, then each pass's new tokens: the tokens of the first pass
    count as the prompt's, as ours do.
    """
    from transformers.generation.streamers import BaseStreamer

    class Clock(BaseStreamer):
        def __init__(self) -> None:
            self.at: list[float] = []
            self.tokens: list[int] = []

        def put(self, value: Any) -> None:
            self.at.append(time.perf_counter())
            self.tokens.append(value.numel())

        def end(self) -> None:
            pass

    def once(ids: list[int]) -> Sample:
        torch.manual_seed(settings.seed or 0)
        clock = Clock()
        batch = torch.tensor([ids], device=model.device)
        began = time.perf_counter()
        model.generate(
            batch,
            attention_mask=torch.ones_like(batch),
            max_new_tokens=settings.max_new_tokens,
            streamer=clock,
            **_sampling(settings),
            **options,
        )
        passes = clock.at[2:]
        return Sample(
            tokens=sum(clock.tokens[2:]),
            passes=len(passes),
            decode_ms=1000 * (clock.at[-1] - clock.at[1]),
            prefill_ms=1000 * (clock.at[1] - began),
        )

    return Contender(name, once, temperature=settings.temperature, in_parts=False)


def _sampling(settings: Settings) -> dict[str, Any]:
    if settings.temperature == 0:
        return {"do_sample": False}
    return {
        "do_sample": True,
        "temperature": settings.temperature,
        "top_k": settings.top_k,
        "top_p": settings.top_p,
    }
