"""Each family of targets on a tiny random instance: tree, vanilla and the model's own generate agree."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from transformers import AutoModelForCausalLM, GenerationConfig

from eagle.adapters import additive, anatomy, check, masks_for
from eagle.builtin import LoadError
from eagle.decoder import Pair
from eagle.settings import Tree
from eagle.target import TransformersTarget
from tests.stubs import audited, info, prompt_of, with_oracle
from tests.tiny import byte_tokenizer, tiny_head, tiny_model

pytestmark = pytest.mark.slow

SIZES: dict[str, Any] = {
    "vocab_size": 257,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 512,
    "initializer_range": 0.3,
    "eos_token_id": None,
    "bos_token_id": None,
    "pad_token_id": None,
}
WINDOW = 24
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
BOTH = ["sliding_attention", "full_attention"]

# Name -> (config class, what it adds to the sizes above).
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama-3.1": ("LlamaConfig", {"rope_parameters": LLAMA3_ROPE}),
    "llama linear": (
        "LlamaConfig",
        {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}},
    ),
    "qwen2": ("Qwen2Config", {"tie_word_embeddings": True}),
    "qwen2 window": (
        "Qwen2Config",
        {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 1},
    ),
    "qwen3": ("Qwen3Config", {}),
    "mistral": ("MistralConfig", {"sliding_window": None}),
    "mistral window": ("MistralConfig", {"sliding_window": WINDOW}),
    "mixtral": ("MixtralConfig", {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None}),
    "gemma": ("GemmaConfig", {"tie_word_embeddings": False}),
    "gemma2": (
        "Gemma2Config",
        {
            "sliding_window": WINDOW,
            "final_logit_softcapping": 5.0,
            "attn_logit_softcapping": 4.0,
            "tie_word_embeddings": False,
        },
    ),
    "gemma3": (
        "Gemma3TextConfig",
        {"sliding_window": WINDOW, "layer_types": BOTH, "tie_word_embeddings": False},
    ),
    "phi3": ("Phi3Config", {"sliding_window": None}),
    "phi3 window": ("Phi3Config", {"sliding_window": WINDOW}),
    "olmo": ("OlmoConfig", {}),
    "olmo2": ("Olmo2Config", {}),
    "olmo3": ("Olmo3Config", {"sliding_window": WINDOW, "layer_types": BOTH}),
    "granite": (
        "GraniteConfig",
        {
            "logits_scaling": 4.0,
            "embedding_multiplier": 3.0,
            "residual_multiplier": 0.5,
            "attention_multiplier": 0.3,
        },
    ),
    "cohere": ("CohereConfig", {"logit_scale": 0.25}),
    "gpt2": (
        "GPT2Config",
        {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 512, "tie_word_embeddings": False},
    ),
    "gpt-neox": ("GPTNeoXConfig", {}),
}
WINDOWED = ("qwen2 window", "mistral window", "gemma2", "gemma3", "phi3 window", "olmo3")


def family_pair(name: str, back_end: str | None = None) -> Pair:
    """A tiny random target of a family with a random head."""
    kind, changes = FAMILIES[name]
    config = getattr(transformers, kind)(**{**SIZES, **changes})
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation=back_end)
    with torch.no_grad():
        for parameter in model.parameters():  # norms and biases of one and zero would hide a mistake
            if parameter.dim() == 1:
                parameter.add_(0.2 * torch.randn_like(parameter))
    model.requires_grad_(False)
    target = TransformersTarget(model, frozenset())
    check(target)
    return Pair(target, tiny_head(target), byte_tokenizer(), info())


def own_greedy(model: Any, prompt: list[int], count: int) -> list[int]:
    """transformers' own generate, with nothing of ours."""
    asked = GenerationConfig(do_sample=False, max_new_tokens=count, eos_token_id=None, pad_token_id=0)
    mask = torch.ones(1, len(prompt), dtype=torch.long)
    out = model.generate(torch.tensor([prompt]), attention_mask=mask, generation_config=asked)
    return out[0, len(prompt) :].tolist()


@pytest.mark.parametrize("length", [1, 17, 200])
@pytest.mark.parametrize("name", FAMILIES)
def test_tree_vanilla_and_own_generate_agree(name: str, length: int) -> None:
    """Greedy, fp32; a head that guesses well drafts deep trees, and windows end inside prompt and answer."""
    pair = family_pair(name)
    prompt = prompt_of(length, seed=length)
    tokens = {"max_new_tokens": 16}
    expected = own_greedy(pair.target.model, prompt, 16)  # type: ignore[attr-defined]
    assert audited(pair, prompt, method="vanilla", **tokens).token_ids == expected
    good = with_oracle(pair, prompt, 10.0)
    assert audited(good, prompt, tree=Tree.parse("8/3/2"), **tokens).token_ids == expected
    if length == 17:  # a random head, whose guesses are nearly all rejected
        assert audited(pair, prompt, tree=Tree.parse("8/3/3"), **tokens).token_ids == expected
    assert len(set(expected)) > 3  # a text that says the same thing for ever would prove little


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "gemma2"])
def test_eager_attention_gives_the_same(name: str) -> None:
    prompt = prompt_of(40)
    sdpa, eager = family_pair(name), family_pair(name, "eager")
    assert sdpa.target.config._attn_implementation == "sdpa"  # type: ignore[attr-defined]
    assert eager.target.config._attn_implementation == "eager"  # type: ignore[attr-defined]
    runs = [audited(p, prompt, tree=Tree.parse("8/3/3"), max_new_tokens=8) for p in (sdpa, eager)]
    assert runs[0].token_ids == runs[1].token_ids


