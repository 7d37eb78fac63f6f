"""Methods measured against each other: one process, taking turns, the order rotated.

What may be said of speed here is a ratio: every contender runs every prompt once a round, so that a
machine that slows down slows all of them. Tokens are counted by ids on all sides; the prompt's pass
is timed apart; a first round warms up and is not counted.
"""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from tqdm import tqdm

from eagle.recording import packages
from eagle.settings import Method, Settings

if TYPE_CHECKING:
    from eagle.decoder import Pair

VANILLA = "vanilla"


@dataclass(frozen=True)
class Sample:
    """One prompt decoded once: tokens after the first, and where the milliseconds went."""

    tokens: int
    passes: int
    decode_ms: float
    prefill_ms: float
    draft_ms: float = 0.0
    verify_ms: float = 0.0
    commit_ms: float = 0.0


@dataclass
class Contender:
    """A name and a way to decode prompt ids once."""

    name: str
    decode: Callable[[list[int]], Sample]
    rounds: list[list[Sample]] = field(default_factory=list)


def ours(pair: Pair, name: str, settings: Settings) -> Contender:
    """One of our methods."""
    from eagle.decoder import decode

    def once(ids: list[int]) -> Sample:
        steps = list(decode(pair, ids, settings))
        times = [step.times for step in steps[1:]]
        return Sample(
            tokens=sum(len(step.emitted) for step in steps[1:]),
            passes=len(times),
            decode_ms=sum(t.total_ms for t in times),
            prefill_ms=steps[0].times.total_ms,
            draft_ms=sum(t.draft_ms for t in times),
            verify_ms=sum(t.verify_ms for t in times),
            commit_ms=sum(t.commit_ms for t in times),
        )

    return Contender(name, once)


def transformers_generate(model: Any, name: str, settings: Settings, **options: Any) -> Contender:
    """transformers' own ``generate`` on the same weights, timed from its first new token on."""
    from transformers.generation.streamers import BaseStreamer

    class Clock(BaseStreamer):
        def __init__(self) -> None:
            self.at: list[float] = []

        def put(self, value: Any) -> None:
            self.at.append(time.perf_counter())

        def end(self) -> None:
            self.at.append(time.perf_counter())

    sampling: dict[str, Any] = {"do_sample": False}
    if settings.temperature > 0:
        sampling = {"do_sample": True, "temperature": settings.temperature, "top_k": settings.top_k}
        sampling["top_p"] = settings.top_p

    def once(ids: list[int]) -> Sample:
        torch.manual_seed(settings.seed or 0)
        clock = Clock()
        batch = torch.tensor([ids], device=model.device)
        began = time.perf_counter()
        out = model.generate(
            batch,
            attention_mask=torch.ones_like(batch),
            max_new_tokens=settings.max_new_tokens,
            streamer=clock,
            **sampling,
            **options,
        )
        new = out.shape[1] - len(ids)
        first = clock.at[1] if len(clock.at) > 1 else clock.at[-1]
        return Sample(
            new - 1, max(0, len(clock.at) - 3), 1000 * (clock.at[-1] - first), 1000 * (first - began)
        )

    return Contender(name, once)


def measure(contenders: Sequence[Contender], prompts: Sequence[list[int]], repeats: int) -> None:
    """Fills each contender's rounds: a warm-up on the first prompt, then ``repeats`` rotated rounds."""
    for contender in contenders:
        contender.decode(prompts[0])
    with tqdm(total=repeats * len(prompts) * len(contenders), desc="bench", unit="run") as bar:
        for turn in range(repeats):
            for contender in contenders:
                contender.rounds.append([])
            for index, ids in enumerate(prompts):
                start = (turn + index) % len(contenders)
                for contender in [*contenders[start:], *contenders[:start]]:
                    bar.set_postfix_str(contender.name)
                    contender.rounds[turn].append(contender.decode(ids))
                    bar.update()


def tokens_per_s(samples: Sequence[Sample]) -> float:
    """All tokens over all time of these samples; 0 where nothing was decoded."""
    spent = sum(sample.decode_ms for sample in samples)
    return 1000 * sum(sample.tokens for sample in samples) / spent if spent else 0.0


def rows(contenders: Sequence[Contender]) -> list[dict[str, Any]]:
    """One row of figures a contender; speedups are ratios to vanilla within each round."""
    base = next((c for c in contenders if c.name == VANILLA), None)
    return [_row(contender, base) for contender in contenders]


