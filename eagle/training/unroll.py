"""Multi-step alignment: the head is trained on what it will meet when it drafts.

At depth j of a draft the head reads its own guess, not the target's feature, for the last j - 1
positions. HASS (arXiv 2408.15766, section 3.2) therefore unrolls the head during training: pass j
reads the guesses of pass j - 1, detached, and attends the way drafting attends. For a query at
position t in pass 3 the keys come from

    position   ... t-3  t-2  t-1   t
    pass          1    1    2    3

so everything up to t - (j - 1) comes from pass 1 (true features) and one diagonal from each later
pass. That is one masked product and j - 1 row-wise products, not j full ones.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from eagle.head import HeadModule


class UnrolledAttention:
    """The ``attend`` of training: remembers each pass's keys and values for the passes after it."""

    def __init__(self) -> None:
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """q [B, A, N, D], k and v [B, G, N, D] of this pass -> context [B, A, N, D]."""
        self.keys.append(k)
        self.values.append(v)
        if len(self.keys) == 1:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        rows, heads, n, size = q.shape
        groups = k.shape[1]
        q = q.reshape(rows, groups, heads // groups, n, size) / math.sqrt(size)
        steps = len(self.keys)
        base = q @ self.keys[0].unsqueeze(2).transpose(-1, -2)
        lag = torch.arange(n, device=q.device).unsqueeze(1) - torch.arange(n, device=q.device)
        base = base.masked_fill(lag < steps - 1, -torch.inf)
        scores = [base]
        for i in range(1, steps):
            key = shift(self.keys[i], steps - 1 - i).unsqueeze(2)
            own = (q * key).sum(-1, keepdim=True)
            # A query too close to the start has no key from this pass.
            early = torch.arange(n, device=q.device).unsqueeze(1) < steps - 1 - i
            scores.append(own.masked_fill(early, -torch.inf))
        weights = torch.cat(scores, dim=-1).softmax(-1)
        out = weights[..., :n] @ self.values[0].unsqueeze(2)
        for i in range(1, steps):
            out = out + weights[..., n + i - 1, None] * shift(self.values[i], steps - 1 - i).unsqueeze(2)
        return out.reshape(rows, heads, n, size)


def shift(x: Tensor, by: int) -> Tensor:
    """Moves [.., N, D] ``by`` positions to the right, zeros coming in at the left."""
    return F.pad(x, (0, 0, by, 0))[..., : x.shape[-2], :] if by else x


def unrolled_guesses(
    head: HeadModule, embeddings: Tensor, features: Tensor, cos: Tensor, sin: Tensor, steps: int
) -> list[Tensor]:
    """Guesses of features t+1 after 1..steps passes, each [B, N, H].

    ``embeddings`` are those of tokens t+1 and ``features`` those of positions t. In pass j the
    first j - 1 positions have no guess to read yet; their outputs are meaningless and the loss
    leaves them out.
    """
    attend = UnrolledAttention()
    guesses: list[Tensor] = []
    read = features
    for _ in range(steps):
        guess = head(embeddings, read, cos, sin, attend)
        guesses.append(guess)
        read = torch.cat((features[:, :1], guess[:, :-1].detach()), dim=1)
    return guesses
