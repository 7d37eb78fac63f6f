"""Traces in and out: a round trip changes nothing, and a bad file gets one sentence."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from app import files
from app.files import TraceFileError, export_trace, import_trace
from tests.synthetic import HOSTILE, synthetic_run

RUN = synthetic_run(seed=3, steps=6)


def written(tmp_path: Path, data: Any) -> Path:
    path = tmp_path / "trace.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path


def test_an_exported_run_comes_back_the_same() -> None:
    for run in (RUN, synthetic_run(seed=5, steps=4, labels=HOSTILE, prompt="<b>$x$</b>")):
        path = export_trace(run)
        assert path.name == f"trace-eagle2-seed-{run.seed}.json"
        assert import_trace(path).run.to_json() == run.to_json()


def test_saved_files_do_not_pile_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    old, fresh = export_trace(RUN), export_trace(RUN)
    mine = tmp_path / "someone-elses"
    mine.mkdir()
    for folder in (old.parent, mine):
        os.utime(folder, (0, 0))
    last = export_trace(RUN)
    assert not old.exists()
    assert mine.exists()
    assert fresh.exists()
    assert last.exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{",
        '{"version": 99}',
        '{"version": 1}',
        "[" * 100_000,
        '{"version": "<b>"}',
        "\0",
        "NaN",
    ],
)
def test_what_is_no_trace_gets_one_sentence(tmp_path: Path, text: str) -> None:
    with pytest.raises(TraceFileError) as caught:
        import_trace(written(tmp_path, text))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_file_that_is_too_big_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, RUN.to_json())
    monkeypatch.setattr(files, "MAX_BYTES", 100)
    with pytest.raises(TraceFileError, match="bytes"):
        import_trace(path)


def changed(path: list[Any], value: Any) -> dict[str, Any]:
    data = json.loads(RUN.to_json())
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return data


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (["steps"], [], "no steps"),
        (["steps", 1, "trials", 0, "node"], 99, "names node 99"),
        (["steps", 1, "final", "node"], 99, "names node 99"),
        (["steps", 1, "tree", "depth", 0], 3, "level"),
        (["steps", 1, "tree", "confidence", 0], 1.5, "less than or equal to 1"),
        (["steps", 1, "tree", "parent", 0], 5, "parent"),
        (["steps", 1, "surprise"], 1, "surprise"),
        (["settings", "temperature"], 99, "temperature"),
    ],
)
def test_a_fault_is_named(tmp_path: Path, path: list[Any], value: Any, says: str) -> None:
    with pytest.raises(TraceFileError, match=says):
        import_trace(written(tmp_path, changed(path, value)))


def test_an_altered_verdict_is_shown_with_what_the_audit_found(tmp_path: Path) -> None:
    draw = RUN.steps[1].trials[0].draw
    imported = import_trace(written(tmp_path, changed(["steps", 1, "trials", 0, "draw"], (draw + 0.5) % 1)))
    assert imported.note.startswith("The audit found a fault")