def _row(contender: Contender, base: Contender | None) -> dict[str, Any]:
    speeds = [tokens_per_s(samples) for samples in contender.rounds]
    every = [sample for samples in contender.rounds for sample in samples]
    passes = sum(sample.passes for sample in every)
    tau = sum(sample.tokens for sample in every) / passes if passes else None
    ratios = [
        tokens_per_s(mine) / tokens_per_s(theirs)
        for mine, theirs in zip(contender.rounds, base.rounds if base else [], strict=False)
        if tokens_per_s(theirs)
    ]
    speedup = statistics.median(ratios) if ratios else None
    first = contender.rounds[0]

    def per_pass(name: str) -> float | None:
        return round(sum(getattr(s, name) for s in every) / passes, 2) if passes else None

    return {
        "method": contender.name,
        "tokens_per_s": round(statistics.median(speeds), 2),
        "tokens_per_s_range": [round(min(speeds), 2), round(max(speeds), 2)],
        "speedup_vs_vanilla": None if speedup is None else round(speedup, 3),
        "speedup_range": [round(min(ratios), 3), round(max(ratios), 3)] if ratios else None,
        "tau": None if tau is None else round(tau, 3),
        "overhead": None if not speedup or tau is None else round(tau / speedup - 1, 3),
        "target_passes": sum(sample.passes for sample in first),
        "new_tokens": sum(sample.tokens for sample in first),
        "prefill_ms": round(statistics.median(sample.prefill_ms for sample in every), 1),
        "draft_ms": per_pass("draft_ms"),
        "verify_ms": per_pass("verify_ms"),
        "commit_ms": per_pass("commit_ms"),
    }


def machine(pair: Pair) -> dict[str, Any]:
    """What the figures were measured on."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "cpu": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "gpu": gpu,
        "threads": torch.get_num_threads(),
        "dtype": pair.info.target.dtype,
        "weights": pair.info.target.weights,
        "target": pair.info.target.name,
        "head_hash": pair.info.head.hash if pair.info.head else None,
        "packages": packages(),
        "peak_rss_mb": peak_rss_mb(),
    }


def peak_rss_mb() -> float:
    """The process's largest resident memory so far (where the platform tells), else the present one."""
    import psutil

    memory = psutil.Process().memory_info()
    if hasattr(memory, "peak_wset"):
        return round(memory.peak_wset / 2**20, 1)
    try:
        import resource
    except ImportError:
        return round(memory.rss / 2**20, 1)
    scale = 2**20 if platform.system() == "Darwin" else 2**10
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale, 1)


def table(figures: Sequence[dict[str, Any]]) -> str:
    """The rows for people."""
    head = ("method", "tokens/s", "speedup (range)", "τ", "ω", "passes", "draft", "verify", "commit ms")
    lines = [head, *(_line(row) for row in figures)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    padded = [[cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines]
    return "\n".join("  ".join(cells).rstrip() for cells in padded)


def _line(row: dict[str, Any]) -> tuple[str, ...]:
    spread = row["speedup_range"]

    def number(name: str, digits: int) -> str:
        return "-" if row[name] is None else f"{row[name]:.{digits}f}"

    return (
        row["method"],
        number("tokens_per_s", 1),
        f"{row['speedup_vs_vanilla']:.2f} ({spread[0]:.2f}-{spread[1]:.2f})" if spread else "-",
        number("tau", 2),
        number("overhead", 2),
        str(row["target_passes"]),
        number("draft_ms", 1),
        number("verify_ms", 1),
        number("commit_ms", 1),
    )


def contenders_for(
    pair: Pair, names: Sequence[str], trees: Sequence[str], settings: Settings, outside: Any | None
) -> list[Contender]:
    """Our methods (each tree shape of the tree methods is one contender), then transformers' own."""
    found: list[Contender] = []
    for name in names:
        method = Method(name)
        shapes = trees if method in (Method.EAGLE2, Method.EAGLE3) else trees[:1]
        for tree in shapes:
            chosen = Settings(**{**settings.model_dump(), "method": method, "tree": tree})
            label = f"{name} {tree}" if len(shapes) > 1 else name
            found.append(ours(pair, label, chosen))
    if outside is not None:
        found.append(transformers_generate(outside, "transformers generate", settings))
        found.append(
            transformers_generate(outside, "transformers prompt lookup", settings, prompt_lookup_num_tokens=3)
        )
    return found
