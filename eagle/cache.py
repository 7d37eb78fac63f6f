"""Keys and values of every layer in preallocated memory, committed row by row.

A pass over N tokens writes N rows behind the committed ones. Nothing is committed until
:meth:`KVCache.keep` says which of those rows stay; the next pass overwrites the others. So a tree's
rejected branches cost nothing to drop.

Shapes: L layers, G key/value heads, T committed rows, N rows of the pass, D head size.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from torch import Tensor


class KVCache:
    """Room for ``capacity`` rows in each of ``layers`` layers; the shape is learnt at the first write."""

    def __init__(self, layers: int, capacity: int) -> None:
        self.layers = layers
        self.capacity = capacity
        self.length = 0
        self._keys: list[Tensor | None] = [None] * layers
        self._values: list[Tensor | None] = [None] * layers
        self._storage: Tensor | None = None
        self._alone: list[Tensor] = []

    def write(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """keys, values [1, G, N, D] of this pass -> all rows so far, [1, G, T + N, D] each.

        Raises ValueError when the rows do not fit.
        """
        end = self.length + keys.shape[2]
        self._check_room(end)
        all_keys, all_values = self._rows_of(layer, keys, values)
        all_keys[:, :, self.length : end] = keys
        all_values[:, :, self.length : end] = values
        return all_keys[:, :, :end], all_values[:, :, :end]

    def room_for(self, count: int, heads: int, size: int, like: Tensor) -> tuple[Tensor, Tensor]:
        """For a target that fills all layers itself: the places of this pass's rows [L, 2, G, N, D], keys
        first, and all rows up to and with them [L, 2, G, T + N, D]. ``like`` has their type and device.

        Raises ValueError when the rows do not fit.
        """
        end = self.length + count
        self._check_room(end)
        if self._storage is None:
            self._storage = like.new_zeros(self.layers, 2, 1, heads, self.capacity, size)
            self._keys, self._values = list(self._storage[:, 0]), list(self._storage[:, 1])
        every = self._storage[:, :, 0, :, :end]
        return every[..., self.length :, :], every

    def keep(self, rows: Tensor) -> None:
        """Commits rows [m] of the last pass (0 is its first), in that order; the others are dropped."""
        count = rows.shape[0]
        for store in self._stores():
            store[..., self.length : self.length + count, :] = store.index_select(
                -2, (rows + self.length).to(store.device)
            )
        self.length += count

    def keep_first(self, count: int) -> None:
        """Commits the first ``count`` rows of the last pass where they lie."""
        self.length += count

    def rows(self, layer: int) -> tuple[Tensor, Tensor]:
        """The committed keys and values [1, G, T, D] of a layer."""
        keys, values = self._keys[layer], self._values[layer]
        assert keys is not None and values is not None, "nothing was written to this layer"
        return keys[:, :, : self.length], values[:, :, : self.length]

    @cached_property
    def transformers(self) -> Any:
        """This cache behind the interface that transformers models call."""
        from eagle.transformers_cache import TransformersCache

        return TransformersCache(self)

    def _check_room(self, end: int) -> None:
        if end > self.capacity:
            raise ValueError(f"the cache holds {self.capacity} rows, but {end} are needed.")

    def _rows_of(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        mine, my_values = self._keys[layer], self._values[layer]
        if mine is None or my_values is None:
            mine, my_values = self._allocate(layer, keys, values)
            self._keys[layer], self._values[layer] = mine, my_values
        return mine, my_values

    def _allocate(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """One tensor for all layers where they are alike (so that a commit is one copy), else one a layer."""
        _, heads, _, size = keys.shape
        if self._storage is None and keys.shape == values.shape:
            self._storage = keys.new_zeros(self.layers, 2, 1, heads, self.capacity, size)
        shared = self._storage
        if (
            shared is not None
            and keys.shape == values.shape
            and shared.shape[3] == heads
            and shared.shape[5] == size
            and shared.device == keys.device
            and shared.dtype == keys.dtype
        ):
            return shared[layer, 0], shared[layer, 1]
        own_keys = keys.new_zeros(1, heads, self.capacity, size)
        own_values = values.new_zeros(1, values.shape[1], self.capacity, values.shape[3])
        self._alone += [own_keys, own_values]
        return own_keys, own_values

    def _stores(self) -> list[Tensor]:
        """Every tensor that holds rows, each once."""
        return ([] if self._storage is None else [self._storage]) + self._alone
