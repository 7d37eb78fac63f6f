"""Attention over cached rows with grouped heads, without repeating a key or a value."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def block_bias(block: Tensor, dtype: torch.dtype) -> Tensor:
    """bool [N, B] -> additive [N, B]: 0 where row sees column, the smallest number elsewhere."""
    return torch.zeros(block.shape, dtype=dtype, device=block.device).masked_fill_(
        ~block, torch.finfo(dtype).min
    )


def attend_rows(q: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None) -> Tensor:
    """q [1, A, N, D] over keys, values [1, G, T, D] -> [1, A, N, D].

    ``bias`` [N, B] is added to the scores of the last B rows; every earlier row is seen by all.
    The A / G query heads that share a key head go through one product as A / G * N rows.
    """
    _, heads, n, size = q.shape
    groups = keys.shape[1]
    rows = q.reshape(groups, heads // groups * n, size)
    scores = torch.bmm(rows, keys[0].transpose(1, 2)).mul_(1 / math.sqrt(size))
    if bias is not None:
        scores.view(groups, heads // groups, n, -1)[..., -bias.shape[1] :].add_(bias)
    return torch.bmm(scores.softmax(-1), values[0]).view(1, heads, n, size)
