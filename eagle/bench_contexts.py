"""What a step costs by the length of the text before it.

The prompts are the same questions' text repeated and cut, so τ means little here; milliseconds a
step are what is measured. All contenders take turns at one length before the next one begins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from eagle import bench
from eagle.settings import SettingsError

if TYPE_CHECKING:
    from eagle.decoder import Pair


def prompt_of(ids: Sequence[int], length: int) -> list[int]:
    """``length`` tokens: these ids over and over."""
    return [ids[i % len(ids)] for i in range(length)]


def check_lengths(pair: Pair, lengths: Sequence[int], new_tokens: int) -> None:
    """SettingsError where a length leaves no room for the answer."""
    for length in lengths:
        if not 1 <= length <= pair.target.max_context - new_tokens:
            raise SettingsError(
                f"--contexts must be from 1 to {pair.target.max_context - new_tokens:,}, so that "
                f"{new_tokens} new tokens fit into the target's context, but one is {length}."
            )


def measure(
    contenders: Callable[[], list[bench.Contender]],
    ids: Sequence[int],
    lengths: Sequence[int],
    repeats: int,
) -> list[dict[str, Any]]:
    """One row for each length and contender: the bench's figures, ``context`` and ``step_ms``."""
    found = []
    for length in lengths:
        chosen = contenders()
        bench.measure(chosen, [prompt_of(ids, length)], repeats)
        for contender, row in zip(chosen, bench.rows(chosen), strict=True):
            passes = sum(sample.passes for sample in contender.samples)
            spent = sum(sample.decode_ms for sample in contender.samples)
            step_ms = round(spent / passes, 2) if passes else None
            found.append({"context": length, "step_ms": step_ms, **row})
    return found


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows for people."""
    names = ("context", "method", "prefill_ms", "step_ms", "draft_ms", "verify_ms", "commit_ms", "record_ms")
    lines = [names, *(tuple("-" if row[name] is None else str(row[name]) for name in names) for row in rows)]
    return bench.in_columns(lines)
