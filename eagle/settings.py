"""What a run was asked to do. Frozen, checked once, no torch."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

MAX_SEED = 2**32 - 1


class SettingsError(ValueError):
    """A value that no run can have; the message names the field, the value and the range."""


class Method(StrEnum):
    """How a step drafts and which rule judges it (the table is in ``eagle/methods.py``)."""

    VANILLA = "vanilla"
    CHAIN = "chain"
    EAGLE1 = "eagle1"
    EAGLE2 = "eagle2"
    EAGLE3 = "eagle3"


class _Checked(BaseModel):
    """Frozen, strict about types, and clear about what is wrong."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise SettingsError(_sentence(error)) from None


_RANGES = {
    "method": "one of " + ", ".join(Method),
    "temperature": "a number from 0 to 2",
    "top_p": "a number above 0 and at most 1",
    "top_k": "a whole number, 0 for off",
    "seed": f"a whole number from 0 to {MAX_SEED}, or left out for a fresh one",
    "max_new_tokens": "a whole number from 1 to 4096",
    "total": "a whole number from 1 to 256",
    "depth": "a whole number from 1 to 16",
    "width": "a whole number from 1 to 32",
    "tree": "'paper', 'auto' or TOTAL/DEPTH/WIDTH such as 60/6/10",
}


def _sentence(error: ValidationError) -> str:
    """One plain sentence for the first thing that is wrong: the field, the range, the value."""
    first = error.errors(include_url=False)[0]
    nested = first.get("ctx", {}).get("error")
    if isinstance(nested, SettingsError):
        return str(nested)
    name = str(first["loc"][0]) if first["loc"] else "settings"
    if first["type"] == "extra_forbidden":
        known = Tree.model_fields if error.title == "Tree" else Settings.model_fields
        return f"{name[:40]} is not a setting; the settings are {', '.join(known)}."
    if first["type"] == "missing":
        return f"{name} is missing: it must be {_RANGES[name]}."
    return f"{name} must be {_RANGES.get(name, 'valid')}, but is {first['input']!r:.60}."


class Tree(_Checked):
    """The shape of a dynamic draft tree.

    ``total``: drafted nodes that rerank keeps (the root, the last emitted token, is not among
    them). ``depth``: levels of nodes. ``width``: continuations taken of each node, and nodes that
    go on to the next level. The EAGLE-2 paper's setting for 7B targets is 60/6/10.
    """

    total: Annotated[int, Field(ge=1, le=256, strict=True)]
    depth: Annotated[int, Field(ge=1, le=16, strict=True)]
    width: Annotated[int, Field(ge=1, le=32, strict=True)]

    def __str__(self) -> str:
        return f"{self.total}/{self.depth}/{self.width}"

    @classmethod
    def parse(cls, text: str) -> Tree:
        """``paper`` or ``TOTAL/DEPTH/WIDTH``."""
        if text.strip().lower() == "paper":
            return PAPER
        parts = text.split("/")
        if len(parts) != 3 or not all(re.fullmatch(r" *[0-9]{1,9} *", part) for part in parts):
            raise SettingsError(f"tree must be {_RANGES['tree']}, but is {text!r:.60}.")
        total, depth, width = (int(part) for part in parts)
        return cls(total=total, depth=depth, width=width)

    @classmethod
    def from_published(cls, total_token: int, depth: int, top_k: int) -> Tree:
        """The tree that the published code (SafeAILab/EAGLE) drafts with these parameters.

        It counts the root among ``total_token``, and its loop of ``depth`` rounds adds levels to a
        first one: total_token 61, depth 5, top_k 10 there is 60/6/10 here.
        """
        return cls(total=total_token - 1, depth=depth + 1, width=top_k)


PAPER = Tree(total=60, depth=6, width=10)
SMALL = Tree(total=8, depth=4, width=4)


class Settings(_Checked):
    """Everything besides the prompt and the pair that decides a run's output.

    ``temperature`` 0 is greedy. ``top_k`` 0 is off. ``seed`` None means: draw one and record it.
    """

    method: Method = Method.EAGLE2
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    top_k: Annotated[int, Field(ge=0, le=10**9, strict=True)] = 0
    seed: Annotated[int, Field(ge=0, le=MAX_SEED, strict=True)] | None = None
    max_new_tokens: Annotated[int, Field(ge=1, le=4096, strict=True)] = 128
    tree: Tree | Literal["auto"] = PAPER

    @field_validator("temperature", "top_p", mode="before")
    @classmethod
    def _real_number(cls, value: Any) -> Any:
        if isinstance(value, bool | str):
            raise ValueError("not a number")
        return value

    @field_validator("temperature")
    @classmethod
    def _no_negative_zero(cls, value: float) -> float:
        return value + 0.0

    @field_validator("tree", mode="before")
    @classmethod
    def _named_tree(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        return "auto" if value.strip().lower() == "auto" else Tree.parse(value)
