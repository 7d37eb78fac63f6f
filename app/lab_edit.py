"""What an action does to the lab's state: (state, action) -> (state, note). Pure.

An action is a small mapping from the page, ``{"do": "weight", "which": "target", "i": 0, "v": ".7"}``.
It is checked as hostile: what makes no sense changes nothing, and the note says why in one sentence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from app import lab_recorded, labels, lessons
from app.lab_query import from_query
from app.lab_state import (
    COLUMNS,
    DEFAULT,
    EXPERIMENTS,
    FINAL_COLUMN,
    MAX_NAME,
    MAX_TEMPERATURE,
    MAX_TOKENS,
    MIN_TOKENS,
    TEST_COLUMN,
    VIEWS,
    Guess,
    LabState,
    clean_names,
    scaled,
    tidy,
)
from app.lab_walk import Event, walk
from app.theme import three_digits
from eagle.rules import RULES
from eagle.settings import MAX_SEED

Action = Mapping[str, Any]
Edited = tuple[LabState, str]


class LabError(ValueError):
    """An action that can't be done; the message is the sentence that the visitor reads."""


def apply(state: LabState, action: Action) -> Edited:
    """The state after an action, and a note (empty when there is nothing to say)."""
    do = _HANDLERS.get(str(action.get("do")))
    if do is None:
        return state, "The lab does not know that action, so nothing changed."
    try:
        after, note = do(state, action)
    except LabError as error:
        return state, str(error)
    return tidy(after), note


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


def _whole(action: Action, key: str, low: int, high: int, what: str) -> int:
    value = number(action.get(key), low, high, what)
    if value != int(value):
        raise LabError(f"{what} is a whole number from {low} to {high}, so nothing changed.")
    return int(value)


def _index(state: LabState, action: Action) -> int:
    return _whole(action, "i", 0, len(state.tokens) - 1, "The token's place")


def _one_of(action: Action, key: str, options: tuple[Any, ...], what: str) -> Any:
    value = action.get(key)
    if value not in options:
        raise LabError(f"There is no such {what}, so nothing changed.")
    return value


# The two distributions.


def _weight(state: LabState, action: Action) -> Edited:
    """One probability set by hand; the others keep their proportions, and the sum stays 1."""
    which = _one_of(action, "which", ("target", "draft"), "distribution")
    i = _index(state, action)
    value = number(action.get("v"), 0, 1, "A probability")
    old = getattr(state, which)
    if abs(value - old[i]) < 5e-7:
        return state, ""
    return replace(state, **{which: spread(old, i, value)}), _what_moved(state, which, i, value)


def spread(old: tuple[float, ...], i: int, value: float) -> tuple[float, ...]:
    """old with entry i at ``value`` and the others scaled to 1 - value (shared evenly if all were 0)."""
    others = sum(old) - old[i]
    left = 1.0 - value
    if others > 0:
        new = [entry * left / others for entry in old]
    else:
        new = [left / (len(old) - 1)] * len(old)
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


def _name(state: LabState, action: Action) -> Edited:
    i = _index(state, action)
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


def _add(state: LabState, _action: Action) -> Edited:
    """One more token, at a tenth of each distribution."""
    if len(state.tokens) >= MAX_TOKENS:
        raise LabError(f"The lab takes at most {MAX_TOKENS} tokens.")
    used = set(state.tokens)
    name = next(word for word in (*lessons.SPARE_NAMES, *"abcdefghij") if word not in used)
    target = scaled([*(0.9 * value for value in state.target), 0.1])
    draft = scaled([*(0.9 * value for value in state.draft), 0.1])
    note = f"{labels.quoted(name)} came in with .1; all others were multiplied by .9."
    return replace(state, tokens=(*state.tokens, name), target=target, draft=draft), note


def _remove(state: LabState, action: Action) -> Edited:
    i = _index(state, action)
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


