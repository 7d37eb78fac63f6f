"""Named endpoints for programs: /decode (it streams), /generate, /compare, /law, /simulate, /audit.

For ``gradio_client``, for curl, and as tools of the MCP server. What is wrong with a request comes
back as one plain sentence. Runs stand in the same line as the page's; the other three need no model
and never wait for it.
"""

# No "from __future__ import annotations" here: gradio reads the types of results from the functions.

import inspect
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Literal

import gradio as gr

from app import api_rules, faults
from app.crowd import LIVE_AT_ONCE, REPEAT_MARK
from app.runner import RunSource, vanilla_of
from eagle.settings import Settings
from eagle.trace import RunTrace

MethodName = Literal["eagle2", "vanilla", "chain", "eagle1"]
RuleWord = Literal["eagle2", "misreading", "chain", "eagle1", "vanilla"]
Answer = dict[str, Any]
WITHOUT_MODEL_AT_ONCE = 8
# What every parameter means, wherever it appears; :func:`answering` puts it under the endpoint's description.
PARAMETERS = {
    "prompt": "The question or text to go on from, up to 32,000 characters.",
    "method": "eagle2 (dynamic draft tree), eagle1, chain, or vanilla (no draft).",
    "temperature": "From 0 (always the most likely token) to 2.",
    "top_p": "Keep the most likely tokens that together have this probability; above 0, at most 1.",
    "top_k": "Keep only so many most likely tokens; 0 keeps all.",
    "seed": "A whole number from 0 to 4294967295, or null for a fresh one, which is returned.",
    "max_new_tokens": "The most tokens to add.",
    "tree": 'TOTAL/DEPTH/WIDTH of the draft tree, such as 12/4/4, or "auto" or "paper".',
    "with_trace": "Whether the whole record comes too, as the page saves it and /audit reads it.",
    "target": "The target's probabilities, 2 to 64 numbers that sum to 1 (2 to 8 for chain and eagle1).",
    "draft": "The draft's probabilities, as many; null takes the target's.",
    "rule": "eagle2, misreading, chain, eagle1 or vanilla.",
    "k": "How many candidates are offered.",
    "order": "For eagle2 and misreading a fixed list of positions instead of the draft's top k.",
    "draws": "How many, up to 100,000.",
    "trace": "The JSON text of a saved run, or the object it stands for.",
}


def build(runner: RunSource) -> None:
    """Adds the endpoints to the open Blocks context."""
    live = Live(runner)
    for function in (live.decode, live.generate, live.compare):
        _add(function, LIVE_AT_ONCE, "model")
    for plain in (law, simulate, audit):
        _add(plain, WITHOUT_MODEL_AT_ONCE, "rules")


def _add(function: Callable[..., Any], at_once: int, line: str) -> None:
    gr.api(answering(function), api_name=function.__name__, concurrency_limit=at_once, concurrency_id=line)


class Live:
    """The endpoints that decode. Their runs stand in ``runner``'s line."""

    def __init__(self, runner: RunSource) -> None:
        self._runner = runner

    def decode(
        self,
        prompt: str,
        method: MethodName = "eagle2",
        temperature: float = 0.7,
        top_p: float = 1.0,
        top_k: int = 0,
        seed: int | None = None,
        max_new_tokens: int = 64,
        tree: str = "12/4/4",
        request: gr.Request | None = None,
    ) -> Iterator[Answer]:
        """Decode a prompt with speculative decoding and stream a full record of every step.

        Each item has a "kind": "waiting" with "words" while other runs come first, then one "step" a
        decoding step with its draft tree, every trial (accept probability, draw, verdict) and the text
        so far, at last "done" with the summary.
        """
        settings = _settings(method, temperature, top_p, top_k, seed, max_new_tokens, tree)
        decoding = self._runner.begin(_text(prompt), settings, _visitor(request))
        for words in decoding.waiting():
            yield {"kind": "waiting", "words": words}
        text = ""
        for step in decoding:
            text += "".join(step.emitted.text)
            yield {"kind": "step", "text": text, "step": step.model_dump(mode="json", exclude_none=True)}
        yield {"kind": "done", **_summary(decoding.trace(), decoding.note)}

    def generate(
        self,
        prompt: str,
        method: MethodName = "eagle2",
        temperature: float = 0.7,
        top_p: float = 1.0,
        top_k: int = 0,
        seed: int | None = None,
        max_new_tokens: int = 64,
        tree: str = "12/4/4",
        with_trace: bool = False,
        request: gr.Request | None = None,
    ) -> Answer:
        """Decode a prompt; give the text with its numbers: τ, tokens per second, target passes, origins."""
        settings = _settings(method, temperature, top_p, top_k, seed, max_new_tokens, tree)
        run, note = self._to_the_end(prompt, settings, _visitor(request))
        whole = {"trace": run.to_json()} if with_trace is True else {}
        return {**_summary(run, note), **whole}

    def compare(
        self,
        prompt: str,
        temperature: float = 0.0,
        seed: int | None = None,
        max_new_tokens: int = 64,
        tree: str = "12/4/4",
        request: gr.Request | None = None,
    ) -> Answer:
        """Decode a prompt with EAGLE-2, then plainly with the same seed and length; give both and a speedup.

        Speeds are measured in these two runs on this server. Overhead ω is τ / speedup - 1.
        """
        settings = _settings("eagle2", temperature, 1.0, 0, seed, max_new_tokens, tree)
        visitor = _visitor(request)
        run, note = self._to_the_end(prompt, settings, visitor)
        plain, plain_note = self._to_the_end(prompt, vanilla_of(settings, run), visitor)
        return compared(run, plain, note, plain_note)

    def _to_the_end(self, prompt: Any, settings: Settings, visitor: str) -> tuple[RunTrace, str]:
        """A whole run, and the note on where it comes from."""
        decoding = self._runner.begin(_text(prompt), settings, visitor)
        for _ in decoding:
            pass
        return decoding.trace(), decoding.note


