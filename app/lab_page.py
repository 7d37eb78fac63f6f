"""The whole lab as one piece of HTML made from its state: question, controls, main screen, panels. Pure."""

from __future__ import annotations

from app import lab_dials, lessons
from app.lab_draw import one_draw
from app.lab_html import button, select, toggle
from app.lab_outcome import law_card
from app.lab_panels import panels, rich
from app.lab_stage import distributions, left_over
from app.lab_state import Guess, LabState
from app.lab_walk import walk
from app.labels import html_text
from app.theme import three_digits

CLOSE = 0.05  # a predicted probability this near counts as right
KEYS = (
    ("space", "next"),
    ("← →", "one step"),
    ("R", "new draw"),
    ("N P", "next, previous card"),
    ("A", "answer"),
    ("1–6", "presets"),
)


def render(state: LabState, note: str = "", before: LabState | None = None) -> str:
    """The page; ``note`` is one sentence on what the last action did, ``before`` the state it came from."""
    css = "lab-page in-class" if state.room else "lab-page"
    stage = lessons.page(state).stage
    said = f'<p class="l-note" role="status">{html_text(note)}</p>' if note else ""
    if stage in ("tree", "speed"):
        main = lab_dials.tree_stage(state) if stage == "tree" else lab_dials.speed_stage(state)
        body = f'<div class="stage-one">{main}</div>'
    else:
        now = walk(state)
        covered = is_covered(state)
        body = (
            f'<div class="stage"><div class="column">{distributions(state, before)}'
            f"{left_over(now)}</div><div "
            f'class="column">{one_draw(now)}</div></div>{law_card(state, now, covered)}'
            f"{_presets(state)}{panels(state)}"
        )
    inner = f"{_PATTERNS}{_head(state)}{said}{body}{_foot(state)}"
    return f'<div class="{css}" data-view="{state.view}">{inner}</div>'


_PATTERNS = (
    '<svg class="patterns" width="0" height="0" aria-hidden="true"><defs>'
    '<pattern id="lab-hatch" width="7" height="7" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)">'
    '<rect width="7" height="7" class="hatch-ground"/><line x1="0" y1="0" x2="0" y2="7" '
    'class="hatch-line"/></pattern>'
    '<pattern id="lab-dots" width="6" height="6" patternUnits="userSpaceOnUse">'
    '<rect width="6" height="6" class="dots-ground"/><circle cx="3" cy="3" r="1" class="dots-dot"/></pattern>'
    "</defs></svg>"
)


def is_covered(state: LabState) -> bool:
    """Whether the exact law waits for an answer."""
    card = lessons.page(state)
    return bool(card.choices) and not card.open and not state.reveal


def is_changed(state: LabState) -> bool:
    """Whether the question's numbers are no longer those on screen."""
    start = lessons.open_card(state.lesson, state.card) if is_page(state) else state
    return any(getattr(state, name) != getattr(start, name) for name in _ASKED_ABOUT)


def is_page(state: LabState) -> bool:
    """Whether there is such a card (a link may name any); real nodes bring their own numbers."""
    return state.card <= len(lessons.cards_of(state.lesson)) and lessons.page(state).stage != "recorded"


_ASKED_ABOUT = ("tokens", "target", "draft", "rule", "k", "order", "temperature")


# The question.


def _head(state: LabState) -> str:
    """Where we are, the question, the answers to choose from, and what is true once one was chosen."""
    card = lessons.page(state)
    choices = "".join(_choice(state, card, i) for i in range(1, len(card.choices) + 1))
    if card.reveal and not state.reveal and state.lesson != lessons.MISREADING_PAGES:
        choices += button("Show the answer", "plain", key="A", do="reveal")
    if choices:
        choices = f'<div class="choices" role="group" aria-label="Your answer">{choices}</div>'
    look = f'<p class="look"><b>Look for:</b> {rich(card.look)}</p>' if card.look else ""
    return (
        f'<header class="question">{_lesson_bar(state)}<h2>{rich(card.question)}</h2>{choices}'
        f"{_answer(state, card)}{look}{_score(state)}</header>"
    )


