"""Where the host's time of a step goes: torch operators by kind, and Python outside of them.

The same seeded run is decoded twice, once with a plain clock and once under ``torch.profiler``,
which itself costs time at every operator. So what Python takes outside operators has two bounds:
from below the plainly clocked time less the operators' own time as profiled, from above the time
outside operators while profiled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from eagle import decoder, recording
from eagle.host import bring
from eagle.settings import Settings, SettingsError
from eagle.trace import Record

if TYPE_CHECKING:
    from eagle.decoder import Pair, State
    from eagle.trace import PromptTrace

WARM_UP_STEPS = 2
PHASES = ("draft", "verify", "judge", "record")
PRODUCTS, ATTENTION, CHOOSING, MOVING, OTHERS = (
    "products with weights",
    "attention",
    "log-softmax, top-k, sort",
    "indexing and copies",
    "entry by entry",
)
PYTHON = "Python outside operators"
GROUPS = (PRODUCTS, ATTENTION, CHOOSING, OTHERS, MOVING, PYTHON)
_NAMES = {
    PRODUCTS: ("linear", "_linear_pointwise", "addmm", "mm", "matmul", "_weight_int8pack_mm"),
    ATTENTION: ("bmm", "baddbmm", "softmax", "_softmax", "scaled_dot_product"),
    CHOOSING: ("log_softmax", "_log_softmax", "topk", "sort", "argsort", "argmax", "max", "amax", "unique"),
    MOVING: (
        *("cat", "index", "select", "slice", "copy_", "clone", "contiguous", "reshape", "view", "expand"),
        *("transpose", "permute", "empty", "zeros", "ones", "eye", "full", "arange", "to", "_to_copy", "new"),
        *("resize", "as_strided", "narrow", "repeat", "unsqueeze", "squeeze", "t", "split", "chunk", "fill_"),
        *("detach", "gather", "scatter", "embedding", "flatten", "alias", "unbind", "lift_fresh", "item"),
        *("_reshape_alias", "_local_scalar_dense", "numpy"),
    ),
}


class StepProfile(Record):
    """Means over ``steps`` steps, in milliseconds.

    ``ms[group][phase]``: operators' own time, and for the last group Python's lower bound.
    ``clocked`` is a phase without the profiler; ``python_at_most`` Python's upper bound by phase.
    """

    what: str
    steps: int
    nodes: float
    ms: dict[str, dict[str, float]]
    clocked: dict[str, float]
    python_at_most: dict[str, float]

    @property
    def step_ms(self) -> float:
        """A step without the profiler, its record not counted, as in tokens per second."""
        return sum(self.clocked[phase] for phase in PHASES if phase != "record")

    @property
    def python_ms(self) -> tuple[float, float]:
        """Bounds of what Python takes outside operators, the record not counted."""
        least = sum(ms for phase, ms in self.ms[PYTHON].items() if phase != "record")
        return least, sum(ms for phase, ms in self.python_at_most.items() if phase != "record")


def profile_step(pair: Pair, prompt: PromptTrace, settings: Settings, what: str) -> StepProfile:
    """Both runs. SettingsError where the answer ends before enough steps are made."""
    _run(pair, prompt, settings, lambda _: _nothing())  # warm
    clocked = dict.fromkeys(PHASES, 0.0)

    @contextmanager
    def clock(phase: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        clocked[phase] += 1000 * (time.perf_counter() - began)

    steps, nodes = _run(pair, prompt, settings, clock)
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        _run(pair, prompt, settings, lambda phase: record_function(_mark(phase)))
    ms, outside = _by_group_and_phase(list(seen.events()))
    for phase in PHASES:
        clocked[phase] /= steps
        outside[phase] /= steps
        for group in GROUPS:
            ms[group][phase] /= steps
        operators = sum(ms[group][phase] for group in GROUPS if group != PYTHON)
        ms[PYTHON][phase] = max(0.0, clocked[phase] - operators)
    return StepProfile(
        what=what, steps=steps, nodes=nodes / steps, ms=ms, clocked=clocked, python_at_most=outside
    )


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def _mark(phase: str) -> str:
    return f"phase {phase}"


def _run(pair: Pair, prompt: PromptTrace, settings: Settings, phase: Callable[[str], Any]) -> tuple[int, int]:
    """The decoder's loop with each phase inside ``phase(name)``, warm-up steps without: steps and nodes."""
    state = decoder.start(pair, prompt, settings)
    decoder.prefill(state, settings)
    counted = nodes = 0
    for number in range(settings.max_new_tokens):
        if state.finish is not None:
            break
        counts = number >= WARM_UP_STEPS
        nodes_here = _step(state, settings, phase if counts else lambda _: _nothing())
        counted, nodes = counted + counts, nodes + nodes_here * counts
    if not counted:
        raise SettingsError(f"The answer ended within {WARM_UP_STEPS} steps: ask for more new tokens.")
    return counted, nodes


def _step(state: State, settings: Settings, phase: Callable[[str], Any]) -> int:
    with phase("draft"):
        drafted = decoder.drafting(state, settings)
    with phase("verify"):
        logits, features = decoder.read(state, drafted)
        drafted, rows = bring(drafted, logits, settings, "in the profiled step")
    with phase("judge"):
        walk = decoder.judge(state, drafted, rows)
        decoder.commit(state, walk, features)
    with phase("record"):
        recording.step(state, drafted, rows, walk, recording.times(0.0, 0.0, 0.0, 0.0))
    return len(drafted.tokens) if drafted else 0


def _by_group_and_phase(events: list[Any]) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """Operators' own milliseconds, and each phase's outside operators, summed over all steps."""
    ms = {group: dict.fromkeys(PHASES, 0.0) for group in GROUPS}
    outside = dict.fromkeys(PHASES, 0.0)
    for event in events:
        phase = _phase_of(event)
        if phase is None:
            continue
        own = event.self_cpu_time_total / 1000
        if event.name == _mark(phase):
            outside[phase] += own
        else:
            ms[group_of(event.name)][phase] += own
    return ms, outside


def _phase_of(event: Any) -> str | None:
    """The phase that an event lies in; None outside of all."""
    at = event
    while at is not None:
        if at.name.startswith("phase "):
            return str(at.name).removeprefix("phase ")
        at = at.cpu_parent
    return None


def group_of(operator: str) -> str:
    """The kind of an operator such as ``aten::bmm``."""
    name = operator.rpartition("::")[2]
    for group, names in _NAMES.items():
        if name in names or any(name.startswith(f"{known}_") for known in names if len(known) > 3):
            return group
    return OTHERS


def threads() -> int:
    """Threads that torch computes with."""
    return torch.get_num_threads()
