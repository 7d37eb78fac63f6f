"""The target as training sees it: whole batches in, features out, and the shape a head for it must have."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from eagle import head_loading, loading
from eagle.builtin import Progress
from eagle.draft_head import RotaryTable
from eagle.head import HeadConfig, HeadModule
from eagle.target import TransformersTarget


@dataclass(frozen=True)
class Source:
    """A target with its tokenizer, its name and the sha256 of the file its weights came from."""

    target: TransformersTarget
    tokenizer: Any
    name: str
    sha256: str | None

    @torch.inference_mode()
    def features(self, tokens: Tensor) -> Tensor:
        """tokens [B, N] -> features [B, N, H], each row a text of its own from position 0."""
        out = self.target.backbone(input_ids=tokens.to(self.target.input_device), use_cache=False)
        return out.last_hidden_state.to(self.target.device)

    def head_config(self) -> HeadConfig:
        """One layer of the target's own shape, with the bias in ``fc`` that published heads have."""
        config = self.target.config
        heads = config.num_attention_heads
        return HeadConfig(
            hidden_size=config.hidden_size,
            intermediate_size=getattr(config, "intermediate_size", None) or 4 * config.hidden_size,
            num_heads=heads,
            num_kv_heads=getattr(config, "num_key_value_heads", None) or heads,
            head_dim=getattr(config, "head_dim", None) or config.hidden_size // heads,
            vocab_size=self.target.vocab_size,
            rms_norm_eps=getattr(config, "rms_norm_eps", 1e-6),
        )

    @property
    def rope_theta(self) -> float:
        return head_loading.theta({}, self.target.config)

    def rotary(self, head_dim: int, device: torch.device) -> RotaryTable:
        """The table that decoding will use for a head exported from here."""
        return RotaryTable.plain(head_dim, self.rope_theta, device)


def load_source(
    target: str | None, device: str | None, dtype: str | None, progress: Progress | None = None
) -> Source:
    """The named target (None: the built-in one) without a head. Raises LoadError."""
    say = progress or (lambda sentence, fraction: None)
    place = loading.pick_device(device)
    folder, name, digest = loading._target_folder(target, say)
    say(f"loading {name}", None)
    model, tokenizer = loading._load_model(folder, loading.pick_dtype(dtype, place), place)
    runner = TransformersTarget(model, loading.end_tokens(model, tokenizer))
    return Source(runner, tokenizer, name, digest)


def fresh_module(config: HeadConfig, embedding_rms: float, feature_rms: float, seed: int) -> HeadModule:
    """A head to start from: ``fc`` passes half the feature on and adds a random map of the embedding.

    The embedding's share of fc's output is 0.84 of the feature's, whatever the two models' scales
    are. With the built-in target (rms 0.136 and 1.94) this is normal(0, 0.25), which reached 26%
    agreement where a copy of the target's last layer was still at 5%.
    """
    generator = torch.Generator().manual_seed(seed)
    module = HeadModule(config)
    hidden = config.hidden_size
    share = 0.84 * 0.5 * feature_rms / (math.sqrt(hidden) * embedding_rms)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if parameter.ndim == 2:
                parameter.normal_(0.0, 0.02, generator=generator)
            elif name.endswith("bias"):
                parameter.zero_()
        module.fc.weight[:, :hidden].normal_(0.0, share, generator=generator)
        module.fc.weight[:, hidden:] = 0.5 * torch.eye(hidden)
    return module


def rms(x: Tensor) -> float:
    """Root mean square of all entries."""
    return float(x.float().square().mean().sqrt())
