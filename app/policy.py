"""Which targets and heads a visitor may name: none but the built-in pair, unless the operator lists them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

VARIABLE = "EAGLE_ALLOWED_MODELS"
ANY = "any-hub-model"


class NotAllowedError(ValueError):
    """A model that this server does not load for visitors; the message says so in one sentence."""


@dataclass(frozen=True)
class Policy:
    """The hub ids that visitors may name. Folders of the server are never among them."""

    ids: frozenset[str] = frozenset()
    any_id: bool = False

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Policy:
        """From EAGLE_ALLOWED_MODELS: hub ids with commas between, or ``any-hub-model``."""
        listed = {part.strip() for part in environment.get(VARIABLE, "").split(",") if part.strip()}
        return cls(frozenset(listed - {ANY}), ANY in listed)

    @property
    def is_open(self) -> bool:
        """Whether visitors may name anything at all."""
        return self.any_id or bool(self.ids)

    def check(self, name: str) -> str:
        """The name, if a visitor may load it. Raises NotAllowedError."""
        from eagle.hub import HUB_ID

        name = name.strip()
        if name in self.ids:
            return name
        if self.any_id and HUB_ID.fullmatch(name) and name.isascii() and ".." not in name and "/" in name:
            return name
        allowed = f"This server offers {', '.join(sorted(self.ids))}." if self.ids else ""
        raise NotAllowedError(
            f"{name[:80]!r} is not a model that this server loads for visitors. {allowed}".strip()
        )
