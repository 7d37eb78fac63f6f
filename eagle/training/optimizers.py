"""AdamW, or Muon for matrices with AdamW for the rest.

torch's own Muon orthogonalises in bfloat16, which costs about 20 times more than float32 on a CPU
without bfloat16 products (41 s against 2 s for one update of this head, on the same busy machine); so
the number type is chosen by the device here. The update is otherwise the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from eagle.head import HeadModule
from eagle.training.recipe import Recipe

# The quintic of Keller Jordan's Muon: pushes all singular values to about 1 in five rounds.
QUINTIC = (3.4445, -4.7750, 2.0315)
ROUNDS = 5


class Muon(torch.optim.Optimizer):
    """Momentum, orthogonalised, with updates of the size that AdamW's have (0.2 root mean square)."""

    def __init__(self, parameters: Iterable[Tensor], lr: float, weight_decay: float, momentum: float = 0.95):
        super().__init__(parameters, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One update of every matrix that has a gradient."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["momentum"] = torch.zeros_like(parameter)
                momentum = state["momentum"].lerp_(parameter.grad, 1 - group["momentum"])
                update = orthogonal(torch.lerp(parameter.grad, momentum, group["momentum"]))
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                parameter.add_(update, alpha=-group["lr"] * 0.2 * max(parameter.shape) ** 0.5)


def orthogonal(matrix: Tensor) -> Tensor:
    """The nearest matrix with all singular values about 1, by Newton-Schulz rounds."""
    a, b, c = QUINTIC
    x = matrix.to(torch.bfloat16 if matrix.device.type == "cuda" else torch.float32)
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    x = x / (x.norm() + 1e-7)
    for _ in range(ROUNDS):
        square = x @ x.T
        x = torch.addmm(x, torch.addmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return (x.T if tall else x).to(matrix.dtype)


def make_optimizers(module: HeadModule, recipe: Recipe) -> list[torch.optim.Optimizer]:
    """The recipe's optimisers; each group remembers its full learning rate as ``full_lr``."""
    made: list[torch.optim.Optimizer]
    betas = (0.9, 0.95)
    if recipe.optimizer == "muon":
        matrices = [p for p in module.parameters() if p.ndim == 2]
        vectors = [p for p in module.parameters() if p.ndim != 2]
        made = [
            Muon(matrices, lr=recipe.lr, weight_decay=recipe.weight_decay),
            torch.optim.AdamW(vectors, lr=recipe.vector_lr, betas=betas, weight_decay=0.0),
        ]
    else:
        decay = recipe.weight_decay
        made = [torch.optim.AdamW(module.parameters(), lr=recipe.lr, betas=betas, weight_decay=decay)]
    for optimizer in made:
        for group in optimizer.param_groups:
            group["full_lr"] = group["lr"]
    return made
