"""The lean Llama forward against transformers' own, on tiny random models."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from eagle.cache import KVCache
from eagle.decoder import generate
from eagle.fast_llama import FastLlamaTarget
from eagle.linear import Packed, Plain, packing_works
from eagle.settings import Settings
from eagle.target import Target, TransformersTarget
from tests.tiny import tiny_model, tiny_pair

KINDS = [Plain] + ([Packed] if packing_works(torch.device("cpu"), torch.float32) else [])
VARIANTS: list[dict[str, Any]] = [
    {},
    {"attention_bias": True},
    {"num_key_value_heads": 4},
    {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0}},
    {
        "rope_parameters": {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
            "rope_theta": 10000.0,
        }
    },
]


def passes(target: Target, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Features of a prompt and of a small tree behind it, and the tree's logits."""
    cache = target.new_cache(64)
    prompt = target.forward(ids[:20], torch.arange(20), None, cache)
    cache.keep_first(20)
    block = torch.tensor([[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 0, 1]], dtype=torch.bool)
    tree = target.forward(ids[20:24], torch.tensor([20, 21, 21, 22]), block, cache)
    return torch.cat((prompt, tree)), target.logits(tree)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "variant", VARIANTS, ids=["plain", "bias", "no groups", "linear rope", "llama3 rope"]
)
@torch.inference_mode()
def test_the_same_numbers_as_transformers(variant: dict[str, Any], kind: Any) -> None:
    ids = torch.randint(0, 257, (24,), generator=torch.Generator().manual_seed(3))
    features, logits = passes(TransformersTarget(tiny_model(0, **variant), frozenset()), ids)
    model = tiny_model(0, **variant)
    if variant.get("attention_bias"):
        assert model.model.layers[0].self_attn.q_proj.bias is not None
    assert FastLlamaTarget.fits(model)
    fast_features, fast_logits = passes(FastLlamaTarget(model, frozenset(), kind), ids)
    assert torch.allclose(features, fast_features, atol=1e-4)
    assert torch.allclose(logits, fast_logits, atol=1e-4)


def test_other_models_are_left_to_transformers() -> None:
    assert not FastLlamaTarget.fits(tiny_model(0, mlp_bias=True))
    assert not FastLlamaTarget.fits(tiny_model(0, hidden_act="gelu"))
    assert not FastLlamaTarget.fits(tiny_model(0).to(torch.bfloat16))


def test_greedy_text_is_the_same_on_either_target() -> None:
    pair = tiny_pair()
    fast = FastLlamaTarget(tiny_model(0), frozenset())
    settings = Settings(seed=0, max_new_tokens=40, tree="8/4/4")
    slow_run = generate(pair, "one two", settings)
    pair.head.target = fast  # type: ignore[union-attr]
    fast_run = generate(type(pair)(fast, pair.head, pair.tokenizer, pair.info), "one two", settings)
    assert fast_run.token_ids == slow_run.token_ids


@torch.inference_mode()
def test_rows_that_do_not_fit_are_refused() -> None:
    target = FastLlamaTarget(tiny_model(0), frozenset())
    with pytest.raises(ValueError, match="holds 4 rows, but 5 are needed"):
        target.forward(torch.arange(5), torch.arange(5), None, target.new_cache(4))


@torch.inference_mode()
def test_the_cache_holds_the_rows_that_were_written_layer_by_layer() -> None:
    """Both ways of filling it, all layers' rows at once or one layer after the other, and both keep."""
    rows = torch.randn(3, 2, 2, 4, 8, generator=torch.Generator().manual_seed(0))  # L, 2, G, N, D
    at_once, in_turn = KVCache(3, 6), KVCache(3, 6)
    fresh, every = at_once.room_for(4, 2, 8, rows)
    fresh.copy_(rows)
    for layer, (keys, values) in enumerate(rows):
        seen = in_turn.write(layer, keys[None], values[None])
        assert torch.equal(every[layer], torch.cat(seen))
    for cache in (at_once, in_turn):
        cache.keep(torch.tensor([0, 2]))
    for layer in range(3):
        for mine, theirs in zip(at_once.rows(layer), in_turn.rows(layer), strict=True):
            assert torch.equal(mine, theirs) and mine.shape == (1, 2, 2, 8)
    assert at_once.room_for(4, 2, 8, rows)[1].shape == (3, 2, 2, 6, 8)
