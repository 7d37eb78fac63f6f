"""Threads follow the container's share, not the host's cores."""

from __future__ import annotations

from pathlib import Path

import pytest

from eagle import threads


@pytest.mark.parametrize(
    ("granted", "expected"),
    [("200000 100000", 2), ("150000 100000", 2), ("50000 100000", 1), ("max 100000", 64)],
)
def test_quota_of_version_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, granted: str, expected: int
) -> None:
    (tmp_path / "cpu.max").write_text(granted + "\n")
    monkeypatch.setattr(threads.os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    assert threads.share(tmp_path) == expected


def test_quota_of_version_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("400000")
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000")
    monkeypatch.setattr(threads.os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    assert threads.share(tmp_path) == 4


def test_affinity_counts_where_there_is_no_quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads.os, "sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
    assert threads.share(tmp_path) == 3
    monkeypatch.delattr(threads.os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(threads.os, "cpu_count", lambda: 5)
    assert threads.share(tmp_path) == 5


def test_the_variable_and_the_argument_win(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    before = torch.get_num_threads()
    try:
        monkeypatch.setenv(threads.THREADS_VARIABLE, "1")
        assert threads.set_threads() == 1 == torch.get_num_threads()
        assert threads.set_threads(2) == 2 == torch.get_num_threads()
        monkeypatch.setenv(threads.THREADS_VARIABLE, "many")
        assert threads.set_threads() == threads.share()
    finally:
        torch.set_num_threads(before)
