"""The EAGLE-3 draft head: it reads three of the target's layers and has a vocabulary of its own.

``fc`` [H, 3H'] fuses the inputs of a low, a middle and a high layer of the target (H' its hidden
size) into one feature. The single layer attends over [norm(embedding) ; norm(feature)], 2H wide, and
adds the result to the feature. Its output is the next feature; ``norm`` and an LM head of the head's
own turn it into scores of V' draft tokens, and ``d2t`` [V'] says how far each one's id lies above its
column (EAGLE-3, arXiv 2503.01840). Tree and rule are EAGLE-2's.

Names and shapes are those of the published checkpoints: ``fc``, ``midlayer.*``, ``norm``,
``lm_head``, ``d2t``, ``t2d``.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from eagle.cache import KVCache
from eagle.draft_head import DraftHead, RotaryTable
from eagle.head import Attend, Attention, HeadConfig, Mlp, RMSNorm
from eagle.linear import LinearKind, Plain, with_linears
from eagle.target import Target


def watched_layers(layers: int) -> tuple[int, int, int]:
    """The published choice: the inputs of a low, a middle and a high layer, counted from 0."""
    return 2, layers // 2, layers - 3


class Layer3(nn.Module):
    """One decoder layer whose attention reads embedding and feature side by side."""

    def __init__(self, c: HeadConfig) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.hidden_norm = RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.self_attn = Attention(c, inputs=2 * c.hidden_size)
        self.mlp = Mlp(c)
        self.post_attention_layernorm = RMSNorm(c.hidden_size, c.rms_norm_eps)

    def forward(self, embeddings: Tensor, x: Tensor, cos: Tensor, sin: Tensor, attend: Attend) -> Tensor:
        both = torch.cat((self.input_layernorm(embeddings), self.hidden_norm(x)), dim=-1)
        x = x + self.self_attn(both, cos, sin, attend)
        return x + self.mlp(self.post_attention_layernorm(x))


class Head3Module(nn.Module):
    """The weights of an EAGLE-3 head, without its LM head and its vocabulary map."""

    def __init__(self, config: HeadConfig, target_hidden_size: int) -> None:
        super().__init__()
        self.config = config
        self.fc = nn.Linear(3 * target_hidden_size, config.hidden_size, bias=config.bias)
        self.midlayer = Layer3(config)
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, embeddings: Tensor, x: Tensor, cos: Tensor, sin: Tensor, attend: Attend) -> Tensor:
        """[B, N, H] embeddings of tokens t+1 and (fused or guessed) features t -> guesses of features t+1."""
        return self.midlayer(embeddings, x, cos, sin, attend)


class DraftHead3(DraftHead):
    """An EAGLE-3 head at work; ``lm_head`` [V', H] is its own, ``vocabulary`` [V'] its columns' ids."""

    def __init__(
        self,
        module: Head3Module,
        target: Target,
        rotary: RotaryTable,
        lm_head: Tensor,
        vocabulary: Tensor | None,
        kind: LinearKind = Plain,
        embedding: Tensor | None = None,
    ) -> None:
        self.module = with_linears(module.eval(), kind)
        self.target = target
        self.rotary = rotary
        self.vocabulary = vocabulary
        self.embedding = embedding
        self.scores = kind(lm_head)
        self._fused_size = target.hidden_size * (1 + len(target.watched))

    def extend(self, tokens: Tensor, features: Tensor, cache: KVCache) -> Tensor:
        """Commits pairs (token t+1 [n], feature t [n, F] with the watched layers in it)."""
        return super().extend(tokens, self._fused(features), cache)

    def grow(self, tokens: Tensor, features: Tensor, seen: Tensor, position: int, cache: KVCache) -> Tensor:
        return super().grow(tokens, self._fused(features), seen, position, cache)

    def log_confidence(self, guesses: Tensor) -> Tensor:
        return super().log_confidence(self.module.norm(self._fused(guesses)))

    def _fused(self, features: Tensor) -> Tensor:
        """The target's features [n, F] fused into [n, H]; the head's own guesses as they are."""
        if features.shape[-1] != self._fused_size:
            return features
        return self.module.fc(features[:, self.target.hidden_size :])
