"""Methods measured against each other: one process, taking turns, the order rotated.

What may be said of speed here is a ratio: every contender runs every prompt once a round, so that a
machine that slows down slows all of them. Tokens are counted by ids on all sides; the prompt's pass
is timed apart; a first run warms up and is not counted.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm import tqdm

from eagle.machine import forget_peak, peak_rss_mb
from eagle.settings import Method, Settings

if TYPE_CHECKING:
    from eagle.decoder import Pair

VANILLA = "vanilla"
PERCENTILES = (10, 25, 50, 75, 90)
TREE_METHODS = (Method.EAGLE2, Method.EAGLE3)


@dataclass(frozen=True)
class Sample:
    """One prompt decoded once: tokens after the first, and where the milliseconds went.

    ``record_ms`` is what the record of a run costs besides: it is not in ``decode_ms``.
    """

    tokens: int
    passes: int
    decode_ms: float
    prefill_ms: float
    draft_ms: float = 0.0
    verify_ms: float = 0.0
    commit_ms: float = 0.0
    record_ms: float = 0.0

    @property
    def tokens_per_s(self) -> float | None:
        return 1000 * self.tokens / self.decode_ms if self.decode_ms else None


@dataclass
class Contender:
    """A name, a way to decode prompt ids once, and what came of it, prompt by prompt in each round.

    ``base`` names the contender that its speedup is against: vanilla at the same temperature.
    ``in_parts``: whether its samples tell what drafting, verifying and committing took.
    """

    name: str
    decode: Callable[[list[int]], Sample]
    rounds: list[list[Sample]] = field(default_factory=list)
    base: str = VANILLA
    temperature: float = 0.0
    tree: str | None = None
    in_parts: bool = True
    peak_rss_mb: float = 0.0

    @property
    def samples(self) -> list[Sample]:
        return [sample for samples in self.rounds for sample in samples]


def ours(pair: Pair, name: str, settings: Settings) -> Contender:
    """One of our methods."""
    from eagle.decoder import decode

    def once(ids: list[int]) -> Sample:
        steps = decode(pair, ids, settings)
        prompt = next(steps)
        began = time.perf_counter()
        made = [(step.times, len(step.emitted)) for step in steps]
        wall_ms = 1000 * (time.perf_counter() - began)
        decode_ms = sum(times.total_ms for times, _ in made)
        return Sample(
            tokens=sum(tokens for _, tokens in made),
            passes=len(made),
            decode_ms=decode_ms,
            prefill_ms=prompt.times.total_ms,
            draft_ms=sum(times.draft_ms for times, _ in made),
            verify_ms=sum(times.verify_ms for times, _ in made),
            commit_ms=sum(times.commit_ms for times, _ in made),
            record_ms=max(0.0, wall_ms - decode_ms),
        )

    tree = str(settings.tree) if settings.method in TREE_METHODS else None
    return Contender(name, once, temperature=settings.temperature, tree=tree)


def contenders_for(
    pair: Pair, names: Sequence[str], trees: Sequence[str], asked: Sequence[Settings]
) -> list[Contender]:
    """Methods x tree shapes (of the methods that have some) x settings, which differ in temperature."""
    found: list[Contender] = []
    for settings in asked:
        end = at(settings, asked)
        for name in names:
            shapes = trees if Method(name) in TREE_METHODS else trees[:1]
            for tree in shapes:
                chosen = Settings(**{**settings.model_dump(), "method": name, "tree": tree})
                label = f"{name} {tree}" if len(shapes) > 1 else name
                contender = ours(pair, label + end, chosen)
                contender.base = VANILLA + end
                found.append(contender)
    return found


def at(settings: Settings, asked: Sequence[Settings]) -> str:
    """How a contender's name says its temperature, where there are several."""
    return f" T={settings.temperature:g}" if len(asked) > 1 else ""


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
                    forget_peak()
                    contender.rounds[-1].append(contender.decode(ids))
                    contender.peak_rss_mb = max(contender.peak_rss_mb, peak_rss_mb())
                    bar.update()


def tokens_per_s(samples: Sequence[Sample]) -> float:
    """All tokens over all time of these samples; 0 where nothing was decoded."""
    spent = sum(sample.decode_ms for sample in samples)
    return 1000 * sum(sample.tokens for sample in samples) / spent if spent else 0.0


def rows(contenders: Sequence[Contender]) -> list[dict[str, Any]]:
    """One row of figures a contender (``docs/performance.md`` says what each is)."""
    named = {contender.name: contender for contender in contenders}
    return [_row(contender, named.get(contender.base)) for contender in contenders]


def _row(contender: Contender, base: Contender | None) -> dict[str, Any]:
    speeds = [tokens_per_s(samples) for samples in contender.rounds]
    every = contender.samples
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
        known = passes and contender.in_parts
        return round(sum(getattr(s, name) for s in every) / passes, 2) if known else None

    return {
        "method": contender.name,
        "temperature": contender.temperature,
        "tree": contender.tree,
        "tokens_per_s": round(statistics.median(speeds), 2),
        "tokens_per_s_range": [round(min(speeds), 2), round(max(speeds), 2)],
        "tokens_per_s_percentiles": percentiles(s.tokens_per_s for s in every),
        "speedup_vs_vanilla": None if speedup is None else round(speedup, 3),
        "speedup_range": [round(min(ratios), 3), round(max(ratios), 3)] if ratios else None,
        "speedup_percentiles": percentiles(_paired(contender, base)),
        "tau": None if tau is None else round(tau, 3),
        "overhead": None if not speedup or tau is None else round(tau / speedup - 1, 3),
        "target_passes": sum(sample.passes for sample in first),
        "new_tokens": sum(sample.tokens for sample in first),
        "prefill_ms": round(statistics.median(sample.prefill_ms for sample in every), 1),
        "draft_ms": per_pass("draft_ms"),
        "verify_ms": per_pass("verify_ms"),
        "commit_ms": per_pass("commit_ms"),
        "record_ms": per_pass("record_ms"),
        "peak_rss_mb": contender.peak_rss_mb or None,
    }


def _paired(contender: Contender, base: Contender | None) -> list[float | None]:
    """Each run's speed over the base's on the same prompt in the same round."""
    pairs = zip(contender.samples, base.samples if base else [], strict=False)
    return [
        mine.tokens_per_s / theirs.tokens_per_s
        for mine, theirs in pairs
        if mine.tokens_per_s and theirs.tokens_per_s
    ]


def percentiles(values: Iterable[float | None]) -> dict[str, float] | None:
    """``p10`` to ``p90`` of single runs (a prompt, once), between neighbours linear; None of nothing."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    found = np.percentile(known, PERCENTILES).tolist()
    return {f"p{rank}": round(value, 3) for rank, value in zip(PERCENTILES, found, strict=True)}


def table(figures: Sequence[dict[str, Any]]) -> str:
    """The rows for people."""
    head = ("method", "tokens/s", "speedup (range)", "τ", "ω", "passes", "draft", "verify", "commit ms", "MB")
    return in_columns([head, *(_line(row) for row in figures)])


def in_columns(lines: Sequence[Sequence[str]]) -> str:
    """Cells padded to the width of their column."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
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
        number("peak_rss_mb", 0),
    )
