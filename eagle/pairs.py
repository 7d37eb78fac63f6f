"""Known targets with their published heads, for a menu; anything else is loaded by name just the same."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).parent.parent / "assets" / "pairs.json"
BYTES_IN_BF16 = 2


@dataclass(frozen=True)
class KnownPair:
    """A target and a head by their hub ids, what they may be used for, and how large they are.

    ``gated``: the target's terms must be accepted on the hub and a token set. Sizes are billions of
    parameters.
    """

    name: str
    target: str
    head: str
    method: str
    target_billions: float
    head_billions: float
    target_licence: str
    head_licence: str
    gated: bool

    @property
    def memory_gb(self) -> float:
        """What both need in bfloat16, with half a gigabyte beside the weights."""
        return round(BYTES_IN_BF16 * (self.target_billions + self.head_billions) + 0.5, 1)

    @property
    def label(self) -> str:
        """One line for a menu: what it is, what it needs, what stands in the way."""
        gate = ", gated" if self.gated else ""
        return f"{self.name} ({self.memory_gb:g} GB in bfloat16; {self.target_licence}{gate})"


def known_pairs() -> list[KnownPair]:
    """The table in ``assets/pairs.json``, in its order."""
    return [KnownPair(**row) for row in json.loads(FILE.read_text())]
