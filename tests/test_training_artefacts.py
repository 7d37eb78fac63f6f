"""What is shipped with the built-in head belongs to its weights, and the head is as good as it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from eagle.evaluate import stored
from eagle.loading import BUILTIN_HEAD

ASSETS = Path(__file__).parent.parent / "assets"


def test_nothing_that_hangs_on_the_head_is_stale():
    assert stored.stale(BUILTIN_HEAD, sorted((ASSETS / "traces").rglob("*.json"))) == []


def test_the_head_is_small_enough_to_ship():
    assert sum(path.stat().st_size for path in BUILTIN_HEAD.iterdir()) < 10_000_000


@pytest.mark.real
def test_tau_has_not_fallen_by_more_than_5_percent(built_in):
    """Six questions, 48 tokens: under a minute."""
    evaluation = stored.stored_evaluation(BUILTIN_HEAD)
    assert evaluation, stored.stale(BUILTIN_HEAD)
    tau = stored.check_tau(built_in, ASSETS / "prompts.jsonl")
    assert tau >= (1 - stored.ALLOWED_DROP) * evaluation["check"]["tau"]
