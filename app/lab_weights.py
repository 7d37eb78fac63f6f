"""Editing the two distributions: one value set by hand, the others moved so that the sum stays 1. Pure.

Also the checks that all actions share: what the page sends is read as hostile.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app import labels, lessons
from app.lab_state import MAX_NAME, MAX_TOKENS, MIN_TOKENS, LabState, clean_names, scaled
from app.theme import three_digits

Action = Mapping[str, Any]
Edited = tuple[LabState, str]


class LabError(ValueError):
    """An action that can't be done; the message is the sentence that the visitor reads."""


def number(value: Any, low: float, high: float, what: str) -> float:
    """A finite number in [low, high] from whatever the page sent; LabError otherwise.

    A comma is read as the decimal point, and a percent sign is understood.
    """
    text = str(value).strip().replace(",", ".")
    scale = 100.0 if text.endswith("%") else 1.0
    try:
        out = float(text.rstrip("%")) / scale
    except ValueError:
        out = math.nan
    if not low <= out <= high:
        said = labels.shorten(labels.visible(str(value)), 20)
        raise LabError(f"{what} is a number from {low:g} to {high:g}; “{said}” is not, so nothing changed.")
    return out


def whole(action: Action, key: str, low: int, high: int, what: str) -> int:
    value = number(action.get(key), low, high, what)
    if value != int(value):
        raise LabError(f"{what} is a whole number from {low} to {high}, so nothing changed.")
    return int(value)


def index(state: LabState, action: Action) -> int:
    return whole(action, "i", 0, len(state.tokens) - 1, "The token's place")


def one_of(action: Action, key: str, options: tuple[Any, ...], what: str) -> Any:
    value = action.get(key)
    if value not in options:
        raise LabError(f"There is no such {what}, so nothing changed.")
    return value


def weight(state: LabState, action: Action) -> Edited:
    """One probability set by hand; the others keep their proportions, and the sum stays 1."""
    which = one_of(action, "which", ("target", "draft"), "distribution")
    i = index(state, action)
    value = number(action.get("v"), 0, 1, "A probability")
    old = getattr(state, which)
    if abs(value - old[i]) < 5e-7:
        return state, ""
    return with_values(state, which, spread(old, i, value)), _what_moved(state, which, i, value)


def with_values(state: LabState, which: str, values: tuple[float, ...]) -> LabState:
    """The state with its target or its draft replaced."""
    return replace(state, target=values) if which == "target" else replace(state, draft=values)


def spread(old: tuple[float, ...], i: int, value: float) -> tuple[float, ...]:
    """old with entry i at ``value`` and the others scaled to 1 - value (shared evenly if all were 0)."""
    others = sum(old) - old[i]
    left = 1.0 - value
    even = left / (len(old) - 1)
    new = [entry * left / others if others > 0 else even for entry in old]
    new[i] = value
    return scaled(new)


def _what_moved(state: LabState, which: str, i: int, value: float) -> str:
    """The sentence that says what was done to keep the sum at 1."""
    old = getattr(state, which)
    others = [j for j in range(len(old)) if j != i]
    if len(others) == 1:
        name = labels.quoted(state.tokens[others[0]])
        return (
            f"To keep the {which} at a sum of 1, {name} went from {three_digits(old[others[0]])} "
            f"to {three_digits(1 - value)}."
        )
    rest = sum(old) - old[i]
    if rest <= 0:
        return f"To keep the {which} at a sum of 1, the others share the {three_digits(1 - value)} evenly."
    factor = three_digits((1 - value) / rest)
    return f"To keep the {which} at a sum of 1, the others were multiplied by {factor}."


def name(state: LabState, action: Action) -> Edited:
    i = index(state, action)
    names = list(state.tokens)
    raw = str(action.get("v", ""))
    if raw == names[i]:
        return state, ""
    names[i] = raw
    others = names[:i] + names[i + 1 :]
    note = f"Names are cut to {MAX_NAME} characters." if len(raw) > MAX_NAME else ""
    if raw[:MAX_NAME] in others:
        raise LabError(f"{labels.quoted(raw)} is already one of the tokens, so nothing changed.")
    return replace(state, tokens=clean_names(names)), note


def add(state: LabState, _action: Action) -> Edited:
    """One more token, at a tenth of each distribution."""
    if len(state.tokens) >= MAX_TOKENS:
        raise LabError(f"The lab takes at most {MAX_TOKENS} tokens.")
    used = set(state.tokens)
    name = next(word for word in (*lessons.SPARE_NAMES, *"abcdefghij") if word not in used)
    target = scaled([*(0.9 * value for value in state.target), 0.1])
    draft = scaled([*(0.9 * value for value in state.draft), 0.1])
    note = f"{labels.quoted(name)} came in with .1; all others were multiplied by .9."
    return replace(state, tokens=(*state.tokens, name), target=target, draft=draft), note


def remove(state: LabState, action: Action) -> Edited:
    i = index(state, action)
    if len(state.tokens) <= MIN_TOKENS:
        raise LabError(f"The lab needs at least {MIN_TOKENS} tokens.")

    def without(old: tuple[float, ...]) -> tuple[float, ...]:
        left = old[:i] + old[i + 1 :]
        return scaled(left) if sum(left) > 0 else scaled([1.0] * len(left))

    order = tuple(token - (token > i) for token in state.order if token != i)
    after = replace(
        state,
        tokens=state.tokens[:i] + state.tokens[i + 1 :],
        target=without(state.target),
        draft=without(state.draft),
        order=order,
        step=0,
    )
    return after, f"{labels.quoted(state.tokens[i])} is gone; the others were scaled up to sum to 1."


def copy(state: LabState, action: Action) -> Edited:
    """The draft becomes the target's equal, or the other way round."""
    which = one_of(action, "which", ("target", "draft"), "distribution")
    other = "draft" if which == "target" else "target"
    return with_values(state, which, getattr(state, other)), f"The {which} is now equal to the {other}."
