"""The bench's arithmetic and its fairness, on contenders of known speed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eagle import __main__ as command_line
from eagle import bench, bench_contexts, bench_grid, machine
from eagle.bench import Contender, Sample
from eagle.bench_outside import outside, transformers_generate
from eagle.commands import bench as command
from eagle.decoder import Pair
from eagle.settings import Settings, SettingsError
from eagle.trace import Costs
from tests.tiny import tiny_pair

pytestmark = pytest.mark.slow

COSTS = Costs(nodes=[1, 8, 64], pass_ms=[20.2, 21.6, 32.8], level_ms=0.5, typical_confidence=[0.5, 0.3])


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
    mine = bench.contenders_for(pair, ["vanilla", "eagle2"], ["4/2/2"], [settings])
    theirs = transformers_generate(pair.target.model, "generate", settings, eos_token_id=None)  # type: ignore[attr-defined]
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


# The fields of the final line.


FIELDS = {
    "tokens_per_s",
    "speedup_vs_vanilla",
    "tau",
    "overhead",
    "target_passes",
    "draft_ms",
    "verify_ms",
    "commit_ms",
    "peak_rss_mb",
}


def test_single_runs_make_the_percentiles() -> None:
    order: list[str] = []
    slow, fast = fixed("vanilla", order, 10, 10, 100.0), fixed("eagle2", order, 10, 4, 50.0)
    fast.rounds = [[Sample(10, 4, ms, 5.0) for ms in (25.0, 50.0, 100.0)]]
    slow.rounds = [[Sample(10, 10, 100.0, 5.0)] * 3]
    row = bench.rows([slow, fast])[1]
    assert row["tokens_per_s_percentiles"] == {
        "p10": 120.0,
        "p25": 150.0,
        "p50": 200.0,
        "p75": 300.0,
        "p90": 360.0,
    }
    assert row["speedup_percentiles"]["p50"] == 2.0 and row["speedup_percentiles"]["p90"] == 3.6
    assert bench.percentiles([None]) is None


def test_a_speedup_is_against_vanilla_at_the_same_temperature() -> None:
    asked = [Settings(seed=0, temperature=t, max_new_tokens=4) for t in (0.0, 1.0)]
    contenders = bench.contenders_for(tiny_pair(), ["vanilla", "eagle2"], ["8/2/2", "4/2/2"], asked)
    assert [(c.name, c.base, c.temperature, c.tree) for c in contenders] == [
        ("vanilla T=0", "vanilla T=0", 0.0, None),
        ("eagle2 8/2/2 T=0", "vanilla T=0", 0.0, "8/2/2"),
        ("eagle2 4/2/2 T=0", "vanilla T=0", 0.0, "4/2/2"),
        ("vanilla T=1", "vanilla T=1", 1.0, None),
        ("eagle2 8/2/2 T=1", "vanilla T=1", 1.0, "8/2/2"),
        ("eagle2 4/2/2 T=1", "vanilla T=1", 1.0, "4/2/2"),
    ]
    for contender, ms in zip(contenders, (100.0, 50.0, 50.0, 200.0, 50.0, 50.0), strict=True):
        contender.rounds = [[Sample(10, 5, ms, 1.0)]]
    assert [row["speedup_vs_vanilla"] for row in bench.rows(contenders)] == [1, 2, 2, 1, 4, 4]


def with_costs(pair: Pair) -> Pair:
    return replace(pair, info=pair.info.model_copy(update={"costs": COSTS}))


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    path = tmp_path / "few.jsonl"
    lines = [{"question_id": i, "category": "chat", "turns": [f"Question {i}?"]} for i in range(4)]
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return path


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, questions: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs the command on the tiny pair; the lines it printed, the last one read as JSON."""
    pair = with_costs(tiny_pair())
    monkeypatch.setattr(command, "load_pair", lambda _: pair)
    monkeypatch.setattr(command, "_plain_model", lambda _: pair.target.model)  # type: ignore[attr-defined]

    def asked(*options: str) -> tuple[str, dict[str, Any]]:
        given = ["bench", "--prompts", str(questions), "--max-new-tokens", "6", "--json", *options]
        assert command_line.main(given) == 0
        printed = capsys.readouterr()
        assert "bench" in printed.err, "a progress bar"
        *lines, last = printed.out.strip().splitlines()
        return "\n".join(lines), json.loads(last)

    return asked


def test_the_final_line_has_every_field_and_they_agree(ask: Any) -> None:
    shown, line = ask("--limit", "2", "--repeats", "2", "--outside", "--trees", "auto", "4/2/2")
    rows = {row["method"]: row for row in line["rows"]}
    assert list(rows) == [
        "vanilla",
        "eagle2 auto",
        "eagle2 4/2/2",
        "transformers generate",
        "transformers prompt lookup",
    ]
    assert all(name in shown for name in rows)
    for row in rows.values():
        assert set(row) >= FIELDS
        assert row["tau"] == pytest.approx(row["new_tokens"] / row["target_passes"], abs=1e-3)
        assert row["overhead"] == pytest.approx(row["tau"] / row["speedup_vs_vanilla"] - 1, abs=0.02)
        assert row["tokens_per_s_range"][0] <= row["tokens_per_s"] <= row["tokens_per_s_range"][1]
        assert row["peak_rss_mb"] > 100
    assert {rows[name]["new_tokens"] for name in ("vanilla", "eagle2 auto", "eagle2 4/2/2")} == {2 * 5}
    assert rows["vanilla"]["tau"] == 1 and rows["vanilla"]["overhead"] == 0
    for name in ("vanilla", "eagle2 auto"):
        row = rows[name]
        step_ms = row["draft_ms"] + row["verify_ms"] + row["commit_ms"]
        # a mean of steps against a median of rounds: a busy machine parts them, a wrong unit would far more
        assert 0.1 < 1000 * row["tau"] / step_ms / row["tokens_per_s"] < 10
    assert rows["transformers generate"]["draft_ms"] is None
    found = line["machine"]
    assert (
        found["threads"] >= 1 and found["cpu"] and found["dtype"] == "float32" and found["packages"]["torch"]
    )
    assert line["questions"] == 2 and line["repeats"] == 2 and line["temperature"] == 0


