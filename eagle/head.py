"""The EAGLE draft head: one decoder layer that guesses the target's next feature.

The head reads the pair (embedding of token t+1, feature t) through ``fc``, which sits at position t,
and answers with a guess of feature t+1; the target's own LM head turns that guess into a
distribution over token t+2 (EAGLE, arXiv 2401.15077, section 3; EAGLE-2 keeps the head unchanged).

Parameter names and shapes are those of the published checkpoints: ``fc.weight`` [H, 2H],
``layers.0.self_attn.{q,k,v,o}_proj.weight``, ``layers.0.mlp.{gate,up,down}_proj.weight``,
``layers.0.post_attention_layernorm.weight``. The layer has no input norm.

Training and decoding call the same ``forward``; they differ only in ``attend``, the function that
turns queries, keys and values into context, so the two can not drift apart.

Letters in shapes: B rows, N positions, T context, H hidden, A query heads, G key/value heads,
D head size, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class HeadConfig:
    """Shapes of a head. ``bias`` is fc's; ``qkv_bias`` is Qwen2's."""

    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    rms_norm_eps: float = 1e-6
    bias: bool = True
    qkv_bias: bool = False
    hidden_act: str = "silu"


class RMSNorm(nn.Module):
    """Root-mean-square norm, the statistics in fp32 whatever the weights are."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x.float(), (x.shape[-1],), self.weight.float(), self.eps).to(x.dtype)


class Attention(nn.Module):
    """Projections and rotary positions; the attending itself is handed in. ``inputs``: its width if not H."""

    def __init__(self, c: HeadConfig, inputs: int | None = None) -> None:
        super().__init__()
        width = inputs or c.hidden_size
        self.head_dim = c.head_dim
        self.q_proj = nn.Linear(width, c.num_heads * c.head_dim, bias=c.qkv_bias)
        self.k_proj = nn.Linear(width, c.num_kv_heads * c.head_dim, bias=c.qkv_bias)
        self.v_proj = nn.Linear(width, c.num_kv_heads * c.head_dim, bias=c.qkv_bias)
        self.o_proj = nn.Linear(c.num_heads * c.head_dim, c.hidden_size, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, attend: Attend) -> Tensor:
        """x [B, N, H]; cos, sin [B or 1, N, D]; attend gets q [B, A, N, D] and k, v [B, G, N, D]."""
        q = self._heads(self.q_proj(x))
        k = self._heads(self.k_proj(x))
        v = self._heads(self.v_proj(x))
        out = attend(rotate(q, cos, sin), rotate(k, cos, sin), v)
        return self.o_proj(out.transpose(1, 2).reshape(x.shape[0], x.shape[1], -1))

    def _heads(self, x: Tensor) -> Tensor:
        return x.view(x.shape[0], x.shape[1], -1, self.head_dim).transpose(1, 2)


class Mlp(nn.Module):
    """The gated feed-forward block of the Llama family."""

    def __init__(self, c: HeadConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(c.hidden_size, c.intermediate_size, bias=False)
        self.up_proj = nn.Linear(c.hidden_size, c.intermediate_size, bias=False)
        self.down_proj = nn.Linear(c.intermediate_size, c.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """One decoder layer without an input norm, as the published heads have it."""

    def __init__(self, c: HeadConfig) -> None:
        super().__init__()
        self.self_attn = Attention(c)
        self.mlp = Mlp(c)
        self.post_attention_layernorm = RMSNorm(c.hidden_size, c.rms_norm_eps)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, attend: Attend) -> Tensor:
        x = x + self.self_attn(x, cos, sin, attend)
        return x + self.mlp(self.post_attention_layernorm(x))


class HeadModule(nn.Module):
    """The weights of an EAGLE-1/2 head and the one pass that training and decoding share."""

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        self.config = config
        self.fc = nn.Linear(2 * config.hidden_size, config.hidden_size, bias=config.bias)
        self.layers = nn.ModuleList([Layer(config)])

    def forward(
        self, embeddings: Tensor, features: Tensor, cos: Tensor, sin: Tensor, attend: Attend
    ) -> Tensor:
        """[B, N, H] embeddings of tokens t+1 and features t -> guesses [B, N, H] of features t+1."""
        x = self.fc(torch.cat((embeddings, features), dim=-1))
        return self.layers[0](x, cos, sin, attend)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions on x [B, heads, N, D]; cos and sin [B or 1, N, D] hold each angle twice."""
    left, right = x.chunk(2, dim=-1)
    return x * cos.unsqueeze(1) + torch.cat((-right, left), dim=-1) * sin.unsqueeze(1)
