"""The target model: one pass over tokens or over a whole tree, and the features it leaves.

``Target`` is what the decoder knows. ``TransformersTarget`` runs any Hugging Face causal LM that takes
a 4D mask, through its own code; faster targets for particular machines live beside it and must
give the same numbers.

A *feature* is the last hidden state after the final norm, the input of the LM head. A head that
reads more of the target names the layers in ``watched``; their inputs are then appended to each
feature, which has F = H (1 + number of watched layers) entries instead of H.
Shapes: N rows of a pass, T committed rows, H hidden, F feature, V vocabulary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from eagle.adapters import anatomy, masks_for
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
    watched: tuple[int, ...] = ()

    def new_cache(self, capacity: int) -> KVCache:
        return KVCache(self.layers, capacity)

    @abstractmethod
    def forward(self, ids: Tensor, positions: Tensor, block: Tensor | None, cache: KVCache) -> Tensor:
        """One pass over ids [N] at positions [N] -> features [N, F].

        Every row sees all committed rows of the cache. Among the N new rows, row i sees row j where
        ``block`` [N, N] is true; None means causal. The rows are written behind the committed ones;
        committing is the caller's.
        """

    @abstractmethod
    def logits(self, features: Tensor) -> Tensor:
        """features [M, F] -> logits [M, V], with whatever the model does to them after its LM head."""

    @abstractmethod
    def embed(self, ids: Tensor) -> Tensor:
        """Token embeddings [N, H] as the first layer gets them; draft heads read these."""

    @abstractmethod
    def lm_head_weight(self) -> Tensor:
        """The LM head's rows [V, H], for a draft head that scores with them."""


def causal(n: int, device: torch.device) -> Tensor:
    """The block mask of plain text: row i sees row j where j <= i."""
    return torch.ones(n, n, dtype=torch.bool, device=device).tril()


class TransformersTarget(Target):
    """Any transformers causal LM, run by its own code with a 4D mask and our cache.

    What differs between families is in ``eagle/adapters.py``. The layers may lie on several devices;
    ids and features come and go on the last one's.
    """

    def __init__(self, model: Any, end_tokens: frozenset[int]) -> None:
        self.model = model.eval()
        self.parts = anatomy(model)
        self.config = model.config.get_text_config()
        self.backbone = self.parts.backbone
        self.layers = self.parts.layers
        self.hidden_size = self.parts.hidden_size
        self.max_context = self.parts.max_context
        self.end_tokens = end_tokens
        self.notes = self.parts.notes
        self.device = device_of(self.parts.lm_head)
        self.input_device = device_of(self.parts.embedding)
        self.dtype = model.dtype
        rows = self.parts.lm_head.weight
        assert isinstance(rows, Tensor)
        self.vocab_size = rows.shape[0]

    def forward(self, ids: Tensor, positions: Tensor, block: Tensor | None, cache: KVCache) -> Tensor:
        if block is None:
            block = causal(ids.shape[0], ids.device)
        mask = masks_for(self.parts, positions, block, cache.length, self.dtype)
        out = self.backbone(
            input_ids=ids[None].to(self.input_device),
            attention_mask=mask,
            position_ids=positions[None].to(self.input_device),
            cache=cache.transformers,
            use_cache=True,
            output_hidden_states=bool(self.watched),
        )
        last = out.last_hidden_state[0].to(self.device)
        if not self.watched:
            return last
        return torch.cat([last, *(out.hidden_states[i][0].to(self.device) for i in self.watched)], dim=-1)

    def logits(self, features: Tensor) -> Tensor:
        logits = self.parts.lm_head(features[:, : self.hidden_size]) * self.parts.logit_factor
        cap = self.parts.softcap
        return logits if cap is None else torch.tanh(logits / cap) * cap

    def embed(self, ids: Tensor) -> Tensor:
        rows = self.parts.embedding(ids.to(self.input_device)).to(self.device)
        return rows * self.parts.embedding_factor

    def lm_head_weight(self) -> Tensor:
        return weight_of(self.parts.lm_head)


def device_of(module: Any) -> torch.device:
    """Where a module computes; for one that accelerate keeps elsewhere, where it is brought to."""
    place = getattr(getattr(module, "_hf_hook", None), "execution_device", None)
    return module.weight.device if place is None else torch.device(place)


def weight_of(module: Any) -> Tensor:
    """A module's weight on the device where it computes, fetched if accelerate keeps it elsewhere."""
    weight = module.weight
    if weight.is_meta:
        weight = module._hf_hook.weights_map["weight"]
    return weight.detach().to(device_of(module))