def _lesson_bar(state: LabState) -> str:
    names = {str(i): f"{i}  {lesson.title}" for i, lesson in enumerate(lessons.LESSONS, 1)}
    chosen = str(state.lesson) if str(state.lesson) in names else ""
    if not chosen:
        label = "Preset" if state.lesson == lessons.PRESET_PAGES else "Misreading on file"
        names = {"": f"{label} {state.card}: {lessons.page(state).title}", **names}
    menu = select("lesson", names, chosen, "lesson-menu", do="card", card=1)
    dots = ""
    if chosen:
        cards = lessons.cards_of(state.lesson)
        for i, card in enumerate(cards, 1):
            here = ' aria-current="step"' if i == state.card else ""
            dots += (
                f'<button type="button" class="dot-btn"{here} title="{html_text(card.title)}" '
                f'data-act=\'{{"do": "card", "lesson": {state.lesson}, "card": {i}}}\' '
                f'aria-label="Card {i}: {html_text(card.title)}">{i}</button>'
            )
    restore = ""
    if is_changed(state):
        restore = button(
            "↺ as the card has it", "l-small plain", do="card", lesson=state.lesson, card=state.card
        )
    moves = restore + button("◀", "icon", key="P", label="Previous card", do="card", v="previous")
    moves += button("Next card ▶", "", key="N", do="card", v="next")
    end = f'<span class="moves">{moves}</span>'
    return f'<div class="lesson-bar">{menu}<span class="dots">{dots}</span>{end}</div>'


def _choice(state: LabState, card: lessons.Card, i: int) -> str:
    mark = ""
    if state.reveal:
        mark = " right" if i == card.right else " wrong" if i == state.answer else ""
    sign = {" right": "✓ ", " wrong": "✗ "}.get(mark, "")
    return toggle(f"{sign}{card.choices[i - 1]}", state.answer == i, f"choice{mark}", do="reveal", v=i)


def _answer(state: LabState, card: lessons.Card) -> str:
    """What is true, once an answer was given or asked for; on file at once."""
    misread = state.lesson == lessons.MISREADING_PAGES
    if not card.reveal or not (state.reveal or misread):
        return ""
    head = "What is true: " if misread else ""
    if state.answer and card.right:
        head = "Right. " if state.answer == card.right else "Not quite. "
    hide = "" if misread else button("hide", "l-small plain", key="A", do="reveal")
    return f'<div class="l-answer"><p><b>{head}</b>{rich(card.reveal)}</p>{hide}</div>'


def _score(state: LabState) -> str:
    """How the predictions of this lesson went; shown on its last card."""
    cards = lessons.cards_of(state.lesson)
    if not state.guesses or (state.card < len(cards) and state.lesson != lessons.PRESET_PAGES):
        return ""
    close, given, sides = score(state.guesses)
    said = f"You made {len(state.guesses)} prediction{'s' if len(state.guesses) != 1 else ''}. "
    if given:
        said += f"{close} of {given} probabilities were within {three_digits(CLOSE)} of the truth. "
    said += f"The verdict came out as you said {sides} times; that part is luck, the probability is not."
    return f'<p class="score" role="status">{html_text(said)}</p>'


def score(guesses: tuple[Guess, ...]) -> tuple[int, int, int]:
    """(probabilities within .05 of the truth, probabilities given, verdicts foretold)."""
    given = [guess for guess in guesses if guess.probability is not None]
    close = sum(
        1 for guess in given if abs((guess.probability or 0) - guess.true_probability) <= CLOSE + 1e-9
    )
    return close, len(given), sum(guess.accept == guess.accepted for guess in guesses)


# Controls.


def _presets(state: LabState) -> str:
    here = state.card if state.lesson == lessons.PRESET_PAGES else 0
    buttons = "".join(
        toggle(preset.title, here == i, "l-small", key=str(i), do="preset", v=i)
        for i, preset in enumerate(lessons.PRESETS, 1)
    )
    label = '<span class="l-small">Try</span>'
    return f'<div class="tool-row presets" role="group" aria-label="Presets">{label}{buttons}</div>'


def _foot(state: LabState) -> str:
    keys = " ".join(f"<span><kbd>{keys}</kbd> {words}</span>" for keys, words in KEYS)
    tools = toggle("predict first", state.predict, "l-small", do="predict")
    tools += toggle("class mode", state.room, "l-small", do="room")
    tools += '<button type="button" class="btn l-small" data-local="copy">copy link</button>'
    tools += '<button type="button" class="btn l-small" data-local="print">print</button>'
    tools += button("start again", "l-small", do="reset")
    return (
        f'<div class="lab-foot"><div class="keys" aria-label="Keyboard">{keys}</div><div>{tools}</div></div>'
    )
