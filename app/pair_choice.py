"""Which pairs of target and head this server offers, and how one is loaded."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from app import space
from app.policy import Policy

if TYPE_CHECKING:
    from eagle.decoder import Pair

Say = Callable[[str, float | None], None]


@dataclass(frozen=True)
class PairChoice:
    """A pair by its names; ``target`` None is the built-in one, ``head`` None with a target is none."""

    label: str
    target: str | None = None
    head: str | None = None
    weights: str = "fp32"

    def load(self, say: Say) -> Pair:
        """The pair, ready to decode. Raises LoadError with one sentence."""
        import eagle
        from eagle.threads import set_threads

        set_threads()
        device = space.loading_device() or os.environ.get("EAGLE_DEVICE") or None
        return eagle.load(self.target, self.head, device=device, weights=self.weights, progress=say)


BUILT_IN = PairChoice("built-in: SmolLM2-135M-Instruct and the head trained for it")
BUILT_IN_INT8 = PairChoice(
    "built-in, 8-bit weights (another target, with probabilities of its own)", weights="int8"
)


def first(environment: Mapping[str, str] = os.environ) -> PairChoice:
    """The pair that the server starts with: EAGLE_TARGET, EAGLE_HEAD, EAGLE_WEIGHTS, or the built-in one.

    The operator names it, so folders are allowed and no list is asked.
    """
    target, head = environment.get("EAGLE_TARGET") or None, environment.get("EAGLE_HEAD") or None
    weights = environment.get("EAGLE_WEIGHTS") or "fp32"
    if target is head is None and weights == "fp32":
        return BUILT_IN
    names = " and ".join(Path(name).name for name in (target, head) if name)
    return PairChoice(f"this server's: {names or 'built-in'}, {weights} weights", target, head, weights)


def offered(policy: Policy) -> list[PairChoice]:
    """What the menu holds: this server's own pair; then, where visitors may load any, the built-in ones and
    the known pairs whose two ids are allowed.

    On ZeroGPU the pair lives in another process, which loads this server's own: nothing else is offered.
    """
    own = first()
    if space.is_zero_gpu() or not policy.is_open:
        return [own]
    from eagle.pairs import known_pairs

    return [own, *(choice for choice in (BUILT_IN, BUILT_IN_INT8) if choice != own)] + [
        PairChoice(pair.label, pair.target, pair.head)
        for pair in known_pairs()
        if policy.allows(pair.target) and policy.allows(pair.head)
    ]


def typed(policy: Policy, target: str, head: str) -> PairChoice:
    """A pair that a visitor names. Raises NotAllowedError; a blank head is none, for plain decoding."""
    target, head = target.strip(), head.strip()
    checked = policy.check(target)
    return PairChoice(checked, checked, policy.check(head) if head else None)
