"""What the head is trained to do: guess the next feature, and through the LM head the next token.

EAGLE (arXiv 2401.15077, section 3.2): smooth L1 between the guess and the target's feature, and soft
cross-entropy between the distributions that both give. HASS (arXiv 2408.15766, section 3.1) adds the
cross-entropy over the target's k most likely tokens alone, and repeats all of it over unrolled passes.

Shapes: B rows, N positions, H hidden, M = B * N, V' scored tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from eagle.head import HeadModule
from eagle.training.unroll import unrolled_guesses

# Positions whose scores are held at once: [CHUNK, V'] floats.
CHUNK = 1024


@dataclass(frozen=True)
class LossWeights:
    """Weights of the loss's terms.

    ``feature``: smooth L1. ``token``: soft cross-entropy. ``top``: cross-entropy over the target's
    ``top_count`` best tokens. ``prompt``: weight of positions whose next token is not an answer's.
    ``step_decay``: factor from each unrolled pass to the next.
    """

    feature: float = 1.0
    token: float = 0.5
    top: float = 0.0
    top_count: int = 10
    prompt: float = 1.0
    step_decay: float = 1.0


@dataclass(frozen=True)
class Batch:
    """Pairs of a batch, ready for the head.

    ``embeddings`` [B, N, H] of tokens t+1, ``features`` [B, N, H] of positions t as read,
    ``wanted`` [B, N, H] features of positions t+1, ``weight`` [B, N], cos and sin [1, N, D].
    """

    embeddings: Tensor
    features: Tensor
    wanted: Tensor
    weight: Tensor
    cos: Tensor
    sin: Tensor


class Trainee(nn.Module):
    """The head with its loss, as one module, so that several processes can wrap the whole."""

    def __init__(self, head: HeadModule, weights: LossWeights, unroll: int) -> None:
        super().__init__()
        self.head = head
        self.weights = weights
        self.unroll = unroll

    def forward(self, batch: Batch, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """``rows`` [V', H] of the LM head -> (loss, feature term, token term), means over the passes."""
        guesses = unrolled_guesses(
            self.head, batch.embeddings, batch.features, batch.cos, batch.sin, self.unroll
        )
        target = soft_targets(batch.wanted.flatten(0, 1), rows, self.weights)
        feature = token = batch.weight.new_zeros(())
        decay, total = 1.0, 0.0
        for depth, guess in enumerate(guesses):
            # The first `depth` positions of this pass had no guess to read yet.
            weight = batch.weight.clone()
            weight[:, :depth] = 0
            weight = weight / weight.sum().clamp_min(1e-9)
            distance = F.smooth_l1_loss(guess.float(), batch.wanted.float(), reduction="none").mean(-1)
            feature = feature + decay * (distance * weight).sum()
            token = token + decay * SoftCrossEntropy.apply(
                guess.flatten(0, 1), rows, target, weight.flatten()
            )
            total += decay
            decay *= self.weights.step_decay
        feature, token = feature / total, token / total
        return self.weights.feature * feature + token, feature.detach(), token.detach()


@torch.no_grad()
def soft_targets(features: Tensor, rows: Tensor, weights: LossWeights) -> Tensor:
    """features [M, H] -> what each position's log-probabilities [M, V'] are weighted with.

    ``token`` * p plus, on the ``top_count`` largest entries, ``top`` * p.
    """
    parts = []
    for chunk in features.split(CHUNK):
        p = (chunk.to(rows.dtype) @ rows.T).float().softmax(-1)
        goal = weights.token * p
        if weights.top:
            best = p.topk(min(weights.top_count, p.shape[1]), dim=-1)
            goal.scatter_add_(1, best.indices, weights.top * best.values)
        parts.append(goal.to(rows.dtype))
    return torch.cat(parts)


class SoftCrossEntropy(torch.autograd.Function):
    """Weighted mean of -sum(target * log softmax(guess @ rows.T)), its gradient made on the way.

    The gradient of the scores is (mass * softmax - target) with mass = sum(target); multiplying it
    back through the rows at once means that no [M, V'] tensor outlives its chunk.
    """

    @staticmethod
    def forward(ctx: Any, guess: Tensor, rows: Tensor, target: Tensor, weight: Tensor) -> Tensor:
        """guess [M, H], rows [V', H], target [M, V'], weight [M] -> scalar."""
        total = guess.new_zeros((), dtype=torch.float32)
        gradient = torch.empty_like(guess)
        chunks = zip(guess.split(CHUNK), target.split(CHUNK), weight.split(CHUNK), strict=True)
        for index, (g, part, w) in enumerate(chunks):
            scores = (g.to(rows.dtype) @ rows.T).float()
            goal = part.float()
            top = scores.amax(-1, keepdim=True)
            expected = (goal * scores).sum(-1)
            shares = scores.sub_(top).exp_()
            mass = goal.sum(-1)
            sums = shares.sum(-1)
            total += (w * (mass * (sums.log() + top[:, 0]) - expected)).sum()
            slope = shares.mul_((mass / sums)[:, None]).sub_(goal).mul_(w[:, None])
            gradient[index * CHUNK : index * CHUNK + len(g)] = slope.to(rows.dtype) @ rows
        ctx.save_for_backward(gradient)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (gradient,) = ctx.saved_tensors
        return gradient * grads[0], None, None, None
