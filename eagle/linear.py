"""Linear layers for the machine at hand, all called as x [.., I] -> [.., O].

A draft tree pays only if a pass over several tokens costs little more than a pass over one. On a
CPU that needs weights in the blocked order that oneDNN's small products read: see
``docs/performance.md`` for what was measured. There too: how far a row's product alone and among
others agree, on which greedy decoding by tree and one by one depends where two tokens nearly tie.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

# The number of rows that weights are packed for; measured best for 1 to 60 rows alike.
PACKED_FOR_ROWS = 16

Linear = Callable[[Tensor], Tensor]
ModuleT = TypeVar("ModuleT", bound=nn.Module)


class Packed:
    """fp32 weights [O, I] in oneDNN's own order; the plain copy is not kept."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.out_features, self.in_features = weight.shape
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), PACKED_FOR_ROWS)
        self._bias = bias
        # Named overloads: letting torch find the one that fits costs as much as a small product.
        self._product = torch.ops.mkldnn._linear_pointwise.default
        self._product_plus = torch.ops.mkldnn._linear_pointwise.binary

    def __call__(self, x: Tensor) -> Tensor:
        return self._product(x, self._weight, self._bias, "none", [], "")

    def plus(self, x: Tensor, other: Tensor) -> Tensor:
        """The product plus ``other``, added while it is still in the registers."""
        return self._product_plus(x, other, self._weight, self._bias, "add")


class Plain:
    """Weights as they are."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.out_features, self.in_features = weight.shape
        self._weight, self._bias = weight.detach(), bias

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self._weight, self._bias)

    def plus(self, x: Tensor, other: Tensor) -> Tensor:
        return other + F.linear(x, self._weight, self._bias)


class Int8:
    """8-bit weights, one scale a row, bf16 inside: another target (or head) with its own p."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.out_features, self.in_features = weight.shape
        scale = weight.detach().abs().amax(dim=1).clamp_(min=1e-12) / 127
        self._weight = (weight.detach() / scale[:, None]).round_().clamp_(-127, 127).to(torch.int8)
        self._scale = scale.to(torch.bfloat16)
        self._bias = bias

    def __call__(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, self.in_features).to(torch.bfloat16)
        out = torch._weight_int8pack_mm(rows, self._weight, self._scale).to(x.dtype)
        out = out if self._bias is None else out + self._bias
        return out.view(*x.shape[:-1], self.out_features)

    def plus(self, x: Tensor, other: Tensor) -> Tensor:
        return other + self(x)


LinearKind = type[Packed] | type[Plain] | type[Int8]


def with_linears(module: ModuleT, kind: LinearKind) -> ModuleT:
    """The module with every nn.Linear inside replaced by ``kind``; for inference only."""
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear):
                bias = None if child.bias is None else child.bias.detach()
                delattr(parent, name)
                setattr(parent, name, kind(child.weight, bias))
    return module


def packing_works(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether fp32 weights can be packed here; tried on a small product, not guessed."""
    if device.type != "cpu" or dtype != torch.float32 or not torch.backends.mkldnn.is_available():
        return False
    weight, x = torch.randn(8, 16), torch.randn(3, 16)
    try:
        packed = Packed(weight)
        return bool(
            torch.allclose(packed(x), F.linear(x, weight), atol=1e-4)
            and torch.allclose(packed.plus(x, x[:, :8]), F.linear(x, weight) + x[:, :8], atol=1e-4)
        )
    except (RuntimeError, AttributeError):
        return False
