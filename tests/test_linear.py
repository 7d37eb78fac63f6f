"""Packed and 8-bit products against plain ones."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from eagle.head import HeadConfig, HeadModule
from eagle.linear import Int8, Packed, Plain, packing_works, with_linears

CPU = torch.device("cpu")
needs_packing = pytest.mark.skipif(
    not packing_works(CPU, torch.float32), reason="this torch build cannot pack weights; plain ones are used"
)


@pytest.fixture
def layer() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(48, 40).requires_grad_(False)


@needs_packing
@pytest.mark.parametrize("rows", [1, 2, 7, 16, 33, 60])
def test_packed_equals_plain(layer: nn.Linear, rows: int) -> None:
    x, other = torch.randn(rows, 48), torch.randn(rows, 40)
    packed = Packed(layer.weight, layer.bias)
    assert torch.allclose(packed(x), layer(x), atol=1e-5)
    assert torch.allclose(packed.plus(x, other), layer(x) + other, atol=1e-5)


@needs_packing
@pytest.mark.parametrize("shape", [(576, 960), (576, 3072), (1536, 576)])
def test_a_packed_row_is_the_same_alone_and_among_others(shape: tuple[int, int]) -> None:
    """What lets verifying a tree agree with decoding one by one but for near-ties.

    Not asked to the last bit: on AVX-512, oneDNN sums more than 1,024 products of a single row in
    another order than those of several rows.
    """
    torch.manual_seed(1)
    inputs, outputs = shape
    packed = Packed(torch.randn(outputs, inputs) / inputs**0.5)
    x = torch.randn(60, inputs)
    alone = torch.cat([packed(row[None]) for row in x])
    for rows in (2, 8, 16, 33, 60):
        assert torch.allclose(packed(x[:rows]), alone[:rows], rtol=0, atol=1e-5)


def test_int8_is_close_and_keeps_the_scale_of_each_row(layer: nn.Linear) -> None:
    x = torch.randn(5, 48)
    rough = Int8(layer.weight, layer.bias)(x)
    assert rough.dtype == x.dtype
    assert torch.allclose(rough, layer(x), atol=0.1)
    assert not torch.equal(rough, layer(x))


def test_with_linears_replaces_every_linear_and_changes_no_number() -> None:
    head = HeadModule(HeadConfig(16, 24, 2, 1, 8, 50)).requires_grad_(False)
    x, cos = torch.randn(1, 3, 16), torch.ones(1, 3, 8)

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return q + k.repeat_interleave(2, 1) + v.repeat_interleave(2, 1)

    before = head(x, x, cos, cos, attend)
    swapped = with_linears(head, Plain)
    assert not [module for module in swapped.modules() if isinstance(module, nn.Linear)]
    assert torch.equal(swapped(x, x, cos, cos, attend), before)
