"""The lab's state as the query string of a link, both ways. Pure.

A link restores everything, for anyone, after a restart too. A value that makes no sense falls back
to the default, and a note says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, quote

from app.lab_state import (
    COLUMNS,
    DEFAULT,
    EXPERIMENTS,
    MAX_GUESSES,
    MAX_TEMPERATURE,
    VIEWS,
    Guess,
    LabState,
    check_weights,
    clean_names,
    scaled,
    tidy,
)
from eagle.rules import RULES
from eagle.settings import MAX_SEED

PREFIX = "lab."
MAX_QUERY = 6000


def to_query(state: LabState) -> str:
    """The state as ``tab=lab&lab.rule=...``; what equals the default is left out."""
    pairs = [("tab", "lab")]
    if state.tokens != DEFAULT.tokens:
        pairs += [("t", name) for name in state.tokens]
    for name in ("target", "draft"):
        if (values := getattr(state, name)) != getattr(DEFAULT, name):
            pairs.append((_KEYS[name], ",".join(_number(value) for value in values)))
    for name, write in _WRITERS.items():
        if (value := getattr(state, name)) != getattr(DEFAULT, name):
            pairs.append((_KEYS[name], write(value)))
    named = [(key if key == "tab" else PREFIX + key, value) for key, value in pairs]
    return "&".join(f"{key}={quote(value, safe=',:')}" for key, value in named)


def from_query(text: str) -> tuple[LabState, list[str]]:
    """The state that a query string names, and a sentence for each value that it could not use."""
    notes: list[str] = []
    if len(text) > MAX_QUERY:
        return DEFAULT, ["The link is too long to be one of this page's; the lab starts afresh."]
    given: dict[str, list[str]] = {}
    for key, value in parse_qsl(text.lstrip("?"), keep_blank_values=True, errors="replace"):
        if key.startswith(PREFIX):
            given.setdefault(key.removeprefix(PREFIX), []).append(value)
    state = _read_distributions(given, notes)
    for name, read in _READERS.items():
        key = _KEYS[name]
        if key not in given:
            continue
        try:
            state = replace(state, **{name: read(given[key][0], state)})
        except (ValueError, OverflowError, IndexError):
            notes.append(f"The link's “{PREFIX}{key}” has no usable value, so the default stands.")
    if state.k > len(state.tokens):
        notes.append(
            f"The link's k is above the {len(state.tokens)} tokens there are, so k is {len(state.tokens)}."
        )
    return tidy(state), notes


def _read_distributions(given: Mapping[str, list[str]], notes: list[str]) -> LabState:
    """Names, target and draft from a link; all three fall back together, since they belong together."""
    if not any(key in given for key in ("t", "p", "q")):
        return DEFAULT
    try:
        target = parse_weights(given["p"][0]) if "p" in given else None
        draft = parse_weights(given["q"][0]) if "q" in given else target
        names = given.get("t")
        if target is None:
            target = draft if names and draft and len(names) == len(draft) else DEFAULT.target
        if draft is None or len(draft) != len(target):
            raise ValueError("the target and the draft differ in length")
        if names is None:
            names = list(DEFAULT.tokens) if len(target) == 2 else [chr(97 + i) for i in range(len(target))]
        tokens = clean_names(names)
        if len(tokens) != len(target):
            raise ValueError("names and numbers differ in length")
    except ValueError as error:
        notes.append(f"The link's distributions can't be used ({error}), so the defaults stand.")
        return DEFAULT
    for name, values in (("target", target), ("draft", draft)):
        if abs(sum(values) - 1) > 1e-6:
            notes.append(f"The link's {name} summed to {sum(values):.4g}; it was scaled to sum to 1.")
    return replace(DEFAULT, tokens=tokens, target=scaled(target), draft=scaled(draft))


def parse_weights(text: str) -> tuple[float, ...]:
    """Comma-separated numbers, not yet scaled; ValueError says in plain words what is wrong."""
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ValueError("one of the numbers is not a number") from None
    check_weights(values)
    return values


def _number(value: float) -> str:
    return f"{value:.12g}"


def _choice(options: Sequence[str]) -> Callable[[str, LabState], str]:
    def read(text: str, _state: LabState) -> str:
        if text not in options:
            raise ValueError
        return text

    return read


def _whole(low: int, high: int) -> Callable[[str, LabState], int]:
    def read(text: str, _state: LabState) -> int:
        if not (text.isascii() and text.isdigit() and len(text) <= 10 and low <= int(text) <= high):
            raise ValueError
        return int(text)

    return read


def _real(low: float, high: float) -> Callable[[str, LabState], float]:
    def read(text: str, _state: LabState) -> float:
        value = float(text)
        if not low <= value <= high:
            raise ValueError
        return value

    return read


def _read_order(text: str, state: LabState) -> tuple[int, ...]:
    order = tuple(int(part) for part in text.split(","))
    if len(set(order)) != len(order) or not all(0 <= token < len(state.tokens) for token in order):
        raise ValueError
    return order


def _read_typed(text: str, _state: LabState) -> tuple[tuple[int, float], ...]:
    pairs = [part.split(":") for part in text.split(",")]
    typed = {int(column): float(draw) for column, draw in pairs}
    if not all(0 <= column < COLUMNS and 0 <= draw < 1 for column, draw in typed.items()):
        raise ValueError
    return tuple(sorted(typed.items()))


def _write_guesses(guesses: tuple[Guess, ...]) -> str:
    def one(guess: Guess) -> str:
        said = "" if guess.probability is None else _number(guess.probability)
        return f"{int(guess.accept)}:{said}:{guess.true_probability:.4g}:{int(guess.accepted)}"

    return ",".join(one(guess) for guess in guesses)


def _read_guesses(text: str, _state: LabState) -> tuple[Guess, ...]:
    out = []
    for part in text.split(",")[-MAX_GUESSES:]:
        side, said, true, accepted = part.split(":")
        guess = Guess(side == "1", float(said) if said else None, float(true), accepted == "1")
        if not 0 <= guess.true_probability <= 1 or not 0 <= (guess.probability or 0) <= 1:
            raise ValueError
        out.append(guess)
    return tuple(out)


_KEYS = {
    "target": "p", "draft": "q", "rule": "rule", "other": "other", "k": "k", "order": "order",
    "temperature": "T", "seed": "seed", "step": "step", "typed": "r", "one": "u", "draws": "n",
    "view": "view", "lesson": "lesson", "card": "card", "reveal": "shown", "answer": "answer",
    "predict": "predict", "guesses": "guesses", "room": "room", "total": "total", "share": "share",
    "depth": "depth", "draft_step": "draftcost", "extra_token": "tokencost",
}  # fmt: skip
_FLAG: Callable[[str, LabState], bool] = lambda text, state: bool(_whole(0, 1)(text, state))  # noqa: E731
_READERS: dict[str, Callable[[str, LabState], Any]] = {
    "rule": _choice(RULES),
    "other": _choice(RULES),
    "k": _whole(1, 10**9),
    "order": _read_order,
    "temperature": _real(0, MAX_TEMPERATURE),
    "seed": _whole(0, MAX_SEED),
    "step": _whole(0, COLUMNS),
    "typed": _read_typed,
    "one": _real(0, 1 - 1e-12),
    "draws": _whole(0, EXPERIMENTS[-1]),
    "view": _choice(VIEWS),
    "lesson": _whole(0, 7),
    "card": _whole(1, 12),
    "reveal": _FLAG,
    "answer": _whole(0, 9),
    "predict": _FLAG,
    "guesses": _read_guesses,
    "room": _FLAG,
    "total": _whole(1, 10),
    "share": _real(0, 1),
    "depth": _whole(0, 12),
    "draft_step": _real(0, 1),
    "extra_token": _real(0, 1),
}
_WRITERS: dict[str, Callable[[Any], str]] = {
    name: {
        "order": lambda order: ",".join(str(token) for token in order),
        "typed": lambda typed: ",".join(f"{column}:{_number(draw)}" for column, draw in typed),
        "guesses": _write_guesses,
    }.get(name, lambda value: str(int(value)) if isinstance(value, bool | int) else (
        value if isinstance(value, str) else _number(value)))
    for name in _READERS
}  # fmt: skip
