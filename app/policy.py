"""Which pairs a visitor may load: none but this server's own, unless the operator lists them.

On a machine that only its owner reaches, ``python app.py`` lists the known pairs of ``assets/pairs.json``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

VARIABLE = "EAGLE_ALLOWED_MODELS"
ANY = "any-hub-model"
KNOWN = "known-pairs"
MOST_NAMED = 4  # in a sentence


class NotAllowedError(ValueError):
    """A model that this server does not load for visitors; the message says so in one sentence."""


@dataclass(frozen=True)
class Policy:
    """The hub ids that visitors may name. Folders of the server are never among them."""

    ids: frozenset[str] = frozenset()
    any_id: bool = False

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Policy:
        """From EAGLE_ALLOWED_MODELS: hub ids with commas between, ``known-pairs`` or ``any-hub-model``."""
        listed = {part.strip() for part in environment.get(VARIABLE, "").split(",") if part.strip()}
        if listed & {KNOWN, ANY}:
            from eagle.pairs import known_pairs

            listed |= {name for pair in known_pairs() for name in (pair.target, pair.head)}
        return cls(frozenset(listed - {ANY, KNOWN}), ANY in listed)

    @property
    def is_open(self) -> bool:
        """Whether visitors may name anything at all."""
        return self.any_id or bool(self.ids)

    def allows(self, name: str) -> bool:
        """Whether a visitor may load this id."""
        from eagle.hub import HUB_ID

        well_formed = HUB_ID.fullmatch(name) and name.isascii() and ".." not in name and "/" in name
        return name in self.ids or (self.any_id and bool(well_formed))

    def check(self, name: str) -> str:
        """The name, if a visitor may load it. Raises NotAllowedError."""
        name = name.strip()
        if self.allows(name):
            return name
        offered = sorted(self.ids)
        more = len(offered) - MOST_NAMED
        some = ", ".join(offered[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
        allowed = f"This server offers {some}." if offered else ""
        raise NotAllowedError(
            f"{name[:80]!r} is not a model that this server loads for visitors. {allowed}".strip()
        )