def law(
    target: list[float],
    draft: list[float] | None = None,
    rule: RuleWord = "eagle2",
    k: int = 1,
    order: list[int] | None = None,
) -> Answer:
    """The exact distribution of the token that an acceptance rule gives, and its distance from the target's.

    For every sound rule the total variation is 0. The misreading (dividing a fixed list's target
    probability by its confidence) is biased: target and draft [0.51, 0.49], k 1, gives 0.49.
    """
    return api_rules.law(target, draft, rule, k, order)


def simulate(
    target: list[float],
    draft: list[float] | None = None,
    rule: RuleWord = "eagle2",
    k: int = 1,
    order: list[int] | None = None,
    draws: int = 10_000,
    seed: int | None = None,
) -> Answer:
    """Draw many tokens under an acceptance rule and test the counts against the target's distribution."""
    return api_rules.simulate(target, draft, rule, k, order, draws, seed)


def audit(trace: str) -> Answer:
    """Derive every verdict of a recorded run again, independently of the decoder, and list what is wrong."""
    return api_rules.audit(trace)


def compared(run: RunTrace, plain: RunTrace, note: str = "", plain_note: str = "") -> Answer:
    """Two runs of one prompt side by side; None where a speed could not be measured."""
    fast, slow = run.tokens_per_s, plain.tokens_per_s
    speedup = fast / slow if fast and slow else None
    greedy = run.settings.temperature == 0
    return {
        "eagle2": _summary(run, note),
        "vanilla": _summary(plain, plain_note),
        "speedup": speedup,
        "overhead": run.tau / speedup - 1 if speedup and run.tau else None,
        "same_tokens": run.token_ids == plain.token_ids[: run.new_tokens] if greedy else None,
    }


def _summary(run: RunTrace, note: str) -> Answer:
    tokens = [
        {"id": token, "text": text, "origin": str(origin), "step": step.index}
        for step in run.steps
        for token, text, origin in zip(
            step.emitted.token, step.emitted.text, step.emitted.origin, strict=True
        )
    ]
    return {
        "text": run.text,
        "tokens": tokens,
        "new_tokens": run.new_tokens,
        "target_passes": run.target_passes,
        "tau": run.tau,
        "tokens_per_s": run.tokens_per_s,
        "finish": str(run.finish),
        "seed": run.seed,
        "settings": run.settings.model_dump(mode="json"),
        "target": run.pair.target.model_dump(),
        "head": run.pair.head.model_dump() if run.pair.head else None,
        "note": note,
    }


def _settings(
    method: Any, temperature: Any, top_p: Any, top_k: Any, seed: Any, max_new_tokens: Any, tree: Any
) -> Settings:
    """Checked settings; SettingsError names what is wrong."""
    values = {"method": method, "temperature": temperature, "top_p": top_p, "top_k": top_k, "seed": seed}
    return Settings(**values, max_new_tokens=max_new_tokens, tree=tree)


def _text(prompt: Any) -> str:
    if not isinstance(prompt, str):
        raise api_rules.AskError(f"prompt must be text, but is of type {type(prompt).__name__}.")
    return prompt


def _visitor(request: gr.Request | None) -> str:
    """A name for this call: its session's, so that limits hold, and a number, so that calls are apart."""
    session = getattr(request, "session_hash", None) or "nobody"
    return f"{session}{REPEAT_MARK}{uuid.uuid4().hex[:12]}"


def answering(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as an endpoint: faults are gradio errors of one sentence, results are objects.

    Its parameters are described as :data:`PARAMETERS` has it.
    """
    if inspect.isgeneratorfunction(function):

        @wraps(function)
        def stream(*args: Any, **kwargs: Any) -> Iterator[Answer]:
            with _faults_told():
                yield from function(*args, **kwargs)

        answer: Callable[..., Any] = stream
    else:

        @wraps(function)
        def once(*args: Any, **kwargs: Any) -> Answer:
            with _faults_told():
                return function(*args, **kwargs)

        answer = once
    typed = inspect.signature(function).replace(return_annotation=Answer)
    answer.__signature__ = typed  # type: ignore[attr-defined]
    lines = [f"    {name}: {PARAMETERS[name]}" for name in typed.parameters if name in PARAMETERS]
    answer.__doc__ = "\n".join([inspect.getdoc(function) or "", "", "Args:", *lines])
    return answer


@contextmanager
def _faults_told() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise gr.Error(faults.sentence(error), print_exception=False) from None
