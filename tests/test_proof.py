"""The Proof tab: its jobs end in a verdict that the numbers bear out, and its words are literal."""

from __future__ import annotations

import re
import threading
from typing import Any

import pytest

from app import proof, proof_view
from app.figures.proof import name, shares
from app.jobs import Said, carry_out
from app.proof import Greedy, greedy_job, sampling_job, varied_prompts
from app.proof_view import Sampled
from app.replay import ReplayRunner
from app.runner import Runner
from eagle import goodness
from eagle.goodness import Comparison
from eagle.greedy_check import Difference, GreedyCheck
from eagle.settings import Settings, SettingsError, Tree
from eagle.trace import PromptTrace
from tests.test_lossless import knowing_pair
from tests.tiny import tiny_pair

TREE = Tree(total=8, depth=3, width=3)
SETTINGS = Settings(temperature=1.0, top_k=4, seed=1, tree=TREE)
LABELS = {1: "<b>", 2: "%{x}", 3: "$x$", 4: " a"}


def done(job: Any, pair: Any = None) -> list[Any]:
    return list(job(pair or tiny_pair(), threading.Event()))


@pytest.fixture(scope="module")
def sampled() -> Sampled:
    *_, end = done(sampling_job("What is a tree?", SETTINGS, 10_000, True), knowing_pair())
    assert isinstance(end, Sampled)
    return end


