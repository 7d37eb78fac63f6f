"""The automatic tree against the best of a grid of fixed ones, task by task.

The best of many noisy measurements looks better than it is. So each task's winner is chosen on the
first questions of its file and measured again, beside the automatic tree, on the next ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eagle import bench
from eagle.settings import Method, Settings

if TYPE_CHECKING:
    from eagle.decoder import Pair

GRID = (
    "1/1/1",
    "2/2/1",
    "3/3/1",
    "4/4/1",
    "3/2/2",
    "6/3/2",
    "6/3/3",
    "8/4/4",
    "12/4/4",
    "16/5/4",
    "24/5/6",
    "32/6/8",
    "60/6/10",
)
AUTO = "auto"


@dataclass(frozen=True)
class Task:
    """A question file's prompts as ids: those that choose the winner, and those it is judged on."""

    name: str
    choosing: list[list[int]]
    judging: list[list[int]]


def measure(
    pair: Pair, tasks: Sequence[Task], settings: Settings, repeats: int, grid: Sequence[str] = GRID
) -> list[dict[str, Any]]:
    """One row a task: the grid's speeds, its winner, and the automatic tree's speed over the winner's."""
    return [_task(pair, task, settings, repeats, grid) for task in tasks]


def _task(pair: Pair, task: Task, settings: Settings, repeats: int, grid: Sequence[str]) -> dict[str, Any]:
    chosen = settings.model_copy(update={"method": Method.EAGLE2})
    first = bench.contenders_for(pair, [Method.EAGLE2], [*grid, AUTO], [chosen])
    bench.measure(first, task.choosing, 1)
    speeds = {str(c.tree): round(bench.tokens_per_s(c.samples), 2) for c in first}
    winner = max(grid, key=lambda shape: speeds[shape])
    again = bench.contenders_for(pair, [Method.EAGLE2], [winner, AUTO], [chosen])
    fixed, auto = again
    auto.base = fixed.name
    bench.measure(again, task.judging, repeats)
    row = bench.rows(again)[1]
    return {
        "task": task.name,
        "grid_tokens_per_s": speeds,
        "winner": winner,
        "winner_tokens_per_s": bench.rows(again)[0]["tokens_per_s"],
        "auto_tokens_per_s": row["tokens_per_s"],
        "auto_vs_winner": row["speedup_vs_vanilla"],
        "auto_vs_winner_range": row["speedup_range"],
        "auto_vs_winner_percentiles": row["speedup_percentiles"],
    }


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows for people."""
    lines = [("task", "winner", "its tokens/s", "auto's", "auto / winner (range)")]
    for row in rows:
        low, high = row["auto_vs_winner_range"] or (float("nan"),) * 2
        ratio = row["auto_vs_winner"]
        lines.append(
            (
                row["task"],
                row["winner"],
                f"{row['winner_tokens_per_s']:.1f}",
                f"{row['auto_tokens_per_s']:.1f}",
                "-" if ratio is None else f"{ratio:.3f} ({low:.3f}-{high:.3f})",
            )
        )
    return bench.in_columns(lines)
