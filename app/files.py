"""Traces in and out: the current run as a file, and a visitor's file as a run, checked before it is shown."""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from eagle.trace import RunTrace

MAX_BYTES = 8_000_000
MAX_STEPS = 4_200
FOLDER, KEPT_S = "eagle-saved-", 3600


class TraceFileError(ValueError):
    """A file that can't be shown; the message names the fault in one sentence."""


@dataclass(frozen=True)
class Imported:
    """A run from a file and what the audit said about it."""

    run: RunTrace
    note: str


def export_trace(run: RunTrace) -> Path:
    """The run as a JSON file in a fresh temporary folder; the name says the method and the seed."""
    return written(run, "json", run.to_json())


def written(run: RunTrace, ending: str, text: str) -> Path:
    """A file of the run for download, in a fresh folder; what was made an hour ago is removed."""
    for old in Path(tempfile.gettempdir()).glob(f"{FOLDER}*"):
        if time.time() - old.stat().st_mtime > KEPT_S:
            shutil.rmtree(old, ignore_errors=True)
    name = re.sub(r"[^a-z0-9-]+", "-", f"trace-{run.settings.method}-seed-{run.seed}".lower())
    path = Path(tempfile.mkdtemp(prefix=FOLDER)) / f"{name}.{ending}"
    path.write_text(text, encoding="utf-8", errors="replace")
    return path


def import_trace(path: Path) -> Imported:
    """Reads and audits a trace. Raises TraceFileError for a file that can not be shown."""
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise TraceFileError(f"The file has {size:,} bytes; a trace may have {MAX_BYTES:,}.")
    try:
        run = RunTrace.from_json(path.read_bytes())
    except ValidationError as error:
        raise TraceFileError(f"This is not a trace that can be read: {_first(error)}") from None
    except (RecursionError, ValueError) as error:
        raise TraceFileError(
            f"This is not a trace that can be read: {str(error)[:120] or 'it is nested too deep'}."
        ) from None
    if not run.steps:
        raise TraceFileError("This trace has no steps.")
    if len(run.steps) > MAX_STEPS:
        raise TraceFileError(f"This trace has {len(run.steps):,} steps; up to {MAX_STEPS:,} can be shown.")
    _check_steps(run)
    return Imported(run, _audited(run))


def _first(error: ValidationError) -> str:
    """The first fault: where it is and what is wrong there."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part)[:40] for part in first["loc"]) or "the file"
    return f"{place}: {first['msg'][:160]}."


def _check_steps(run: RunTrace) -> None:
    """What the figures rely on and a record alone does not promise."""
    for position, step in enumerate(run.steps):
        if position and not step.emitted.token:
            raise TraceFileError(f"Step {position} emitted no token.")
        if step.tree is not None and not _depths_hold(step.tree.parent, step.tree.depth):
            raise TraceFileError(f"Step {position} has a node whose level is not its parent's plus one.")


def _depths_hold(parent: list[int], depth: list[int]) -> bool:
    return all(
        own == (1 if above < 0 else depth[above] + 1) for above, own in zip(parent, depth, strict=True)
    )


def _audited(run: RunTrace) -> str:
    """What the independent checker says, in one sentence."""
    from eagle.audit import audit

    findings = audit(run)
    if not findings:
        return "The audit derived every verdict again and found nothing wrong."
    more = f" ({len(findings) - 1} more)" if len(findings) > 1 else ""
    return f"The audit found a fault: {findings[0].sentence[:300]}{more}"
