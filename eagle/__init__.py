"""EAGLE-2 speculative decoding as a library with no user interface in it.

>>> import eagle
>>> pair = eagle.load()                                        # the built-in pair
>>> run = eagle.generate(pair, "Why is the sky blue?", eagle.Settings(temperature=0.7, seed=1))
>>> run.text, run.tau

Importing this package loads neither torch nor a model; the first call of ``load`` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eagle.settings import PAPER, Method, Settings, SettingsError, Tree
from eagle.trace import RunTrace, StepTrace

if TYPE_CHECKING:
    from eagle.decoder import Pair, decode, generate
    from eagle.loading import LoadError, load

__all__ = [
    "PAPER",
    "LoadError",
    "Method",
    "Pair",
    "RunTrace",
    "Settings",
    "SettingsError",
    "StepTrace",
    "Tree",
    "decode",
    "generate",
    "load",
]

_LAZY = {
    "LoadError": "eagle.loading",
    "load": "eagle.loading",
    "Pair": "eagle.decoder",
    "decode": "eagle.decoder",
    "generate": "eagle.decoder",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'eagle' has no attribute {name!r}")
