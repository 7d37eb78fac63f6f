"""The loop on tiny pairs: the same text and the same law as the target alone."""

from __future__ import annotations

import pytest
import torch
from transformers import GenerationConfig

from eagle.decoder import Pair, decode, generate
from eagle.settings import Method, Settings, Tree
from eagle.trace import Finish, Origin
from tests.stubs import audited, ids_prompt, law_of_decoder, markov_pair, prompt_of, with_oracle
from tests.tiny import END, tiny_pair

LENGTHS = (1, 17, 200)
SHAPES = ("paper", "8/4/4", "1/1/1", "60/2/2", "5/1/8", "3/16/1", "256/16/32")
DRAFTING = (Method.CHAIN, Method.EAGLE1, Method.EAGLE2)


@pytest.fixture(scope="module")
def pair() -> Pair:
    return tiny_pair()


# The same text as the target alone.


@pytest.mark.parametrize("length", LENGTHS)
def test_vanilla_is_transformers_own_greedy(length: int) -> None:
    pair = tiny_pair(end_tokens=frozenset({END}))
    prompt = prompt_of(length)
    asked = GenerationConfig(do_sample=False, max_new_tokens=64, eos_token_id=END, pad_token_id=END)
    expected = pair.target.model.generate(  # type: ignore[attr-defined]
        torch.tensor([prompt]), attention_mask=torch.ones(1, length), generation_config=asked
    )[0, length:].tolist()
    assert audited(pair, prompt, method="vanilla", max_new_tokens=64).token_ids == expected


@pytest.mark.parametrize(
    "length", [LENGTHS[0], *(pytest.param(n, marks=pytest.mark.slow) for n in LENGTHS[1:])]
)
@pytest.mark.parametrize("shape", SHAPES)
def test_greedy_eagle2_is_vanilla_over_tree_shapes(pair: Pair, shape: str, length: int) -> None:
    prompt = prompt_of(length)
    wanted = 12 if shape == "256/16/32" else 48
    plain = audited(pair, prompt, method="vanilla", max_new_tokens=wanted)
    drafted = audited(pair, prompt, tree=Tree.parse(shape), max_new_tokens=wanted)
    assert drafted.token_ids == plain.token_ids
    assert drafted.finish is Finish.LENGTH and drafted.new_tokens == wanted


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 5.0, 20.0])
@pytest.mark.parametrize("method", DRAFTING)
def test_greedy_drafts_by_a_good_head_change_nothing(pair: Pair, method: Method, noise: float) -> None:
    prompt = prompt_of(9)
    good = with_oracle(pair, prompt, noise)
    plain = audited(pair, prompt, method="vanilla", max_new_tokens=40)
    drafted = audited(good, prompt, method=method, max_new_tokens=40, tree=Tree.parse("30/4/3"))
    assert drafted.token_ids == plain.token_ids
    if noise == 0:  # every step but the last brings its whole depth and one token more
        depth = 5 if method is Method.EAGLE1 else 4
        assert [len(step.emitted) for step in drafted.steps[1:-1]] == [depth + 1] * (len(drafted.steps) - 2)
        assert {step.final.origin for step in drafted.steps[1:] if step.final} == {Origin.BONUS}


@pytest.mark.slow
def test_a_tiny_temperature_is_greedy_and_a_huge_top_k_is_off(pair: Pair) -> None:
    prompt = prompt_of(12)
    greedy = audited(pair, prompt).token_ids
    assert audited(pair, prompt, temperature=0.0001).token_ids == greedy
    assert audited(pair, prompt, temperature=2.0, top_k=1).token_ids == greedy
    assert audited(pair, prompt, temperature=2.0, top_p=0.0001).token_ids == greedy
    assert (
        audited(pair, prompt, temperature=1.0, top_k=10**9).token_ids
        == audited(pair, prompt, temperature=1.0).token_ids
    )


# The same law as the target alone.


def small_tables(seed: int, size: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(size, size, generator=generator), torch.randn(size, size, generator=generator)


def markov_law(
    table: torch.Tensor, root: int, length: int, temperature: float
) -> dict[tuple[int, ...], float]:
    """P of every sequence of ``length`` tokens after ``root``."""
    p = (table.double() / temperature).softmax(-1)
    law = {(): 1.0}
    for _ in range(length):
        law = {
            (*path, token): mass * float(p[path[-1] if path else root, token])
            for path, mass in law.items()
            for token in range(p.shape[0])
        }
    return law


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "size", "length"),
    [
        ("vanilla", 3, 3),
        ("eagle2", 3, 3),
        ("chain", 2, 3),  # drawn drafts have many more ways to fall, so fewer tokens
        ("chain", 4, 2),
        ("eagle1", 2, 3),
        ("eagle1", 4, 2),
    ],
)
def test_exact_law_of_a_run_is_the_targets(method: str, size: int, length: int) -> None:
    """Every way the draws of a run of two or three tokens can fall; equal to 1e-12."""
    target, draft = small_tables(3, size)
    settings = Settings(
        method=method, temperature=0.7, seed=0, max_new_tokens=length, tree=Tree.parse("3/2/2")
    )
    law = law_of_decoder(markov_pair(target, draft), ids_prompt([1]), settings)
    expected = markov_law(target, 1, length, 0.7)
    assert law.keys() == expected.keys()
    assert max(abs(law[path] - mass) for path, mass in expected.items()) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("method", [Method.VANILLA, *DRAFTING])
def test_seeded_runs_follow_the_law(method: Method) -> None:
    """1,500 seeds, 16 outcomes of two tokens: chi-square with 15 degrees of freedom below 50.

    A sound decoder exceeds 50 for one choice of seeds in 80,000; a draft that is judged by its
    confidences goes far beyond it.
    """
    target, draft = small_tables(5)
    pair = markov_pair(target, draft)
    expected = markov_law(target, 2, 2, 1.0)
    counts = dict.fromkeys(expected, 0)
    n = 1500
    for seed in range(n):
        settings = Settings(
            method=method, temperature=1.0, seed=seed, max_new_tokens=2, tree=Tree.parse("6/3/2")
        )
        tokens = [token for step in decode(pair, ids_prompt([2]), settings) for token in step.emitted.token]
        counts[tuple(tokens)] += 1
    chi = sum((counts[path] - n * mass) ** 2 / (n * mass) for path, mass in expected.items())
    assert chi < 50


@pytest.mark.slow
@pytest.mark.parametrize("method", [Method.VANILLA, *DRAFTING])
def test_seeds_repeat_and_differ(pair: Pair, method: Method) -> None:
    prompt = prompt_of(10)

    def numbers(seed: int) -> str:
        done = audited(pair, prompt, method=method, temperature=1.0, seed=seed, max_new_tokens=24)
        still = [
            step.model_copy(update={"times": step.times.model_copy(update=_NO_TIME)}) for step in done.steps
        ]
        return done.model_copy(update={"steps": still}).to_json()

    assert numbers(42) == numbers(42)
    assert numbers(42) != numbers(43)


_NO_TIME = {"draft_ms": 0.0, "verify_ms": 0.0, "commit_ms": 0.0}


def test_a_missing_seed_is_drawn_and_recorded(pair: Pair) -> None:
    first, second = (
        generate(pair, prompt_of(4), Settings(temperature=1.0, max_new_tokens=24)) for _ in range(2)
    )
    assert first.seed != second.seed and first.settings.seed == first.seed
    again = generate(pair, prompt_of(4), first.settings)
    assert again.token_ids == first.token_ids
