"""What the lab says: rules by name, each trial's formula with its numbers, each event's sentence. Pure.

Plain text, not escaped, unless a function says HTML.
"""

from __future__ import annotations

from app.lab_walk import Walk
from app.labels import quoted
from app.theme import three_digits as short
from eagle.rules import SOUND, RuleName

RULE_NAMES: dict[str, str] = {
    "eagle2": "EAGLE-2 · fixed top-k, q = 1",
    "chain": "Speculative sampling · one drawn",
    "eagle1": "EAGLE-1 · k drawn without replacement",
    "vanilla": "Plain sampling · no draft",
    "misreading": "✗ biased · the misreading p / confidence",
}
SHORT_NAMES: dict[str, str] = {
    "eagle2": "EAGLE-2",
    "chain": "speculative sampling",
    "eagle1": "EAGLE-1",
    "vanilla": "plain sampling",
    "misreading": "the misreading",
}
RULE_SENTENCES: dict[RuleName, str] = {
    "eagle2": "The draft's top k are offered for certain. Accept with the target's current p; a rejected "
    "one is "
    "struck out.",
    "chain": "One token is drawn from the draft. Accept with min(1, p/q); else draw from max(0, p − q), "
    "rescaled.",
    "eagle1": "k tokens are drawn without replacement. Accept with min(1, p/q), q without those drawn "
    "before.",
    "vanilla": "No draft: the token is drawn from the target.",
    "misreading": "A fixed list, judged with min(1, p / confidence) as if it had been drawn. For the "
    "classroom only.",
}


def temperature_sentence(rule: RuleName) -> str:
    """Which bars the temperature moves, and why."""
    if rule in ("chain", "eagle1"):
        return "Temperature moves both."
    if rule == "vanilla":
        return "Temperature moves the target."
    return "Temperature moves the target only."


def is_biased(rule: RuleName) -> bool:
    return rule not in SOUND


def trial_formula(now: Walk, index: int) -> str:
    """The accept probability of a trial with the numbers in it; | where a line may end."""
    trial = now.trials[index]
    x, accept = trial.candidate.token, short(trial.accept)
    if now.state.rule == "eagle2":
        gone = [earlier.candidate.token for earlier in now.trials[:index]]
        if not gone:
            return f"p = {accept}"
        parts = " − ".join(short(float(now.p[token])) for token in gone)
        return (
            f"p = {short(float(now.p[x]))} / (1 − {parts})|= {accept}"
            if len(gone) > 2
            else (f"p = {short(float(now.p[x]))} / (1 − {parts}) = {accept}")
        )
    p, q = short(float(trial.before[x])), short(trial.candidate.proposal)
    letter = "confidence" if now.state.rule == "misreading" else "q"
    return f"min(1, p / {letter})|= min(1, {p} / {q}) = {accept}"


def proposal_words(now: Walk, index: int) -> str:
    """With which probability this candidate was put forward, beside its confidence."""
    candidate = now.candidates[index]
    confidence = short(float(now.q[candidate.token]))
    if now.state.rule == "eagle2":
        return f"confidence {confidence}, q = 1"
    if now.state.rule == "misreading":
        return f"confidence {short(candidate.proposal)} taken as q"
    return f"drawn with q = {short(candidate.proposal)}"


def residual_words(now: Walk, index: int) -> str:
    """How what is left after rejecting this trial's candidate is made."""
    trial = now.trials[index]
    if trial.candidate.q is None:
        return f"÷ (1 − {short(trial.accept)}) = ÷ {short(trial.normaliser)}"
    return f"max(0, p − q) ÷ {short(trial.normaliser)}"


def now_sentence(now: Walk) -> str:
    """What has just happened, or what comes first."""
    if now.shown == 0:
        return _before(now)
    event = now.events[now.shown - 1]
    names = now.state.tokens
    if event.kind == "drafted":
        drawn = ", then ".join(quoted(names[candidate.token]) for candidate in now.candidates)
        return f"The draft drew {drawn}. Each will be tested against p / q."
    if event.kind == "trial":
        trial = now.trials[event.index]
        name, accept, r = quoted(names[trial.candidate.token]), short(trial.accept), short(trial.draw)
        if trial.accepted:
            return f"The draw {r} is below {accept}: {name} is accepted, and nothing else is drawn here."
        return f"The draw {r} is not below {accept}: {name} is rejected. What is left grows to fill 1 again."
    final = now.verdict.final
    assert final is not None
    name = quoted(names[final.token])
    if not now.trials:
        return f"Nothing was drafted: the draw {short(final.draw)} picks {name} from the target."
    return f"No candidate is left. The last draw {short(final.draw)} picks {name}, the target's own."


def _before(now: Walk) -> str:
    if now.drawn:
        return "First the draft draws its candidates, each with the probability q that it is given."
    if not now.candidates:
        return "Nothing is drafted: one draw from the target."
    name = quoted(now.state.tokens[now.candidates[0].token])
    if now.state.rule == "misreading":
        return f"{name} is on the list for certain, but it is judged as if it had been drawn: biased."
    return f"{name} is on the draft's list for certain: q = 1, whatever its confidence."


def button_words(now: Walk) -> str:
    """What the main button does next."""
    event = now.next_event
    if event is None:
        return "New draw"
    if event.kind == "drafted":
        return "Let the draft draw" if len(now.candidates) > 1 else "Let the draft draw its candidate"
    if event.kind == "final":
        return "Draw the last token"
    return f"Draw for {quoted(now.state.tokens[now.candidates[event.index].token], 12)}"
