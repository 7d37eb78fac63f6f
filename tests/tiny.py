"""A tiny pair for tests: seeded random 2-layer Llama, random head, byte tokenizer; no files, no network."""

from __future__ import annotations

from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedTokenizerFast

from eagle.decoder import Pair
from eagle.draft_head import DraftHead, RotaryTable
from eagle.head import HeadConfig, HeadModule
from eagle.target import Target, TransformersTarget
from eagle.trace import ModelInfo, PairInfo

HIDDEN, HEADS, KV_HEADS, HEAD_DIM, INNER = 32, 4, 2, 8, 48
END = 256


def byte_tokenizer() -> Any:
    """One token a byte (ids 0..255), an end token 256, and a minimal chat template."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {character: index for index, character in enumerate(alphabet)}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|end|>")
    tokenizer.chat_template = (
        "{% for m in messages %}{{ m['role'] + ': ' + m['content'] + '\\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}"
    )
    return tokenizer


def tiny_model(seed: int = 0, **changes: Any) -> Any:
    """A random Llama whose logits are sharp enough that greedy decoding does not hang on ties.

    ``changes`` go into its config; ``attn`` among them names the attention back end.
    """
    torch.manual_seed(seed)
    back_end = changes.pop("attn", "sdpa")
    config = LlamaConfig(
        **{
            "vocab_size": 257,
            "hidden_size": HIDDEN,
            "intermediate_size": INNER,
            "num_hidden_layers": 2,
            "num_attention_heads": HEADS,
            "num_key_value_heads": KV_HEADS,
            "head_dim": HEAD_DIM,
            "max_position_embeddings": 2048,
            "initializer_range": 0.3,
            "eos_token_id": END,
            "bos_token_id": None,
            "pad_token_id": END,
        }
        | changes
    )
    model = AutoModelForCausalLM.from_config(config, attn_implementation=back_end)
    return model.eval()


def tiny_head(target: Target, seed: int = 1, vocabulary: torch.Tensor | None = None) -> DraftHead:
    """A random head: its drafts are bad, which losslessness must not mind."""
    torch.manual_seed(seed)
    config = HeadConfig(
        hidden_size=HIDDEN,
        intermediate_size=INNER,
        num_heads=HEADS,
        num_kv_heads=KV_HEADS,
        head_dim=HEAD_DIM,
        vocab_size=target.vocab_size,
    )
    module = HeadModule(config)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    rotary = RotaryTable.plain(HEAD_DIM, 10000.0, target.device)
    return DraftHead(module, target, rotary, vocabulary)


def tiny_pair(seed: int = 0, end_tokens: frozenset[int] = frozenset(), **changes: Any) -> Pair:
    """Target, head and tokenizer; no end token unless asked for, so that runs have a known length."""
    target = TransformersTarget(tiny_model(seed, **changes), end_tokens)
    info = ModelInfo(name="tiny", hash=None, dtype="float32", weights="fp32", device="cpu", parameters=0)
    return Pair(target, tiny_head(target), byte_tokenizer(), PairInfo(target=info, head=info))