def test_contexts_give_a_row_for_each_length(ask: Any) -> None:
    _, line = ask("--contexts", "8", "40", "--repeats", "1", "--tree", "4/2/2", "--limit", "1")
    assert [(row["context"], row["method"]) for row in line["contexts"]] == [
        (8, "vanilla"),
        (8, "eagle2"),
        (40, "vanilla"),
        (40, "eagle2"),
    ]
    assert all(row["step_ms"] > 0 and row["prefill_ms"] > 0 for row in line["contexts"])
    assert bench_contexts.prompt_of([1, 2, 3], 7) == [1, 2, 3, 1, 2, 3, 1]


def test_a_context_that_leaves_no_room_is_refused() -> None:
    with pytest.raises(SettingsError, match="must be from 1 to 2,038"):
        bench_contexts.check_lengths(tiny_pair(), [64, 2039], 10)


def test_the_grid_judges_its_winner_on_other_questions(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[list[str], list[list[int]]]] = []
    measure = bench.measure

    def noted(contenders: Any, prompts: Any, repeats: int) -> None:
        seen.append(([c.tree for c in contenders], prompts))
        measure(contenders, prompts, repeats)

    monkeypatch.setattr(bench, "measure", noted)
    _, line = ask("--grid", "--trees", "2/2/1", "4/2/2", "--limit", "2", "--repeats", "1")
    (row,) = line["grid"]
    (first, choosing), (second, judging) = seen
    assert first == ["2/2/1", "4/2/2", "auto"] and second == [row["winner"], "auto"]
    assert len(choosing) == len(judging) == 2
    assert not {tuple(ids) for ids in choosing} & {tuple(ids) for ids in judging}
    assert row["winner"] == max(("2/2/1", "4/2/2"), key=row["grid_tokens_per_s"].__getitem__)
    ratio = row["auto_tokens_per_s"] / row["winner_tokens_per_s"]
    assert row["auto_vs_winner"] == pytest.approx(ratio, rel=0.01)


def test_every_tree_of_the_grid_is_one() -> None:
    assert all(Settings(tree=shape) for shape in bench_grid.GRID)
    assert "60/6/10" in bench_grid.GRID and "1/1/1" in bench_grid.GRID


def test_prompt_lookup_counts_a_pass_once(questions: Path) -> None:
    """Tokens of a pass come together; the first pass's are the prompt's."""
    pair = tiny_pair()
    for contender in outside(pair.target.model, Settings(seed=0, max_new_tokens=8)):  # type: ignore[attr-defined]
        sample = contender.decode([65, 66, 65, 66, 65])
        assert 1 <= sample.passes <= sample.tokens <= 7


def test_the_peak_is_that_of_the_work_since() -> None:
    """In a process of its own, whose memory nothing else takes or gives back."""
    work = (
        "from eagle import machine\n"
        "bytearray(200 * 2**20)\n"
        "high = machine.peak_rss_mb()\n"
        "machine.forget_peak()\n"
        "low = machine.peak_rss_mb()\n"
        "bytearray(60 * 2**20)\n"
        "print(high, low, machine.peak_rss_mb())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", work], capture_output=True, text=True, check=True, timeout=300
    )
    high, low, again = map(float, done.stdout.split())
    if os.access(machine.CLEAR, os.W_OK):
        assert low < high - 100
        assert again > low + 40
    else:  # a system that can not forget
        assert low == again == high


def test_outside_contenders_are_measured_at_each_temperature(ask: Any) -> None:
    asked = (
        "--temperatures",
        "0",
        "1",
        "--outside",
        "--methods",
        "vanilla",
        "--limit",
        "1",
        "--repeats",
        "1",
    )
    _, line = ask(*asked)
    assert [(row["method"], row["temperature"]) for row in line["rows"]] == [
        ("vanilla T=0", 0),
        ("vanilla T=1", 1),
        ("transformers generate T=0", 0),
        ("transformers prompt lookup T=0", 0),
        ("transformers generate T=1", 1),
        ("transformers prompt lookup T=1", 1),
    ]
    assert all(row["speedup_vs_vanilla"] for row in line["rows"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--outside", "--grid"), "--outside goes with neither"),
        (("--grid", "--temperatures", "0", "1"), "--grid measures at one temperature"),
        (("--methods", "fast"), "--methods names"),
        (("--limit", "0"), "must be at least 1"),
        (("--tree", "9/9"), "tree must be"),
        (("--grid", "--limit", "4"), "needs more than 4 questions"),
    ],
)
def test_options_that_do_not_fit_are_refused_in_a_sentence(
    options: tuple[str, ...],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    questions: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(command, "load_pair", lambda _: with_costs(tiny_pair()))
    assert command_line.main(["bench", "--prompts", str(questions), *options]) == 2
    assert words in capsys.readouterr().err