def _copy(state: LabState, action: Action) -> Edited:
    """The draft becomes the target's equal, or the other way round."""
    which = _one_of(action, "which", ("target", "draft"), "distribution")
    other = "draft" if which == "target" else "target"
    return replace(state, **{which: getattr(state, other)}), f"The {which} is now equal to the {other}."


# The rule.


def _rule(state: LabState, action: Action) -> Edited:
    rule = _one_of(action, "v", RULES, "rule")
    other = state.other if rule != state.other else state.rule
    return replace(state, rule=rule, other=other, step=0), ""


def _other(state: LabState, action: Action) -> Edited:
    return replace(state, other=_one_of(action, "v", RULES, "rule")), ""


def _k(state: LabState, action: Action) -> Edited:
    k = _whole(action, "v", 1, 10**9, "k")
    size = len(state.tokens)
    note = f"There are only {size} tokens, so k is {size}." if k > size else ""
    return replace(state, k=min(k, size), order=(), step=0), note


def _order(state: LabState, action: Action) -> Edited:
    """The siblings' order: the draft's own, reversed, or one moved ahead by a place."""
    how = _one_of(action, "v", ("draft", "reverse", "ahead"), "order")
    if how == "draft":
        return replace(state, order=(), step=0), ""
    listed = state.fixed_list("eagle2") or []
    if how == "reverse":
        listed = listed[::-1]
    else:
        i = _whole(action, "i", 1, max(1, len(listed) - 1), "The place")
        listed[i - 1], listed[i] = listed[i], listed[i - 1]
    return replace(state, order=tuple(listed), step=0), ""


def _temperature(state: LabState, action: Action) -> Edited:
    value = number(action.get("v"), 0, MAX_TEMPERATURE, "The temperature")
    return replace(state, temperature=round(value, 6)), ""


# One draw.


def _next(state: LabState, _action: Action) -> Edited:
    """One event further; past the end a new draw is ready, and not yet begun."""
    now = walk(state)
    if now.finished:
        return _new(state, {})
    return replace(state, step=now.shown + 1), ""


def _back(state: LabState, _action: Action) -> Edited:
    return replace(state, step=max(0, walk(state).shown - 1)), ""


def _new(state: LabState, _action: Action) -> Edited:
    return replace(state, seed=(state.seed + 1) % (MAX_SEED + 1), step=0, typed=()), ""


def _seed(state: LabState, action: Action) -> Edited:
    seed = _whole(action, "v", 0, MAX_SEED, "The seed")
    return replace(state, seed=seed, step=0, typed=()), ""


def _draw(state: LabState, action: Action) -> Edited:
    """A draw set by hand: "what if the die had shown .7?" Its event is then on screen."""
    column = _whole(action, "column", 0, COLUMNS - 1, "The draw's place")
    value = number(action.get("v"), 0, 1, "A draw")
    if value >= 1:
        raise LabError("A draw is below 1: the die shows numbers from 0 up to, but not, 1.")
    typed = dict(state.typed)
    typed[column] = round(value, 6)
    after = replace(state, typed=tuple(sorted(typed.items())))
    now = walk(after)
    if column < TEST_COLUMN:
        return replace(after, step=max(1, now.shown)), ""
    event = Event("final") if column == FINAL_COLUMN else Event("trial", column - TEST_COLUMN)
    if event in now.events:
        after = replace(after, step=max(now.shown, now.events.index(event) + 1))
    return after, ""


def _guess(state: LabState, action: Action) -> Edited:
    """A prediction before a trial; the verdict follows at once."""
    now = walk(state)
    event = now.next_event
    if event is None or event.kind != "trial":
        return _next(state, action)
    said = str(action.get("v") or "").strip()
    probability = number(said, 0, 1, "A probability") if said else None
    trial = now.trials[event.index]
    guess = Guess(action.get("side") == "accept", probability, float(f"{trial.accept:.4g}"), trial.accepted)
    return replace(state, guesses=(*state.guesses, guess), step=now.shown + 1), ""