def text(markup: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", markup))


def comparison(judge: str, counts: list[int], law: list[float]) -> Comparison:
    cells = {(i + 1,): mass for i, mass in enumerate(law)}
    import numpy as np

    return goodness.compare(
        judge, np.repeat([[i + 1] for i in range(len(law))], counts, axis=0), cells, cells
    )


def test_the_sound_rule_passes_and_the_misreading_fails(sampled: Sampled) -> None:
    for found in (sampled.one, sampled.two):
        sound, biased = found
        assert (sound.judge, biased.judge) == ("eagle2", "misreading") and sound.n == biased.n == 10_000
        assert not sound.test.failed and biased.test.failed
        assert sound.bias < 1e-5 and biased.bias > 0.01
        cards = proof_view.verdicts(found)
        assert cards.count("verdict-good") == 1 and cards.count("verdict-bad") == 1
        assert (
            "BIASED" in cards[cards.index("verdict-bad") :]
            and "BIASED" not in cards[: cards.index("verdict-bad")]
        )
    assert sampled.same == sampled.checked == 100 and sampled.trees == 4


def test_the_page_says_how_it_was_made(sampled: Sampled) -> None:
    said = text(proof_view.setup(sampled))
    assert "one draft and one target pass serve all 10,000 judgements" in said
    assert "one for each of 4 possible first tokens" in said
    assert "100 of them were repeated by the decoder itself, 100 with the same tokens" in said


def test_the_same_luck_for_both_and_batches_that_grow() -> None:
    job = sampling_job("What is a tree?", SETTINGS, 1_000, False)
    results = [item for item in done(job, knowing_pair()) if isinstance(item, Sampled)]
    assert [item.over for item in results] == [False] * 9 + [True]
    assert "Counting" in proof_view.verdicts(results[0].one, results[0].over)
    assert [item.one[0].n for item in results] == list(range(100, 1_001, 100))
    assert all(len(item.one) == 1 for item in results)
    again = [item for item in done(job, knowing_pair()) if isinstance(item, Sampled)]
    assert again[-1].two[0].count == results[-1].two[0].count


def test_the_figures_bars_are_the_counted_shares(sampled: Sampled) -> None:
    figure = shares(sampled.one, sampled.labels)
    drawn = {trace.name: trace for trace in figure.data}
    for found in sampled.one:
        assert list(drawn[found.judge].x) == [count / found.n for count in found.count]
    assert list(drawn["law"].x) == sampled.one[0].law
    assert list(drawn["band"].base) == sampled.one[0].low


def test_all_others_are_a_line_of_numbers_not_a_bar() -> None:
    law = [0.2] * 4 + [0.02] * 10
    short = goodness.shortened(comparison("eagle2", [200] * 4 + [20] * 10, law), 6)
    drawn = {trace.name: trace for trace in shares([short], LABELS).data}
    assert len(drawn["eagle2"].x) == len(drawn["law"].x) == 5
    assert drawn["others"].text[0] == " together: law .18 · eagle2 .18"
    assert name((), LABELS, short.merged) == "9 others"


def test_hostile_tokens_are_literal() -> None:
    assert name((1, 2), LABELS) == "&lt;b&gt; %{x}" and "$" not in name((3,), LABELS)
    assert name((4, -1), LABELS) == "␣a (end)"
    found = GreedyCheck(
        PromptTrace(text="<img src=x>", token=[1], labels=["x"], chat=False),
        3,
        2,
        Difference(2, 1, None, (5.0, 4.0), 1e-6, False),
    )
    table = proof_view.greedy_table([found], LABELS, "float32", True)
    assert "<img" not in table and "<b>”" not in table and "&lt;b&gt;" in table


def test_greedy_says_identical_only_when_it_is() -> None:
    *_, end = done(greedy_job(2, 16, "8/3/3"))
    assert isinstance(end, Greedy) and end.over and len(end.checks) == 2
    assert "✓ Identical." in text(proof_view.greedy_table(end.checks, {}, "float32", True))
    same = end.checks[0]
    for near, words in ((True, "near-tie"), (False, "a fault")):
        differing = GreedyCheck(same.prompt, 5, 3, Difference(4, 1, 2, (20.0, 19.875), 0.125, near))
        said = text(proof_view.greedy_table([same, differing], LABELS, "bfloat16", True))
        assert "1 prompt of 2 differ" in said.replace("differs", "differ") and words in said
        assert "differs at token 5" in said and "by .125" in said and "Identical" not in said


def test_a_fault_is_shown_as_one_and_too_few_draws_as_neither() -> None:
    wrong = proof_view.verdicts([comparison("eagle2", [900, 100], [0.5, 0.5])])
    assert "verdict-bad" in wrong and "do not follow" in wrong
    few = proof_view.verdicts([comparison("eagle2", [1, 1], [0.5, 0.5])])
    assert "verdict-open" in few and "Too few draws" in few
    uncaught = proof_view.verdicts([comparison("misreading", [500, 500], [0.5, 0.5])])
    assert "verdict-open" in uncaught and "Not caught" in uncaught and "✓" not in uncaught


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: greedy_job(0, 16, "paper"), "prompts must be a whole number from 1 to 20"),
        (lambda: greedy_job(2, 1000, "paper"), "tokens must be"),
        (lambda: greedy_job(2, 16, "x"), "tree must be"),
        (lambda: greedy_job(None, 16, "paper"), "prompts must be"),
        (lambda: sampling_job("Hi", SETTINGS, 7, True), "draws must be one of 1,000, 10,000, 100,000"),
    ],
)
def test_a_bad_wish_is_one_sentence(make: Any, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        make()


def test_the_prompts_are_of_every_kind_first() -> None:
    prompts = varied_prompts(20)
    assert len(set(prompts)) == 20
    assert len(set(varied_prompts(proof.MOST_PROMPTS))) == proof.MOST_PROMPTS


def test_without_a_model_and_after_a_stop() -> None:
    from tests.synthetic import synthetic_run

    *_, said = carry_out(ReplayRunner(synthetic_run(seed=1, steps=3)), greedy_job(1, 8, "8/3/3"), "me")
    assert said.fault and "only shows recorded runs" in said.words
    runner = Runner(lambda say: tiny_pair())
    seen = []
    for item in carry_out(runner, greedy_job(5, 8, "8/3/3"), "me"):
        seen.append(item)
        if isinstance(item, Greedy):
            runner.stop("me")
    assert sum(isinstance(item, Greedy) for item in seen) == 1 and not isinstance(seen[-1], Said)
