"""Our cache behind the interface that transformers models call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

if TYPE_CHECKING:
    from eagle.cache import KVCache


class TransformersCache(Cache):
    """Hands a model's keys and values to a :class:`~eagle.cache.KVCache` and its rows back.

    The mask and the positions always come from us, so the sizes that transformers would ask a
    cache for are answered only for completeness.
    """

    def __init__(self, rows: KVCache) -> None:
        super().__init__(layer_class_to_replicate=DynamicLayer)
        self._rows = rows

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Writes this pass's rows of a layer and returns all rows so far."""
        return self._rows.write(layer_idx, key_states, value_states)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Committed rows."""
        return self._rows.length

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:
        """Length and offset of the keys a pass of ``query_length`` rows sees."""
        return self._rows.length + query_length, 0
