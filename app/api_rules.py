"""Answers that need no model: a rule's exact law, many draws under it, the audit of a recorded run. Pure.

Every function takes untrusted values, and raises :class:`AskError` with one plain sentence for those
it can't use.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from eagle import goodness, laws, rules
from eagle.rules import RULES, SOUND, Array, RuleName
from eagle.settings import MAX_SEED

# The law of candidates that are drawn runs through every order in which they can come.
MOST_TOKENS, MOST_TOKENS_DRAWN = 64, 8
MOST_CANDIDATES = 16
MOST_DRAWS = 100_000
BATCH_ENTRIES = 2**20
DRAWN: tuple[RuleName, ...] = ("chain", "eagle1")


class AskError(ValueError):
    """A value that an endpoint can't use; the message names it and says what would be right."""


def law(target: Any, draft: Any, rule: Any, k: Any, order: Any) -> dict[str, Any]:
    """The exact distribution of the token that a rule gives, stage by stage, against the target's."""
    name, p, q, size, listed = _asked(target, draft, rule, k, order)
    stages = laws.stage_masses(name, p, q, size, listed)
    output = stages.sum(axis=0)
    return {
        "rule": name,
        "sound": name in SOUND,
        "law": output.tolist(),
        "target": p.tolist(),
        "total_variation": rules.total_variation(output, p),
        "accepted": float(stages[:-1].sum()),
        "stages": stages.tolist(),
        "candidates": listed if name not in DRAWN else None,
    }


def simulate(target: Any, draft: Any, rule: Any, k: Any, order: Any, draws: Any, seed: Any) -> dict[str, Any]:
    """Independent draws under a rule, counted and tested against the target's distribution."""
    name, p, q, size, listed = _asked(target, draft, rule, k, order)
    n = _whole("draws", draws, 1, MOST_DRAWS)
    used = _seed(seed)
    counts = _counts(name, p, q, size, listed, n, np.random.Generator(np.random.PCG64(used)))
    possible = p > 0
    impossible = int(counts[~possible].sum())
    test = goodness.g_test(counts[possible], p[possible], impossible)
    return {
        "rule": name,
        "draws": n,
        "seed": used,
        "counts": counts.tolist(),
        "target": p.tolist(),
        "law": laws.stage_masses(name, p, q, size, listed).sum(axis=0).tolist(),
        "total_variation": rules.total_variation(counts / n, p),
        "total_variation_by_chance": goodness.expected_variation(p[possible], n),
        "g": test.g if math.isfinite(test.g) else None,
        "degrees_of_freedom": test.degrees,
        "p_value": test.p_value,
        "impossible_draws": impossible,
    }


def audit(trace: Any) -> dict[str, Any]:
    """What the independent checker finds in a recorded run."""
    from eagle.audit import audit as findings_of
    from eagle.audit.file import TraceError, parse_trace

    try:
        content = trace if isinstance(trace, str) else json.dumps(trace)
        run = parse_trace(content)
    except (TypeError, RecursionError):
        raise AskError("This is not a trace: it is nested too deep or is no JSON.") from None
    except TraceError as error:
        raise AskError(str(error)) from None
    except ValueError as error:
        raise AskError(f"This is not a trace: {str(error)[:120]}.") from None
    findings = findings_of(run)
    return {
        "ok": not findings,
        "steps": len(run.steps),
        "trials": sum(len(step.trials) for step in run.steps),
        "findings": [finding.sentence[:300] for finding in findings[:20]],
        "more_findings": max(0, len(findings) - 20),
    }


def _counts(
    name: RuleName, p: Array, q: Array, k: int, order: list[int] | None, n: int, rng: np.random.Generator
) -> Any:
    """Counts [V] of n outcomes, in batches that bound the memory."""
    counts = np.zeros(p.size, dtype=np.int64)
    rows = max(1, BATCH_ENTRIES // p.size)
    for start in range(0, n, rows):
        u = rng.random((min(rows, n - start), rules.uniforms_needed(name, k)))
        counts += np.bincount(rules.simulate(name, p, q, k, u, order), minlength=p.size)
    return counts


def _asked(
    target: Any, draft: Any, rule: Any, k: Any, order: Any
) -> tuple[RuleName, Array, Array, int, list[int] | None]:
    """The checked rule, distributions [V] of target and draft, number of candidates, and their order."""
    name = next((known for known in RULES if isinstance(rule, str) and known == rule), None)
    if name is None:
        raise AskError(f"rule must be one of {', '.join(RULES)}, but is {_shown(rule)}.")
    most = MOST_TOKENS_DRAWN if name in DRAWN else MOST_TOKENS
    p = _distribution("target", target, most)
    q = _distribution("draft", p.tolist() if draft is None else draft, most)
    if q.size != p.size:
        raise AskError(f"target has {p.size} numbers and draft {q.size}; they must have the same length.")
    listed = _order(order, q, name)
    size = len(listed) if listed else _whole("k", k, 1, min(p.size, MOST_CANDIDATES))
    if name in DRAWN:
        return name, p, q, size, None
    return name, p, q, size, (listed or rules.top_tokens(q, size))


def _distribution(name: str, values: Any, most: int) -> Array:
    if not isinstance(values, Sequence) or isinstance(values, str) or not 2 <= len(values) <= most:
        raise AskError(f"{name} must be a list of 2 to {most} probabilities, but is {_shown(values)}.")
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        raise AskError(f"{name} has an entry that is not a number.")
    try:
        return rules.as_distribution([float(value) for value in values], name)
    except (ValueError, OverflowError) as error:
        raise AskError(str(error)) from None


def _order(order: Any, q: Array, name: RuleName) -> list[int] | None:
    """The fixed list of candidates, or None where the draft's own order is meant."""
    if order is None or order == []:
        return None
    if name not in ("eagle2", "misreading"):
        raise AskError(f"order is for the rules with a fixed list, eagle2 and misreading, not for {name}.")
    whole = isinstance(order, list) and all(type(token) is int and 0 <= token < q.size for token in order)
    if not whole or len(set(order)) != len(order) or len(order) > MOST_CANDIDATES:
        raise AskError(
            f"order must be a list of up to {MOST_CANDIDATES} different positions from 0 to {q.size - 1}, "
            f"but is {_shown(order)}."
        )
    if name == "misreading" and any(q[token] <= 0 for token in order):
        raise AskError(
            "order names a token to which the draft gives no probability; the misreading divides by it."
        )
    return list(order)


def _whole(name: str, value: Any, low: int, high: int) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if type(value) is not int or not low <= value <= high:
        raise AskError(f"{name} must be a whole number from {low} to {high}, but is {_shown(value)}.")
    return value


def _seed(value: Any) -> int:
    if value is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    return _whole("seed", value, 0, MAX_SEED)


def _shown(value: Any) -> str:
    """A value in a message: short whatever it is."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 10**20:
        return "a number of more than 20 digits"
    if isinstance(value, list | dict | tuple):
        return f"{type(value).__name__} of {len(value)}"
    return repr(value)[:60]
