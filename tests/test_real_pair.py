"""The built-in pair: greedy eagle2 says what vanilla says, on real prompts.

The short version takes one prompt of each kind; the whole one is run by name:

    python -m pytest tests/test_real_pair.py -m long -s

A first difference is admitted only where the two best logits lie within 1e-4 of each other in both
passes, the one over the tree and the one over the plain text; each is printed with its gaps.
"""

from __future__ import annotations

import json
from pathlib import Path
from unittest import mock

import pytest
import torch
from transformers import AutoModelForCausalLM, GenerationConfig

from eagle import builtin, decoder
from eagle.decoder import Pair
from eagle.greedy_check import greedy_check
from eagle.settings import Settings, Tree
from eagle.text import encode
from eagle.trace import PromptTrace

PROMPTS = Path(__file__).parent.parent / "assets" / "prompts.jsonl"
SHAPES = ("60/6/10", "8/4/4", "1/1/1")
ADMITTED_GAP = 1e-4


def questions() -> list[dict[str, str]]:
    return [json.loads(line) for line in PROMPTS.read_text().splitlines() if line.strip()]


def one_a_kind() -> list[dict[str, str]]:
    return list({question["category"]: question for question in reversed(questions())}.values())[::-1]


def tree_gap(pair: Pair, prompt: PromptTrace, settings: Settings, at: int) -> float:
    """How far the two best logits lie apart in the row of the tree pass that decided new token ``at``."""
    rows: list[torch.Tensor] = []
    read = decoder.read

    def noted(*given):  # type: ignore[no-untyped-def]
        logits, features = read(*given)
        rows.append(logits)
        return logits, features

    with mock.patch.object(decoder, "read", noted):
        steps = list(decoder.decode(pair, prompt, settings))
    for step, logits in zip(steps[1:], rows, strict=True):
        inside = at - (step.context - len(prompt.token))
        if 0 <= inside < len(step.emitted):
            row = step.emitted.node[inside - 1] + 1 if inside else 0
            best = logits[row].topk(2).values
            return float(best[0] - best[1])
    raise AssertionError(f"new token {at} was not drafted")


def compare(pair: Pair, chosen: list[dict[str, str]], tokens: int, shape: str) -> None:
    """Token for token over these questions; lists every admitted near-tie."""
    admitted = []
    for question in chosen:
        prompt = encode(pair.tokenizer, question["turns"][0])
        settings = Settings(seed=0, max_new_tokens=tokens, tree=Tree.parse(shape))
        check = greedy_check(pair, prompt, settings)
        assert check is not None and check.tokens > 0
        found = check.difference
        if found is None:
            continue
        gaps = found.gap, tree_gap(pair, prompt, settings, found.position)
        assert max(gaps) <= ADMITTED_GAP, (
            f"{question['question_id']} differs at {found.position}: gaps {gaps}"
        )
        admitted.append((question["question_id"], found.position, *gaps))
    print(f"\n{shape}: {len(chosen)} prompts, {tokens} tokens, near-ties admitted: {admitted or 'none'}")


def test_there_are_prompts_of_six_kinds() -> None:
    kinds = {question["category"] for question in questions()}
    assert kinds == {"chat", "code", "math", "instruction", "summary", "question"}
    assert len(questions()) >= 24 and len(one_a_kind()) == 6


@pytest.mark.real
@pytest.mark.parametrize("shape", SHAPES)
def test_eagle2_says_what_vanilla_says(built_in: Pair, shape: str) -> None:
    compare(built_in, one_a_kind(), 32, shape)


@pytest.mark.real
def test_vanilla_says_what_transformers_says(built_in: Pair) -> None:
    """transformers' own generate on the same converted weights, with nothing of ours."""
    model = AutoModelForCausalLM.from_pretrained(builtin.target_folder(lambda *_: None), dtype=torch.float32)
    for question in one_a_kind()[:3]:
        prompt = encode(built_in.tokenizer, question["turns"][0])
        asked = GenerationConfig(
            do_sample=False,
            max_new_tokens=24,
            eos_token_id=sorted(built_in.target.end_tokens),
            pad_token_id=0,
        )
        ids = torch.tensor([prompt.token])
        out = model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=asked)
        settings = Settings(method="vanilla", seed=0, max_new_tokens=24)
        steps = decoder.decode(built_in, prompt, settings)
        ours = [token for step in steps for token in step.emitted.token]
        assert ours == out[0, ids.shape[1] :].tolist()


@pytest.mark.long
@pytest.mark.parametrize("shape", SHAPES)
def test_eagle2_says_what_vanilla_says_on_every_prompt(built_in: Pair, shape: str) -> None:
    compare(built_in, questions(), 96, shape)
