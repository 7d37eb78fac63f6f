"""An evaluation as JSON and as a table for the terminal."""

from __future__ import annotations

from typing import Any

from eagle.evaluate.counts import Counts, acceptance, calibration
from eagle.evaluate.runs import Column, Plan, mean_tau


def as_json(
    plan: Plan,
    results: dict[Column, dict[str, Counts]],
    held_out: dict[str, Any] | None,
    about: dict[str, Any],
) -> dict[str, Any]:
    """Everything measured; shares have four digits, τ three decimals."""
    return about | {
        "tree": str(plan.tree),
        "max_new_tokens": plan.max_new_tokens,
        "seed": plan.seed,
        "columns": [_column(column, tasks) for column, tasks in results.items()],
        "held_out": held_out,
    }


def _column(column: Column, tasks: dict[str, Counts]) -> dict[str, Any]:
    whole = Counts()
    for counts in tasks.values():
        whole.add(counts)
    return {
        "temperature": column.temperature,
        "full_vocabulary": column.full_vocabulary,
        "tau": _rounded(mean_tau(tasks.values())),
        "tasks": {
            task: {"tau": _rounded(c.tau), "tokens": c.tokens, "target_passes": c.passes, "runs": c.runs}
            for task, c in tasks.items()
        },
        "acceptance": acceptance(whole),
        "calibration": calibration(whole),
    }


def _rounded(tau: float | None) -> float | None:
    return None if tau is None else round(tau, 3)


def table(report: dict[str, Any]) -> str:
    """The report for people: τ by task, acceptance by draft step, calibration, held-out agreement."""
    columns = report["columns"]
    parts = []
    if columns:
        head = f"τ, tree {report['tree']}, {report['max_new_tokens']} new tokens (runs in brackets)"
        parts += [head, _tau_table(columns), "", "accepted, by draft step", _acceptance_table(columns)]
        parts += [f"\ncalibration, {_title(columns[-1])}: confidence against acceptance"]
        parts += [_calibration_table(columns[-1]["calibration"])]
    if report["held_out"]:
        parts += ["", "agreement on held-out text, by draft step", _held_out_table(report["held_out"])]
    return "\n".join(parts)


def _title(column: dict[str, Any]) -> str:
    return Column(column["temperature"], column["full_vocabulary"]).title


def _tau_table(columns: list[dict[str, Any]]) -> str:
    tasks = list(dict.fromkeys(task for column in columns for task in column["tasks"]))
    rows = [["task", *(_title(column) for column in columns)]]
    for task in tasks:
        cells = (column["tasks"].get(task) for column in columns)
        rows.append([task, *(f"{c['tau']:.2f} ({c['runs']})" if c and c["tau"] else "–" for c in cells)])
    rows.append(["mean", *(f"{c['tau']:.2f}" if c["tau"] else "–" for c in columns)])
    return _aligned(rows)


def _acceptance_table(columns: list[dict[str, Any]]) -> str:
    depth = max(len(column["acceptance"]) for column in columns)
    rows = [["draft step", *(str(level + 1) for level in range(depth))]]
    for column in columns:
        rates = [row["rate"] for row in column["acceptance"]]
        rows.append([_title(column), *("–" if rate is None else f"{rate:.2f}" for rate in rates)])
    return _aligned(rows)


def _calibration_table(found: dict[str, Any]) -> str:
    rows = [["confidence", "nodes", "mean", "accepted", "target's p"]]
    for b in found["bins"]:
        numbers = (f"{b[name]:.3f}" for name in ("confidence", "accepted", "target_p"))
        rows.append([f"{b['from']:.2f}-{b['to']:.2f}", str(b["nodes"]), *numbers])
    error = found["expected_calibration_error"]
    return _aligned(rows) + (f"\nmean gap, weighted by nodes: {error:.3f}" if error is not None else "")


def _held_out_table(found: dict[str, Any]) -> str:
    rows = [["draft step", *(str(level + 1) for level in range(len(found["top1"])))]]
    rows.append(["best token", *(f"{100 * x:.1f}%" for x in found["top1"])])
    rows.append(["among best 4", *(f"{100 * x:.1f}%" for x in found["top4"])])
    reach = f"{found['positions']:,} positions; the draft can propose {100 * found['reachable']:.2f}% of p"
    return f"{_aligned(rows)}\n{reach}"


def _aligned(rows: list[list[str]]) -> str:
    widths = [max(len(row[i]) for row in rows if i < len(row)) for i in range(max(map(len, rows)))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=False))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
