"""A device that is not there: tensors that compute on the CPU but can be read only by a counted copy.

On a GPU every read of a number makes the host wait. Where there is none, code runs on this device
instead: a :class:`Far` tensor says that it lies on ``meta``, so torch turns each ``item``, ``bool``,
``int``, ``tolist``, ``nonzero`` and ``cpu`` of it into an operation that :class:`PretendDevice` sees.
"""

from __future__ import annotations

from collections import Counter
from types import TracebackType
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

FAR = torch.device("meta")
# What makes a GPU's host wait besides a copy: one number read, or a result whose size is not known before.
READS = {
    "item",
    "is_nonzero",
    "_local_scalar_dense",
    "nonzero",
    "_unique2",
    "unique_dim",
    "masked_select",
    "equal",
}
COPIES = {"to", "_to_copy"}


class Far(Tensor):
    """A tensor on the pretended device; ``near`` holds its numbers."""

    near: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, near: Tensor) -> Far:
        out = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            near.shape,
            strides=near.stride(),
            storage_offset=near.storage_offset(),
            dtype=near.dtype,
            device=FAR,
        )
        out.near = near
        return out

    def tolist(self) -> Any:
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError(f"{func} on the pretended device, but outside of it")


class PretendDevice(TorchDispatchMode):
    """Inside, ``device="meta"`` is the pretended device. ``reads`` counts what the host waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: Counter[str] = Counter()
        self.uploads = 0
        self._tensor = mock.patch.object(torch, "tensor", self._made_of_numbers)

    def __enter__(self) -> PretendDevice:
        self._tensor.start()
        super().__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, value, trace)
        self._tensor.stop()

    def _made_of_numbers(self, *args: Any, **kwargs: Any) -> Tensor:
        """``torch.tensor``, which does not come by ``__torch_dispatch__``."""
        device = kwargs.pop("device", None)
        near = self._tensor.temp_original(*args, **kwargs)
        if device is None or torch.device(device).type != FAR.type:
            return near
        self.uploads += 1
        return Far(near)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        leaves = tree_leaves((args, kwargs or {}))
        given = [leaf for leaf in leaves if isinstance(leaf, Far)]
        device = next((leaf for leaf in leaves if isinstance(leaf, torch.device)), None)
        name = func.overloadpacket.__name__
        to_far = device is not None and device.type == FAR.type
        to_near = device is not None and not to_far
        if given and (name in READS or _picks_by_mask(name, args)):
            self.reads[name] += 1
        if (given and name in COPIES and to_near) or (name == "copy_" and not isinstance(args[0], Far)):
            self.reads["copy"] += bool(given)
        self.uploads += to_far and name in COPIES and not given
        near = tree_map_only(Far, lambda far: far.near, (args, kwargs or {}))
        near_args, near_kwargs = tree_map_only(torch.device, lambda _: torch.device("cpu"), near)
        out = func(*near_args, **near_kwargs)
        if to_near or not (given or to_far):
            return out
        same = {id(far.near): far for far in given}  # an operation in place gives back what it was given
        return tree_map_only(Tensor, lambda near: same[id(near)] if id(near) in same else Far(near), out)


def _picks_by_mask(name: str, args: Any) -> bool:
    """Indexing by a bool tensor, whose number of results is not known before."""
    masks = [leaf for leaf in tree_leaves(args[1:]) if isinstance(leaf, Tensor) and leaf.dtype == torch.bool]
    return name in ("index", "index_put_") and bool(masks)


def move(module: nn.Module) -> None:
    """Every parameter and buffer of a module, moved in place."""
    for part in module.modules():
        for name, weight in list(part._parameters.items()):
            if weight is not None:
                part._parameters[name] = Far(weight.detach())  # type: ignore[assignment]
        for name, buffer in list(part._buffers.items()):
            if buffer is not None:
                part._buffers[name] = Far(buffer)
