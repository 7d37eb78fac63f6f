"""The bench's arithmetic and its fairness, on contenders of known speed."""

from __future__ import annotations

import pytest

from eagle import bench
from eagle.bench import Contender, Sample
from eagle.settings import Settings
from tests.tiny import tiny_pair


def fixed(name: str, order: list[str], tokens: int, passes: int, ms: float) -> Contender:
    def decode(ids: list[int]) -> Sample:
        order.append(name)
        return Sample(tokens, passes, ms, 5.0, draft_ms=ms * 0.2, verify_ms=ms * 0.7, commit_ms=ms * 0.1)

    return Contender(name, decode)


def test_ratios_tau_and_overhead() -> None:
    order: list[str] = []
    slow, fast = fixed("vanilla", order, 10, 10, 100.0), fixed("eagle2", order, 10, 4, 50.0)
    bench.measure([slow, fast], [[1], [2]], repeats=3)
    vanilla, eagle2 = bench.rows([slow, fast])
    assert vanilla["tokens_per_s"] == 100.0
    assert vanilla["speedup_vs_vanilla"] == 1.0
    assert vanilla["tau"] == 1.0
    assert eagle2["speedup_vs_vanilla"] == 2.0
    assert eagle2["tau"] == 2.5
    assert eagle2["overhead"] == pytest.approx(0.25)
    assert eagle2["draft_ms"] == pytest.approx(2.5)
    assert eagle2["target_passes"] == 8
    text = bench.table([vanilla, eagle2])
    assert "2.00 (2.00-2.00)" in text
    assert len(text.splitlines()) == 3


def test_contenders_take_turns_and_the_warm_up_is_not_counted() -> None:
    order: list[str] = []
    contenders = [fixed("vanilla", order, 1, 1, 1.0), fixed("b", order, 1, 1, 1.0)]
    bench.measure(contenders, [[1], [2]], repeats=2)
    assert order[:2] == ["vanilla", "b"]
    assert order[2:] == ["vanilla", "b", "b", "vanilla", "b", "vanilla", "vanilla", "b"]
    assert [len(round_) for round_ in contenders[0].rounds] == [2, 2]


def test_our_methods_and_transformers_count_the_same_tokens() -> None:
    pair = tiny_pair()
    settings = Settings(seed=0, max_new_tokens=12, tree="4/2/2")
    mine = bench.contenders_for(pair, ["vanilla", "eagle2"], ["4/2/2"], settings, None)
    theirs = bench.transformers_generate(pair.target.model, "generate", settings, eos_token_id=None)  # type: ignore[attr-defined]
    bench.measure([*mine, theirs], [[72, 101, 108, 108, 111]], repeats=1)
    counts = {contender.name: contender.rounds[0][0] for contender in (*mine, theirs)}
    assert {name: sample.tokens for name, sample in counts.items()} == {
        "vanilla": 11,
        "eagle2": 11,
        "generate": 11,
    }
    assert counts["vanilla"].passes == counts["generate"].passes == 11
    assert counts["eagle2"].passes <= 11


def test_a_run_of_one_token_has_no_speed_and_no_error() -> None:
    contender = fixed("vanilla", [], 0, 0, 0.0)
    bench.measure([contender], [[1]], repeats=1)
    (row,) = bench.rows([contender])
    assert row["tau"] is None
    assert row["speedup_vs_vanilla"] is None
    assert bench.table([row])