def test_gemma2_runs_with_the_attention_that_knows_its_caps() -> None:
    target = family_pair("gemma2").target
    assert target.config._attn_implementation == "eager"  # type: ignore[attr-defined]
    assert float(target.logits(torch.full((1, 32), 100.0)).abs().max()) <= 5.0


@pytest.mark.parametrize("name", WINDOWED)
def test_the_window_matters(name: str) -> None:
    """With the window taken away the same weights say something else, so the tests above cross it."""
    pair = family_pair(name)
    prompt = prompt_of(200, seed=200)
    with_window = audited(pair, prompt, method="vanilla", max_new_tokens=12).token_ids
    target: Any = pair.target
    target.parts = type(target.parts)(**{**target.parts.__dict__, "window": None})
    assert audited(pair, prompt, method="vanilla", max_new_tokens=12).token_ids != with_window


def test_windows_count_along_paths() -> None:
    """The drawing in the docstring of masks_for."""
    parts = anatomy(tiny_model())
    parts = type(parts)(**{**parts.__dict__, "window": 2, "masks": ("full_attention", "sliding_attention")})
    block = torch.tensor([[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 0, 1]], dtype=torch.bool)
    masks = masks_for(parts, torch.tensor([5, 6, 6, 7]), block, 5, torch.float32)
    assert isinstance(masks, dict)
    windowed = block.clone()
    windowed[3, 0] = False
    before = torch.zeros(4, 5, dtype=torch.bool)
    before[0, 4] = True  # only the root still has the last committed row in its window
    assert torch.equal(masks["sliding_attention"], additive(torch.cat((before, windowed), 1), torch.float32))
    whole = torch.cat((torch.ones(4, 5, dtype=torch.bool), block), 1)
    assert torch.equal(masks["full_attention"], additive(whole, torch.float32))


def test_embeddings_and_logits_carry_the_families_factors() -> None:
    granite = family_pair("granite").target
    ids = torch.tensor([3, 5])
    rows = granite.parts.embedding(ids)  # type: ignore[attr-defined]
    torch.testing.assert_close(granite.embed(ids), 3.0 * rows)
    features = torch.randn(2, 32)
    plain = granite.parts.lm_head(features)  # type: ignore[attr-defined]
    torch.testing.assert_close(granite.logits(features), plain / 4.0)


# What can't be made right is refused by name.


@pytest.mark.parametrize("back_end", ["flash_attention_2", "flex_attention"])
def test_back_ends_that_drop_the_mask_are_refused(back_end: str) -> None:
    model = tiny_model()
    model.config._attn_implementation_internal = back_end
    with pytest.raises(LoadError, match=f"{back_end} attention.*sdpa or eager"):
        TransformersTarget(model, frozenset())


def test_recurrent_layers_are_refused() -> None:
    model = tiny_model()
    model.config.layer_types = ["linear_attention", "full_attention"]
    with pytest.raises(LoadError, match=r"family llama .*linear_attention layers keep a state"):
        TransformersTarget(model, frozenset())


def test_an_encoder_decoder_is_refused() -> None:
    model = tiny_model()
    model.config.is_encoder_decoder = True
    with pytest.raises(LoadError, match="encoder-decoder"):
        TransformersTarget(model, frozenset())


@pytest.mark.parametrize("what", ["mask", "positions", "logits"])
def test_the_check_finds_a_model_that_ignores_what_it_is_given(what: str) -> None:
    target = TransformersTarget(tiny_model(), frozenset())
    check(target)
    whole = target.backbone.forward

    def deaf(**given: Any) -> Any:
        given[{"mask": "attention_mask", "positions": "position_ids"}[what]] = None
        return whole(**given)

    if what == "logits":
        target.parts = type(target.parts)(**{**target.parts.__dict__, "logit_factor": 0.5})
    else:
        target.backbone.forward = deaf  # type: ignore[method-assign]
    with pytest.raises(LoadError, match="family llama can not be verified as a tree"):
        check(target)


@pytest.mark.parametrize("kind", ["BloomConfig", "MptConfig"])
def test_positions_that_hide_in_the_mask_are_refused(kind: str) -> None:
    """ALiBi models derive positions from a 2D mask, so a tree's can not be told to them."""
    config = getattr(transformers, kind)(vocab_size=64, hidden_size=32, n_layer=2, n_head=4)
    config.d_model, config.n_layers, config.n_heads = 32, 2, 4
    target = TransformersTarget(AutoModelForCausalLM.from_config(config), frozenset())
    with pytest.raises(LoadError, match="can not be verified as a tree"):
        check(target)


@pytest.mark.parametrize("kind", ["longrope", "dynamic"])
def test_positions_that_change_with_length_end_the_context_before_they_do(kind: str) -> None:
    rope: dict[str, Any] = {"rope_type": kind, "rope_theta": 1e4, "original_max_position_embeddings": 64}
    rope |= {"factor": 2.0} if kind == "dynamic" else {"short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
    parts = anatomy(tiny_model(rope_parameters=rope, max_position_embeddings=256))
    assert parts.max_context == 64
    assert "64 tokens" in parts.notes[0]
