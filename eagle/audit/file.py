"""``python -m eagle audit trace.json``: one line of answer and an exit code."""

from __future__ import annotations

import sys
from pathlib import Path

from pydantic import ValidationError

from eagle.audit.run import audit
from eagle.trace import RunTrace

MOST_BYTES = 20 * 1024 * 1024


def audit_file(path: str | Path) -> int:
    """0 and "ok: N steps, M trials"; 1 and the first fault; 2 and why the file is no trace."""
    try:
        run = read_trace(path)
    except TraceError as error:
        print(error, file=sys.stderr)
        return 2
    findings = audit(run)
    if findings:
        more = f" ({len(findings) - 1} more findings)" if len(findings) > 1 else ""
        print(f"fault: {findings[0].sentence}{more}")
        return 1
    trials = sum(len(step.trials) for step in run.steps)
    print(f"ok: {len(run.steps)} steps, {trials} trials")
    return 0


class TraceError(ValueError):
    """A file that is no trace; the message is one plain sentence."""


def read_trace(path: str | Path) -> RunTrace:
    """A written trace, size-limited and validated; TraceError says what is wrong with it."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "not a path"
        raise TraceError(f"{str(path)[:200]!r} can not be read: {reason}.") from None
    return parse_trace(content)


def parse_trace(content: bytes | str) -> RunTrace:
    """A trace from its JSON; TraceError names the first thing that is wrong."""
    size = len(content if isinstance(content, bytes) else content.encode(errors="replace"))
    if size > MOST_BYTES:
        raise TraceError(f"The trace is larger than {MOST_BYTES // 2**20} MB, the most that is read.")
    try:
        run = RunTrace.from_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])[:100] or "the file"
        what = first["msg"].removeprefix("Value error, ").rstrip(".")
        raise TraceError(f"This is not a trace: at {where}: {what[:200]}.") from None
    if run.checksum is None:
        raise TraceError("This is not a finished trace: it has no checksum.")
    return run
