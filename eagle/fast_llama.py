"""A Llama target for CPUs: the same numbers as transformers' model, in fewer and cheaper operations.

What is different, and nothing else: query, key and value (and gate and up) are one product each;
linear layers are packed (``eagle/linear.py``); each norm's weight is folded into the product behind
it; key heads are not repeated for grouped attention; rotary pairs lie next to each other, so that a
rotation is one complex product. The last reorders the entries within each key and query head alike,
which no dot product notices.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from eagle.attention import block_bias
from eagle.cache import KVCache
from eagle.linear import LinearKind, Packed
from eagle.target import Target, causal


class FastLlamaTarget(Target):
    """Takes the weights out of a transformers Llama on the CPU, layer by layer, and runs them."""

    def __init__(self, model: Any, end_tokens: frozenset[int], kind: LinearKind = Packed) -> None:
        config = model.config
        self.layers = config.num_hidden_layers
        self.hidden_size = config.hidden_size
        self.vocab_size = config.vocab_size
        self.max_context = config.max_position_embeddings
        self.end_tokens = end_tokens
        self.device, self.dtype = torch.device("cpu"), torch.float32
        self._heads, self._kv_heads = config.num_attention_heads, config.num_key_value_heads
        self._size = model.model.layers[0].self_attn.head_dim
        self._scale = 1 / math.sqrt(self._size)
        self._eps = config.rms_norm_eps
        self._embedding = model.get_input_embeddings().weight.detach()
        self._head_rows = model.get_output_embeddings().weight.detach()
        self._lm_head = kind(self._head_rows)
        self._final_norm = model.model.norm.weight.detach()
        self._turns = model.model.rotary_emb.inv_freq.detach().float()
        self._rotation_scale = float(model.model.rotary_emb.attention_scaling)
        self._blocks = [self._take(layer, kind) for layer in model.model.layers]

    @staticmethod
    def fits(model: Any) -> bool:
        """Whether this forward describes the model: a plain Llama in fp32 on the CPU, static rotary table."""
        config = model.config
        return (
            type(model).__name__ == "LlamaForCausalLM"
            and config.hidden_act == "silu"
            and not config.mlp_bias
            and (config.rope_parameters or {}).get("rope_type", "default") in ("default", "linear", "llama3")
            and model.device.type == "cpu"
            and model.dtype == torch.float32
        )

    def _take(self, layer: Any, kind: LinearKind) -> tuple[Any, Any, Any, Any]:
        """A layer's four products; the transformers copies are let go at once, so memory never doubles."""
        attention, mlp = layer.self_attn, layer.mlp
        q = self._pairs_together(attention.q_proj.weight, self._heads)
        k = self._pairs_together(attention.k_proj.weight, self._kv_heads)
        qkv = torch.cat((q, k, attention.v_proj.weight)) * layer.input_layernorm.weight
        bias = None
        if attention.q_proj.bias is not None:
            bias = torch.cat(
                (
                    self._pairs_together(attention.q_proj.bias[:, None], self._heads)[:, 0],
                    self._pairs_together(attention.k_proj.bias[:, None], self._kv_heads)[:, 0],
                    attention.v_proj.bias,
                )
            ).detach()
        gate_up = (
            torch.cat((mlp.gate_proj.weight, mlp.up_proj.weight)) * layer.post_attention_layernorm.weight
        )
        o_bias = None if attention.o_proj.bias is None else attention.o_proj.bias.detach()
        products = (
            kind(qkv, bias),
            kind(attention.o_proj.weight, o_bias),
            kind(gate_up),
            kind(mlp.down_proj.weight),
        )
        for module in (attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj):
            module.weight = None
        for module in (mlp.gate_proj, mlp.up_proj, mlp.down_proj):
            module.weight = None
        return products

    def _pairs_together(self, weight: Tensor, heads: int) -> Tensor:
        """Rows (i, i + D/2) of each head, which one angle turns, as neighbours (2i, 2i + 1)."""
        halves = weight.detach().view(heads, 2, self._size // 2, -1)
        return halves.transpose(1, 2).reshape(weight.shape)

    def forward(self, ids: Tensor, positions: Tensor, block: Tensor | None, cache: KVCache) -> Tensor:
        n, heads, kv_heads, size = ids.shape[0], self._heads, self._kv_heads, self._size
        sharing = heads // kv_heads  # query heads of a key head: they go through a product together
        bias = self._bias(n, block)
        turn = self._turn(positions)
        x = self._embedding[ids]
        fresh, every = cache.room_for(n, kv_heads, size, x)
        places = zip(*(part.transpose(1, 2).unbind(0) for part in fresh.unbind(1)), strict=True)
        kept = zip(every[:, 0].transpose(2, 3).unbind(0), every[:, 1].unbind(0), strict=True)
        for (qkv, o, gate_up, down), (new_keys, new_values), (keys, values) in zip(
            self._blocks, places, kept, strict=True
        ):
            made = qkv(self._unit(x)).view(n, heads + 2 * kv_heads, size)
            pairs = made[:, : heads + kv_heads].view(n, heads + kv_heads, size // 2, 2)
            turned = torch.view_as_real(torch.view_as_complex(pairs) * turn).view(n, -1, size)
            new_keys.copy_(turned[:, heads:])
            new_values.copy_(made[:, heads + kv_heads :])
            q = turned[:, :heads].transpose(0, 1).reshape(kv_heads, sharing * n, size)
            scores = torch.bmm(q, keys).mul_(self._scale)
            if bias is not None:
                scores[..., -n:].add_(bias)
            context = torch.bmm(scores.softmax(-1), values).view(heads, n, size)
            x = o.plus(context.transpose(0, 1).reshape(n, -1), x)
            gate, up = gate_up(self._unit(x)).chunk(2, dim=-1)
            x = down.plus(F.silu(gate).mul_(up), x)
        return self._unit(x) * self._final_norm

    def _turn(self, positions: Tensor) -> Tensor:
        """The complex number [N, 1, D / 2] that each position turns its pairs by."""
        angles = torch.outer(positions.float(), self._turns)
        return torch.polar(torch.full_like(angles, self._rotation_scale), angles)[:, None]

    def _bias(self, n: int, block: Tensor | None) -> Tensor | None:
        """What is added to the scores of the pass's own rows, [heads that share a key head * N, N]."""
        if n == 1:
            return None
        bias = block_bias(causal(n, self.device) if block is None else block, self.dtype)
        return bias.repeat(self._heads // self._kv_heads, 1)

    def _unit(self, x: Tensor) -> Tensor:
        """x [N, H] over its root mean square; the norm's weight is in the product that follows."""
        return F.rms_norm(x, (self.hidden_size,), None, self._eps)

    def logits(self, features: Tensor) -> Tensor:
        return self._lm_head(features)

    def embed(self, ids: Tensor) -> Tensor:
        return self._embedding[ids]

    def lm_head_weight(self) -> Tensor:
        return self._head_rows