def _predict(state: LabState, _action: Action) -> Edited:
    return replace(state, predict=not state.predict, guesses=(), step=0), ""


# Lessons, presets, panels.


def _card(state: LabState, action: Action) -> Edited:
    """Another card: the next or previous one, or one by number."""
    move = action.get("v")
    if move in ("next", "previous"):
        lesson, card = lessons.neighbour(state.lesson, state.card, 1 if move == "next" else -1)
    else:
        lesson = _whole(action, "lesson", 0, lessons.MISREADING_PAGES, "The lesson")
        card = _whole(action, "card", 1, len(lessons.cards_of(lesson)), "The card")
    keep = state.guesses if lesson == state.lesson else ()
    after = lessons.open_card(lesson, card, room=state.room, predict=state.predict, guesses=keep)
    return lab_recorded.on_real_node(after) if lessons.page(after).stage == "recorded" else (after, "")


def _preset(state: LabState, action: Action) -> Edited:
    i = _whole(action, "v", 1, len(lessons.PRESETS), "The preset")
    return lessons.open_card(lessons.PRESET_PAGES, i, room=state.room, predict=state.predict), ""


def _misreading(state: LabState, action: Action) -> Edited:
    i = _whole(action, "v", 1, len(lessons.cards_of(lessons.MISREADING_PAGES)), "The misreading")
    after = lessons.open_card(lessons.MISREADING_PAGES, i, room=state.room, predict=state.predict)
    return replace(after, view="misreadings"), ""


def _reveal(state: LabState, action: Action) -> Edited:
    answer = _whole(action, "v", 0, 9, "The answer") if "v" in action else state.answer
    shown = True if "v" in action else not state.reveal
    return replace(state, reveal=shown, answer=answer), ""


def _view(state: LabState, action: Action) -> Edited:
    return replace(state, view=_one_of(action, "v", VIEWS, "panel")), ""


def _experiment(state: LabState, action: Action) -> Edited:
    n = _whole(action, "v", 1, EXPERIMENTS[-1], "The number of draws")
    return replace(state, draws=n, view="experiment"), ""


def _one(state: LabState, action: Action) -> Edited:
    value = number(action.get("v"), 0, 1, "u")
    return replace(state, one=min(round(value, 6), 1 - 1e-6)), ""


def _room(state: LabState, _action: Action) -> Edited:
    return replace(state, room=not state.room), ""


def _dial(state: LabState, action: Action) -> Edited:
    """The dials of the lessons on trees and on speed."""
    ranges = {
        "total": (1, 10),
        "share": (0, 1),
        "depth": (0, 12),
        "draft_step": (0, 1),
        "extra_token": (0, 1),
    }
    name = _one_of(action, "which", tuple(ranges), "dial")
    low, high = ranges[name]
    value = number(action.get("v"), low, high, "That dial")
    return replace(state, **{name: int(value) if name in ("total", "depth") else round(value, 6)}), ""


def _open(_state: LabState, action: Action) -> Edited:
    """A link, or distributions handed over by another tab."""
    state, notes = from_query(str(action.get("query", "")))
    return state, " ".join(notes)


def _reset(state: LabState, _action: Action) -> Edited:
    return replace(DEFAULT, room=state.room), ""


_HANDLERS: dict[str, Callable[[LabState, Action], Edited]] = {
    "weight": _weight, "name": _name, "add": _add, "remove": _remove, "copy": _copy,
    "rule": _rule, "other": _other, "k": _k, "order": _order, "temperature": _temperature,
    "next": _next, "back": _back, "new": _new, "seed": _seed, "draw": _draw,
    "guess": _guess, "predict": _predict, "card": _card, "preset": _preset,
    "misreading": _misreading, "reveal": _reveal, "view": _view,
    "experiment": _experiment, "one": _one, "room": _room, "dial": _dial, "open": _open, "reset": _reset,
}  # fmt: skip
