"""What an action does to the lab's state: (state, action) -> (state, note). Pure.

An action is a small mapping from the page, ``{"do": "weight", "which": "target", "i": 0, "v": ".7"}``.
It is checked as hostile: what makes no sense changes nothing, and the note says why in one sentence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from app import lab_recorded, lab_weights, lessons
from app.lab_query import from_query
from app.lab_state import (
    COLUMNS,
    DEFAULT,
    EXPERIMENTS,
    FINAL_COLUMN,
    MAX_TEMPERATURE,
    TEST_COLUMN,
    VIEWS,
    Guess,
    LabState,
    tidy,
)
from app.lab_walk import Event, walk
from app.lab_weights import Action, Edited, LabError, number, one_of, whole
from eagle.rules import RULES
from eagle.settings import MAX_SEED


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


# The rule.


def _rule(state: LabState, action: Action) -> Edited:
    rule = one_of(action, "v", RULES, "rule")
    other = state.other if rule != state.other else state.rule
    return replace(state, rule=rule, other=other, step=0), ""


def _other(state: LabState, action: Action) -> Edited:
    return replace(state, other=one_of(action, "v", RULES, "rule")), ""


def _k(state: LabState, action: Action) -> Edited:
    k = whole(action, "v", 1, 10**9, "k")
    size = len(state.tokens)
    note = f"There are only {size} tokens, so k is {size}." if k > size else ""
    return replace(state, k=min(k, size), order=(), step=0), note


def _order(state: LabState, action: Action) -> Edited:
    """The siblings' order: the draft's own, reversed, or one moved ahead by a place."""
    how = one_of(action, "v", ("draft", "reverse", "ahead"), "order")
    if how == "draft":
        return replace(state, order=(), step=0), ""
    listed = state.fixed_list("eagle2") or []
    if how == "reverse":
        listed = listed[::-1]
    else:
        i = whole(action, "i", 1, max(1, len(listed) - 1), "The place")
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
    seed = whole(action, "v", 0, MAX_SEED, "The seed")
    return replace(state, seed=seed, step=0, typed=()), ""


def _draw(state: LabState, action: Action) -> Edited:
    """A draw set by hand: "what if the die had shown .7?" Its event is then on screen."""
    column = whole(action, "column", 0, COLUMNS - 1, "The draw's place")
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
        lesson = whole(action, "lesson", 0, lessons.MISREADING_PAGES, "The lesson")
        card = whole(action, "card", 1, len(lessons.cards_of(lesson)), "The card")
    keep = state.guesses if lesson == state.lesson else ()
    after = lessons.open_card(lesson, card, room=state.room, predict=state.predict, guesses=keep)
    return lab_recorded.on_real_node(after) if lessons.page(after).stage == "recorded" else (after, "")


def _preset(state: LabState, action: Action) -> Edited:
    i = whole(action, "v", 1, len(lessons.PRESETS), "The preset")
    return lessons.open_card(lessons.PRESET_PAGES, i, room=state.room, predict=state.predict), ""


def _misreading(state: LabState, action: Action) -> Edited:
    i = whole(action, "v", 1, len(lessons.cards_of(lessons.MISREADING_PAGES)), "The misreading")
    after = lessons.open_card(lessons.MISREADING_PAGES, i, room=state.room, predict=state.predict)
    return replace(after, view="misreadings"), ""


def _reveal(state: LabState, action: Action) -> Edited:
    answer = whole(action, "v", 0, 9, "The answer") if "v" in action else state.answer
    shown = True if "v" in action else not state.reveal
    return replace(state, reveal=shown, answer=answer), ""


def _view(state: LabState, action: Action) -> Edited:
    return replace(state, view=one_of(action, "v", VIEWS, "panel")), ""


def _experiment(state: LabState, action: Action) -> Edited:
    n = whole(action, "v", 1, EXPERIMENTS[-1], "The number of draws")
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
    name = one_of(action, "which", tuple(ranges), "dial")
    low, high = ranges[name]
    value = number(action.get("v"), low, high, "That dial")
    fields: dict[str, Any] = {name: int(value) if name in ("total", "depth") else round(value, 6)}
    return replace(state, **fields), ""


def _open(_state: LabState, action: Action) -> Edited:
    """A link, or distributions handed over by another tab."""
    state, notes = from_query(str(action.get("query", "")))
    return state, " ".join(notes)


def _reset(state: LabState, _action: Action) -> Edited:
    return replace(DEFAULT, room=state.room), ""


_HANDLERS: dict[str, Callable[[LabState, Action], Edited]] = {
    "weight": lab_weights.weight,
    "name": lab_weights.name,
    "add": lab_weights.add,
    "remove": lab_weights.remove,
    "copy": lab_weights.copy,
    "rule": _rule,
    "other": _other,
    "k": _k,
    "order": _order,
    "temperature": _temperature,
    "next": _next,
    "back": _back,
    "new": _new,
    "seed": _seed,
    "draw": _draw,
    "guess": _guess,
    "predict": _predict,
    "card": _card,
    "preset": _preset,
    "misreading": _misreading,
    "reveal": _reveal,
    "view": _view,
    "experiment": _experiment,
    "one": _one,
    "room": _room,
    "dial": _dial,
    "open": _open,
    "reset": _reset,
}
