"""The pairs whose drafts were recorded with the published code; see docs/parity.md."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from eagle.decoder import Pair
from eagle.draft_head import DraftHead, RotaryTable
from eagle.head import HeadConfig, HeadModule
from eagle.target import Target, TransformersTarget
from tests.stubs import info
from tests.tiny import HEAD_DIM, HEADS, HIDDEN, INNER, KV_HEADS, byte_tokenizer, tiny_model

TINY_CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "bias": True,
    "hidden_act": "silu",
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "num_hidden_layers": 1,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "vocab_size": 257,
    "pad_token_id": 0,
}


def seeded_head(shape: HeadConfig, seed: int, embedding_share: float, feature_share: float) -> HeadModule:
    """A head that needs no file: fc adds a share of the feature and a random map of the embedding."""
    generator = torch.Generator().manual_seed(seed)
    module = HeadModule(shape)
    hidden = shape.hidden_size
    with torch.no_grad():
        for parameter in module.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(
                0.02 * noise if parameter.dim() == 2 else float(parameter.sum() > 1) + 0.1 * noise
            )
        module.fc.weight[:, :hidden] = embedding_share * torch.randn(hidden, hidden, generator=generator)
        module.fc.weight[:, hidden:] = feature_share * torch.eye(hidden)
    return module.requires_grad_(False)


def tiny_shape() -> HeadConfig:
    return HeadConfig(HIDDEN, INNER, HEADS, KV_HEADS, HEAD_DIM, 257)


def tiny_parts() -> tuple[Any, dict[str, Tensor], Any]:
    """The tiny target, the tensors of a head for it, and the tokenizer."""
    head = seeded_head(tiny_shape(), 7, embedding_share=0.3, feature_share=1.0)
    return tiny_model(11), dict(head.state_dict()), byte_tokenizer()


def tiny_parity_pair() -> Pair:
    model, tensors, tokenizer = tiny_parts()
    target = TransformersTarget(model, frozenset())
    module = HeadModule(tiny_shape())
    module.load_state_dict(tensors)
    return Pair(target, beside(module, target, 10000.0), tokenizer, info())


def builtin_head(target: Target) -> HeadModule:
    """A seeded head for the built-in target, for numbers that no training changes."""
    shape = HeadConfig(target.hidden_size, 1536, 9, 3, 64, target.vocab_size, rms_norm_eps=1e-5)
    return seeded_head(shape, 7, embedding_share=0.25, feature_share=0.5)


def beside(module: HeadModule, target: Target, theta: float) -> DraftHead:
    """The head at work, scoring the target's whole vocabulary."""
    rotary = RotaryTable.plain(module.config.head_dim, theta, target.device)
    return DraftHead(module.requires_grad_(False), target, rotary)


def checksum(tensors: dict[str, Tensor]) -> str:
    """A number that tells whether the same weights were made: six digits of their absolute sum."""
    total = sum(float(tensor.double().abs().sum()) for tensor in tensors.values())
    return f"{total:.6g}"
