"""The terms of the page, two sentences each, behind the small question marks."""

from __future__ import annotations

from app.labels import html_text

HELP: dict[str, str] = {
    "confidence": (
        "The draft head's own probability of this token, given the path before it. It decides what "
        "is guessed and in which order guesses are offered, and nothing else."
    ),
    "value": (
        "The product of the confidences along the path. The tree keeps the candidates with the highest value."
    ),
    "p": (
        "The target model's probability of this token at this place, after temperature, top-p and "
        "top-k. The answer follows these probabilities exactly."
    ),
    "proposal": (
        "q: the probability with which this candidate was put forward. A top-k list is certain, so "
        "it is 1, whatever the confidence says."
    ),
    "accept": (
        "min(1, p / q), the number the draw is tested against. p is the target's current "
        "probability: rejected siblings are set to 0 and the rest is rescaled to sum to 1."
    ),
    "draw": ("A uniform random number from 0 to 1, from the run's seed. The same seed gives the same draws."),
    "piece": (
        "Lay all remaining probabilities end to end on a bar from 0 to 1. The token whose piece "
        "holds the draw is the one drawn."
    ),
    "tau": (
        "Tokens added per target pass, the target's own token included; the prompt's pass is not "
        "counted. Plain decoding has 1."
    ),
    "vanilla": ("Plain decoding of the same prompt on this machine, one token a pass, with the same code."),
    "residual": (
        "What is left of the target's distribution once rejected tokens are set to 0 and the rest "
        "is rescaled. This is what keeps the answer's law equal to the target's."
    ),
}


def mark(key: str) -> str:
    """A small question mark that opens its two sentences (no script needed)."""
    text = HELP.get(key)
    if text is None:
        return ""
    return (
        f'<span class="help" tabindex="0" role="note" aria-label="{html_text(text)}">?'
        f'<span class="help-text" aria-hidden="true">{html_text(text)}</span></span>'
    )
