"""Ratios that a change must not lose, within one process, contenders taking turns.

Margins are wide: these find a path that has stopped being fast, not a few per cent. Each ratio is the
best of a few rounds, because other work on the machine only ever hides speed in one of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import torch
from transformers import AutoModelForCausalLM

from eagle import bench, builtin
from eagle.bench_outside import transformers_generate
from eagle.decoder import Pair
from eagle.settings import Settings
from eagle.text import encode

EASY = "Write the numbers from one to twenty as words, separated by commas."
ROUNDS = 3
TOKENS = 24

pytestmark = pytest.mark.real


def best_ratio(contender: bench.Contender, base: bench.Contender, ids: list[int]) -> float:
    """The best of the rounds' ratios of tokens per second."""
    bench.measure([base, contender], [ids], ROUNDS)
    return max(
        bench.tokens_per_s(mine) / bench.tokens_per_s(theirs)
        for mine, theirs in zip(contender.rounds, base.rounds, strict=True)
    )


@pytest.fixture
def easy(built_in: Pair) -> list[int]:
    return encode(built_in.tokenizer, EASY).token


def test_vanilla_keeps_up_with_transformers(built_in: Pair, easy: list[int]) -> None:
    model = AutoModelForCausalLM.from_pretrained(builtin.target_folder(lambda *_: None), dtype=torch.float32)
    settings = Settings(method="vanilla", seed=0, max_new_tokens=TOKENS)
    theirs = transformers_generate(model.eval(), "generate", settings, pad_token_id=0)
    ratio = best_ratio(bench.ours(built_in, "vanilla", settings), theirs, easy)
    assert ratio >= 0.9, f"vanilla runs at {ratio:.2f} of transformers' generate"


def test_eagle2_keeps_up_with_vanilla_on_an_easy_prompt(built_in: Pair, easy: list[int]) -> None:
    settings = Settings(seed=0, max_new_tokens=2 * TOKENS, tree="auto")
    plain = settings.model_copy(update={"method": "vanilla"})
    ratio = best_ratio(bench.ours(built_in, "eagle2", settings), bench.ours(built_in, "vanilla", plain), easy)
    assert ratio >= 0.9, f"eagle2 with the automatic tree runs at {ratio:.2f} of vanilla"


@torch.inference_mode()
def test_a_pass_over_eight_nodes_is_no_eight_passes(built_in: Pair, easy: list[int]) -> None:
    target = built_in.target
    ids = torch.tensor(easy)
    cache = target.new_cache(len(easy) + 8)
    target.forward(ids, torch.arange(len(easy)), None, cache)
    cache.keep_first(len(easy))

    def over(nodes: int) -> Callable[[], float]:
        def once() -> float:
            began = time.perf_counter()
            positions = torch.arange(nodes) + len(easy)
            target.logits(target.forward(ids[:nodes], positions, None, cache))
            return time.perf_counter() - began

        return once

    one, eight = over(1), over(8)
    turns = [(one(), eight()) for _ in range(9)][1:]
    ratio = min(both[1] for both in turns) / min(both[0] for both in turns)
    assert ratio < 4, f"a pass over 8 nodes costs {ratio:.1f} passes over one"
