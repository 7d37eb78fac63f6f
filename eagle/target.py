"""The target model: one pass over tokens or over a whole tree, and the features it leaves.

``Target`` is what the decoder knows. ``TransformersTarget`` runs any Hugging Face causal LM that takes
a 4D mask, through its own code; faster targets for particular machines live beside it and must
give the same numbers.

A *feature* is the last hidden state after the final norm, the input of the LM head.
Shapes: N rows of a pass, T committed rows, H hidden, V vocabulary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from eagle.cache import KVCache

# Rows of a prompt that go through the target at once: the mask stays [chunk, T], never [T, T].
PREFILL_CHUNK = 256


class Target(ABC):
    """What the decoder needs of a target."""

    layers: int
    hidden_size: int
    vocab_size: int
    max_context: int
    end_tokens: frozenset[int]
    device: torch.device
    dtype: torch.dtype

    def new_cache(self, capacity: int) -> KVCache:
        return KVCache(self.layers, capacity)

    @abstractmethod
    def forward(self, ids: Tensor, positions: Tensor, block: Tensor | None, cache: KVCache) -> Tensor:
        """One pass over ids [N] at positions [N] -> features [N, H].

        Every row sees all committed rows of the cache. Among the N new rows, row i sees row j where
        ``block`` [N, N] is true; None means causal. The rows are written behind the committed ones;
        committing is the caller's.
        """

    @abstractmethod
    def logits(self, features: Tensor) -> Tensor:
        """features [M, H] -> logits [M, V], with whatever the model does to them after its LM head."""

    @abstractmethod
    def embed(self, ids: Tensor) -> Tensor:
        """Token embeddings [N, H] as the draft head reads them."""

    @abstractmethod
    def lm_head_weight(self) -> Tensor:
        """The LM head's rows [V, H], for a draft head that scores with them."""


def causal(n: int, device: torch.device) -> Tensor:
    """The block mask of plain text: row i sees row j where j <= i."""
    return torch.ones(n, n, dtype=torch.bool, device=device).tril()


class TransformersTarget(Target):
    """Any transformers causal LM, run by its own code with a 4D mask and our cache."""

    def __init__(self, model: Any, end_tokens: frozenset[int]) -> None:
        self.model = model.eval()
        self.config = model.config.get_text_config()
        self.backbone = model.base_model
        self.head = model.get_output_embeddings()
        self.embedding = model.get_input_embeddings()
        self.layers = self.config.num_hidden_layers
        self.hidden_size = self.config.hidden_size
        self.vocab_size = self.head.weight.shape[0]
        self.max_context = int(getattr(self.config, "max_position_embeddings", 2**20) or 2**20)
        self.end_tokens = end_tokens
        self.device = self.head.weight.device
        self.dtype = self.head.weight.dtype

    def forward(self, ids: Tensor, positions: Tensor, block: Tensor | None, cache: KVCache) -> Tensor:
        n, committed = ids.shape[0], cache.length
        mask = torch.zeros(1, 1, n, committed + n, dtype=self.dtype, device=self.device)
        if block is None:
            block = causal(n, self.device)
        mask[0, 0, :, committed:].masked_fill_(~block, torch.finfo(self.dtype).min)
        out = self.backbone(
            input_ids=ids[None],
            attention_mask=mask,
            position_ids=positions[None],
            cache=cache.transformers,
            use_cache=True,
        )
        return out.last_hidden_state[0]

    def logits(self, features: Tensor) -> Tensor:
        return self.head(features)

    def embed(self, ids: Tensor) -> Tensor:
        return self.embedding(ids)

    def lm_head_weight(self) -> Tensor:
        return self.head.weight
