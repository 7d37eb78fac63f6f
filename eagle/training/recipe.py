"""What a training run is asked to do, checked once."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from eagle.training.errors import TrainingError
from eagle.training.loss import LossWeights


@dataclass(frozen=True)
class Recipe:
    """Everything besides target, corpus and starting point that decides a run's result.

    ``steps`` and ``minutes``: whichever ends first ends the run, and the learning rate falls to its
    floor by then (a run bounded by minutes follows the clock, so it can not be repeated exactly).
    ``noise``: half the width of the uniform noise on the features read. ``vocabulary``: tokens that the
    draft scores, 0 for all. ``cut``: rows are cut into equal parts of at most so many tokens.
    """

    steps: int = 10_000
    minutes: float = math.inf
    batch_tokens: int = 1728
    cut: int = 512
    optimizer: str = "adamw"
    lr: float = 2e-3
    vector_lr: float = 2e-3
    weight_decay: float = 0.0
    warmup: int = 30
    floor: float = 0.02
    clip: float = 1.0
    unroll: int = 3
    noise: float = 0.1
    vocabulary: int = 8192
    seed: int = 0
    log_every: int = 25
    save_every: int = 100
    measure_every: int = 400
    measure_rows: int = 24
    loss: LossWeights = field(default_factory=LossWeights)

    def __post_init__(self) -> None:
        whole = ("batch_tokens", "cut", "unroll", "log_every", "save_every", "measure_every", "measure_rows")
        for name in ("steps", *whole):
            if getattr(self, name) < 1:
                raise TrainingError(f"{name} must be at least 1, but is {getattr(self, name)}.")
        for name in ("minutes", "lr", "vector_lr", "clip"):
            if not getattr(self, name) > 0:
                raise TrainingError(f"{name} must be above 0, but is {getattr(self, name)}.")
        for name in ("weight_decay", "warmup", "noise", "vocabulary", "seed"):
            if not getattr(self, name) >= 0:
                raise TrainingError(f"{name} must be at least 0, but is {getattr(self, name)}.")
        if self.optimizer not in ("adamw", "muon"):
            raise TrainingError(f"optimizer must be adamw or muon, but is {self.optimizer!r}.")
        for name in ("save_every", "measure_every"):
            if getattr(self, name) % self.log_every:
                raise TrainingError(f"{name} must be a multiple of log_every ({self.log_every}).")

    def done(self, step: int, seconds: float) -> float:
        """The fraction of the run that is over, 1 at its end."""
        return max(step / self.steps, seconds / 60 / self.minutes)

    def rate(self, step: int, seconds: float) -> float:
        """What the learning rates are multiplied with: linear warm-up, then a cosine down to ``floor``."""
        cosine = 0.5 * (1 + math.cos(math.pi * min(1.0, self.done(step, seconds))))
        return min(1.0, (step + 1) / max(1, self.warmup)) * (self.floor + (1 - self.floor) * cosine)

    def as_json(self) -> dict[str, Any]:
        """Plain values; an unlimited time is null."""
        values = asdict(self)
        values["minutes"] = None if math.isinf(self.minutes) else self.minutes
        return values

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Recipe:
        known = {f.name: values[f.name] for f in fields(cls) if f.name in values}
        known["minutes"] = math.inf if known.get("minutes") is None else known["minutes"]
        known["loss"] = LossWeights(**known["loss"])
        return cls(**known)
