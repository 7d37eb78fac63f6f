"""Methods run one after the other on the same prompt, and the numbers by which they are compared.

Every number of a :class:`Meter` is measured here; what they mean is said once, in its docstring. The
prompt's pass is apart, a first short run of each method warms up and is not counted, and each repeat
starts with another method, so that a machine that slows down slows all of them.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import Field

from eagle.settings import Method, Settings
from eagle.trace import Count, Finish, Milliseconds, Origin, PairInfo, PromptTrace, Record, RunTrace

if TYPE_CHECKING:
    from eagle.bench import Sample
    from eagle.decoder import Pair

WARM_UP_TOKENS = 8
Range = tuple[float, float]


class Stop(Protocol):
    """A flag that another thread may set, such as ``threading.Event``."""

    def is_set(self) -> bool: ...


class LaneStep(Record):
    """One step as a replay needs it: how long it took, and the text of each token it brought."""

    ms: Milliseconds
    text: list[str]
    origin: list[Origin]


class Lane(Record):
    """One method's run, the one of median speed; its first entry is the prompt's pass."""

    method: Method
    steps: list[LaneStep]
    finish: Finish


class Meter(Record):
    """One method's numbers over all repeats: medians, with the smallest and the largest of them.

    ``tokens`` and ``passes`` are of one run, the prompt's pass apart. ``speedup`` is the ratio to
    vanilla within each repeat; ``overhead`` is ω = tau / speedup - 1, so a step costs 1 + ω of
    vanilla's (``step_cost``). ``draft_ms``, ``verify_ms`` and ``commit_ms`` are means of a step,
    ``nodes`` the drafted tokens it verified; a step that takes ``break_even_ms`` (tau steps of
    vanilla's) is as fast as vanilla. None where there was no step, or no vanilla to compare with.
    """

    method: Method
    tokens: Count
    passes: Count
    tokens_per_s: float
    tokens_per_s_range: Range
    speedup: float | None
    speedup_range: Range | None
    tau: float | None
    overhead: float | None
    prefill_ms: float
    draft_ms: float | None
    verify_ms: float | None
    commit_ms: float | None
    step_ms: float | None
    break_even_ms: float | None
    nodes: float

    @property
    def step_cost(self) -> float | None:
        """1 + ω: a step's cost in steps of vanilla's."""
        return None if self.overhead is None else 1 + self.overhead

    @property
    def tokens_read(self) -> float:
        """Tokens that the target reads in a step's pass: the root and the drafted ones."""
        return 1 + self.nodes

    def drafting_weighs_more(self, vanilla: Meter) -> bool:
        """Whether a step's extra time over vanilla's goes into drafting more than into the longer pass."""
        return (self.draft_ms or 0.0) >= (self.verify_ms or 0.0) - (vanilla.verify_ms or 0.0)

    def elsewhere(self, overhead: float) -> float | None:
        """A formula, not a measurement: tau / (1 + ω) for this tau and another machine's ω."""
        return None if self.tau is None else self.tau / (1 + overhead)


class Race(Record):
    """A finished race. ``same_text``: every lane emitted the same tokens."""

    pair: PairInfo
    prompt: str
    settings: Settings
    repeats: Count
    lanes: list[Lane]
    meters: list[Meter] = Field(min_length=1)
    same_text: bool
    machine: dict[str, Any]

    def meter(self, method: Method) -> Meter | None:
        """The numbers of a method that took part."""
        return next((meter for meter in self.meters if meter.method is method), None)


class Going(Record):
    """What a race is doing: ``done`` of ``runs`` timed runs are over, and now ``method`` decodes."""

    method: Method
    tokens: Count
    done: Count
    runs: Count
    warming: bool = False


def race(
    pair: Pair,
    prompt: PromptTrace,
    settings: Settings,
    methods: Sequence[Method],
    repeats: int,
    stop: Stop,
) -> Iterator[Going | Race]:
    """Runs the methods and tells how far they are; the last item is the race, unless it was stopped.

    ``settings`` are all methods' but for the method; their seed is one for all. Nothing else should
    use the machine meanwhile: that is the caller's to see to.
    """
    runs: dict[Method, list[RunTrace]] = {method: [] for method in methods}
    total = repeats * len(methods)
    short = min(settings.max_new_tokens, WARM_UP_TOKENS)
    for method in methods:
        yield Going(method=method, tokens=0, done=0, runs=total, warming=True)
        chosen = settings.model_copy(update={"method": method, "max_new_tokens": short})
        if _run(pair, prompt, chosen, stop) is None:
            return
    for turn in range(repeats):
        for place in range(len(methods)):
            method = methods[(turn + place) % len(methods)]
            done = turn * len(methods) + place
            yield Going(method=method, tokens=0, done=done, runs=total)
            run = _run(pair, prompt, settings.model_copy(update={"method": method}), stop)
            if run is None:
                return
            runs[method].append(run)
    yield result(runs)


def _run(pair: Pair, prompt: PromptTrace, settings: Settings, stop: Stop) -> RunTrace | None:
    """One whole run, nothing drawn or sent in between; None when stopped."""
    from eagle import recording
    from eagle.decoder import decode

    steps = []
    for step in decode(pair, prompt, settings):
        steps.append(step)
        if stop.is_set():
            return None
    return recording.run(pair.info, prompt, settings, steps)


def result(runs: dict[Method, list[RunTrace]]) -> Race:
    """The race that these runs of the same prompt make: as many repeats of each method."""
    import torch

    from eagle import bench

    contenders = [_contender(method, made) for method, made in runs.items()]
    rows = {row["method"]: row for row in bench.rows(contenders)}
    vanilla = rows.get(str(Method.VANILLA))
    first = next(iter(runs.values()))[0]
    texts = {tuple(run.token_ids) for made in runs.values() for run in made}
    return Race(
        pair=first.pair,
        prompt=first.prompt.text,
        settings=first.settings,
        repeats=len(next(iter(runs.values()))),
        lanes=[lane(median_run(made)) for made in runs.values()],
        meters=[_meter(method, rows[str(method)], vanilla, made) for method, made in runs.items()],
        same_text=len(texts) == 1,
        machine={"threads": torch.get_num_threads(), "packages": first.packages},
    )


def _contender(method: Method, runs: Sequence[RunTrace]) -> Any:
    from eagle.bench import Contender

    def decoded_before(ids: list[int]) -> Sample:
        raise NotImplementedError

    return Contender(str(method), decoded_before, [[sample_of(run)] for run in runs])


def sample_of(run: RunTrace) -> Sample:
    """A run's tokens and times as the bench counts them: all but the prompt's pass."""
    from eagle.bench import Sample

    steps = [step for step in run.steps if step.index > 0]
    return Sample(
        tokens=sum(len(step.emitted) for step in steps),
        passes=run.target_passes,
        decode_ms=run.decode_ms,
        prefill_ms=run.steps[0].times.total_ms,
        draft_ms=sum(step.times.draft_ms for step in steps),
        verify_ms=sum(step.times.verify_ms for step in steps),
        commit_ms=sum(step.times.commit_ms for step in steps),
    )


def _meter(
    method: Method, row: dict[str, Any], vanilla: dict[str, Any] | None, runs: list[RunTrace]
) -> Meter:
    step_ms = _step_ms(row)
    base_ms = _step_ms(vanilla) if vanilla else None
    trees = [step.tree for run in runs for step in run.steps if step.index > 0]
    tau = row["tau"]
    return Meter(
        method=method,
        tokens=row["new_tokens"],
        passes=row["target_passes"],
        tokens_per_s=row["tokens_per_s"],
        tokens_per_s_range=tuple(row["tokens_per_s_range"]),
        speedup=row["speedup_vs_vanilla"],
        speedup_range=tuple(row["speedup_range"]) if row["speedup_range"] else None,
        tau=tau,
        overhead=row["overhead"],
        prefill_ms=row["prefill_ms"],
        draft_ms=row["draft_ms"],
        verify_ms=row["verify_ms"],
        commit_ms=row["commit_ms"],
        step_ms=step_ms,
        break_even_ms=None if base_ms is None or tau is None else tau * base_ms,
        nodes=statistics.fmean(len(tree) if tree else 0 for tree in trees) if trees else 0.0,
    )


def _step_ms(row: dict[str, Any]) -> float | None:
    parts = [row["draft_ms"], row["verify_ms"], row["commit_ms"]]
    return None if None in parts else float(sum(parts))


def median_run(runs: Sequence[RunTrace]) -> RunTrace:
    """The run of median speed, of two the slower one."""
    return sorted(runs, key=lambda run: run.tokens_per_s or 0.0)[(len(runs) - 1) // 2]


def lane(run: RunTrace) -> Lane:
    """What a replay of the run needs."""
    steps = [
        LaneStep(ms=step.times.total_ms, text=step.emitted.text, origin=step.emitted.origin)
        for step in run.steps
    ]
    return Lane(method=run.settings.method, steps=steps, finish=run.finish)
