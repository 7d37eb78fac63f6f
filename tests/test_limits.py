"""Many visitors and one model: the line and its cap, the limits, what is remembered, who frees the model."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from app import faults
from app.crowd import REPEAT_MARK, CrowdRunner, RunFailedError, Turn
from app.limits import LimitError, Limits, RateLimit, ResultCache, StoppedError
from app.line import Line
from app.live import run_events
from app.policy import ANY, VARIABLE, NotAllowedError, Policy
from app.pair_holder import PairStatus, State
from app.replay import ReplayRunner
from eagle.settings import Method, Settings
from eagle.text import PromptError
from eagle.trace import Finish, RunTrace, StepTrace
from tests.synthetic import synthetic_run

RUN = synthetic_run(seed=3, steps=6)
PLAIN = synthetic_run(seed=4, steps=9, tree="1/1/1")
SEEDED = Settings(seed=7)
PATIENCE = 10.0  # seconds after which a test gives up on a thread


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class GatedRunner(ReplayRunner):
    """Replays, but a step is made only when the test lets it; counts the runs and steps it really made."""

    def __init__(self, run: RunTrace = RUN) -> None:
        super().__init__(run, PLAIN)
        self.gate = threading.Semaphore(0)
        self.made = threading.Semaphore(0)
        self.begun: list[tuple[str, Settings, str]] = []
        self.open = 0
        self.contexts: list[str] = []

    def begin(self, prompt: str, settings: Settings, visitor: str) -> Any:
        self.begun.append((prompt, settings, visitor))
        return _Gated(super().begin(prompt, settings, visitor), self)

    def let(self, steps: int = 10_000) -> None:
        self.gate.release(steps)


class _Gated:
    note = ""

    def __init__(self, inner: Any, owner: GatedRunner) -> None:
        self.inner, self.owner = inner, owner

    def waiting(self) -> Iterator[str]:
        return iter(())

    def __iter__(self) -> Iterator[StepTrace]:
        self.owner.contexts.append(VISITOR.get())
        self.owner.open += 1
        assert self.owner.open == 1, "two runs have the model"
        try:
            for step in self.inner:
                assert self.owner.gate.acquire(timeout=PATIENCE)
                self.owner.made.release()
                yield step
        finally:
            self.owner.open -= 1

    def trace(self) -> RunTrace:
        return self.inner.trace()


VISITOR = contextvars.ContextVar("VISITOR", default="nobody")


def crowd(runner: Any = None, clock: Any = None, **limits: int) -> CrowdRunner:
    return CrowdRunner(runner or GatedRunner(), replace(Limits(), **limits), clock or Clock())


def until(condition: Any) -> None:
    """Waits for something that another thread is about to do."""
    pause = threading.Event()
    for _ in range(int(PATIENCE / 0.01)):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError("it did not happen")


# The line


def test_the_line_is_first_come_first_served_with_a_cap_and_an_estimate() -> None:
    clock = Clock()
    line = Line(most_waiting=2, clock=clock)
    first, second, third = line.join(), line.join(), line.join()
    assert [ticket.place() for ticket in (first, second, third)] == [0, 1, 2]
    assert first.wait(0)
    assert not second.wait(0)
    with pytest.raises(LimitError, match=r"2 visitors are waiting already.*recorded run"):
        line.join()
    assert "2 runs are before yours, about 16 s" in line.words(third)
    clock.now += 28  # the first run takes 28 s, so the usual time moves from 8 s towards it
    first.leave()
    first.leave()
    assert second.wait(0)
    assert "one run is before yours, about 14 s" in line.words(third)
    second.leave()
    third.leave()
    assert len(line) == 0
    assert third.place() == -1
    assert not third.wait(0)


def test_the_second_half_of_a_turn_comes_right_after_the_run_that_has_the_model() -> None:
    line = Line(most_waiting=1)
    first, second = line.join(), line.join()
    half = line.join(next_up=True)
    assert [ticket.place() for ticket in (first, half, second)] == [0, 1, 2]


def test_leaving_the_middle_of_the_line_moves_the_others_up() -> None:
    line = Line(most_waiting=5)
    first, second, third = line.join(), line.join(), line.join()
    second.leave()
    assert third.place() == 1
    assert first.place() == 0


# Runs through the line


def test_one_run_at_a_time_and_each_gets_its_own_steps() -> None:
    runner = GatedRunner()
    served = crowd(runner)
    turns = [served.begin(f"prompt {i}", SEEDED, f"visitor {i}") for i in range(3)]
    got: dict[int, list[StepTrace]] = {}

    def take(index: int) -> None:
        got[index] = list(turns[index])

    threads = [threading.Thread(target=take, args=(i,)) for i in (2, 1, 0)]
    for thread in threads:
        thread.start()
    runner.let()
    for thread in threads:
        thread.join(PATIENCE)
    assert got == dict.fromkeys(range(3), RUN.steps)
    assert [turn.trace().prompt.text for turn in turns] == ["prompt 0", "prompt 1", "prompt 2"]


def test_those_who_wait_are_told_their_place() -> None:
    served = crowd()
    first = served.begin("a", SEEDED, "a")
    second = served.begin("b", SEEDED, "b")
    assert next(iter(first.waiting()), None) is None
    assert "one run is before yours" in next(second.waiting())
    served.stop("a")
    served.stop("b")
    until(lambda: len(served.line) == 0)


def test_a_full_line_says_so_and_what_to_do_instead() -> None:
    served = crowd(most_waiting=1)
    served.begin("a", SEEDED, "a")
    served.begin("b", SEEDED, "b")
    with pytest.raises(LimitError, match="open a recorded run"):
        served.begin("c", SEEDED, "c")
    last = list(run_events(served, "c", SEEDED, "c", False))[-1]
    assert last.fault
    assert "Try a recorded run" in last.note


def test_stop_frees_the_model_within_a_step() -> None:
    runner = GatedRunner()
    served = crowd(runner)
    turn = served.begin("a", SEEDED, "a")
    steps = iter(turn)
    runner.let(2)
    assert [next(steps), next(steps)] == RUN.steps[:2]
    served.stop("somebody else")
    served.stop("a")
    until(lambda: len(served.line) == 0)
    assert list(steps) == []
    assert turn.trace().finish is Finish.STOPPED
    assert runner.open == 0
    assert len(served.remembered) == 0, "a run that was cut short is not remembered"


def test_a_consumer_that_goes_away_frees_the_model() -> None:
    runner = GatedRunner()
    served = crowd(runner)
    steps = iter(served.begin("a", SEEDED, "a"))
    runner.let(1)
    next(steps)
    steps.close()  # type: ignore[attr-defined]
    until(lambda: len(served.line) == 0)


def test_a_consumer_that_is_merely_forgotten_loses_its_lease() -> None:
    clock, runner = Clock(), GatedRunner()
    served = crowd(runner, clock, lease_s=1)
    forgotten = iter(served.begin("a", SEEDED, "a"))
    waiting = served.begin("b", SEEDED, "b")
    runner.let(1)
    next(forgotten)
    clock.now += 0.9
    assert waiting._ticket.place() == 1  # type: ignore[attr-defined]
    clock.now += 0.2
    until(lambda: len(served.line) <= 1)
    clock.now += 2  # nobody asks for the second one either
    until(lambda: len(served.line) == 0)
    assert runner.made.acquire(timeout=PATIENCE)
    assert not runner.made.acquire(timeout=0), "no step was made that nobody asked for"


def test_a_run_stopped_in_the_line_says_so_without_a_fault() -> None:
    served = crowd()
    served.begin("a", SEEDED, "a")
    events = run_events(served, "b", SEEDED, "b", compare=True)
    next(events)
    assert "before yours" in next(events).note
    served.stop("b")
    last = list(events)[-1]
    assert last.over
    assert not last.fault
    assert last.note == "The run was stopped before its turn came."


def test_a_second_run_of_the_same_browser_replaces_the_first() -> None:
    runner = GatedRunner()
    served = crowd(runner)
    first = served.begin("a", SEEDED, "me")
    second = served.begin("b", SEEDED, "me")
    runner.let()
    assert list(second) == RUN.steps
    with pytest.raises(StoppedError):
        list(first)


def test_calls_of_one_program_wait_beside_each_other_up_to_a_number() -> None:
    served = crowd(GatedRunner())
    for call in range(4):
        served.begin("a", SEEDED, f"me{REPEAT_MARK}{call}")
    with pytest.raises(LimitError, match="4 runs in the line"):
        served.begin("a", SEEDED, f"me{REPEAT_MARK}5")
    served.stop("me")
    until(lambda: len(served.line) == 0)


def test_plain_decoding_for_the_comparison_is_next_up_and_is_not_counted() -> None:
    runner = GatedRunner()
    served = crowd(runner, runs_per_minute=1)
    runner.let()
    last = list(run_events(served, "a", SEEDED, "me", compare=True))[-1]
    assert not last.fault, last.note
    assert last.visit is not None
    assert last.visit.baseline is not None
    assert [settings.method for _, settings, _ in runner.begun] == [Method.EAGLE2, Method.VANILLA]
    served.begin("b", SEEDED, "one who has the model")
    served.begin("b", SEEDED, "one who waits")
    served._note_last("me", "a", 7)
    half = served.begin("a", SEEDED.model_copy(update={"method": Method.VANILLA, "seed": 7}), "me")
    assert half._ticket.place() == 1  # type: ignore[attr-defined]
    with pytest.raises(LimitError, match="1 runs within a minute"):
        served.begin("a", SEEDED.model_copy(update={"method": Method.VANILLA, "seed": 9}), "me")


def test_the_decoding_thread_carries_the_callers_context() -> None:
    """On ZeroGPU the quota of the visitor who asked is found there."""
    runner = GatedRunner()
    runner.let()
    VISITOR.set("the one who asked")
    list(crowd(runner).begin("a", SEEDED, "a"))
    assert runner.contexts == ["the one who asked"]


class Failing(ReplayRunner):
    """Fails in its third step."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(RUN)
        self.error = error

    def begin(self, prompt: str, settings: Settings, visitor: str) -> Any:
        inner, error = super().begin(prompt, settings, visitor), self.error

        class Broken:
            note = ""

            def __iter__(self) -> Iterator[StepTrace]:
                for count, step in enumerate(inner):
                    if count == 2:
                        raise error
                    yield step

            def trace(self) -> RunTrace:
                return inner.trace()

        return Broken()


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (PromptError("The prompt is too long."), "The prompt is too long."),
        (MemoryError(), "ran out of memory"),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), "ran out of memory"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate"), "ran out of memory"),
        (KeyError("/home/someone/secret"), "did not foresee"),
        (RuntimeError("/home/someone/weights.bin is broken"), "did not foresee"),
    ],
)
def test_a_run_that_fails_says_one_sentence_and_frees_the_model(error: BaseException, says: str) -> None:
    served = crowd(Failing(error))
    last = list(run_events(served, "a", SEEDED, "me", False))[-1]
    assert last.over
    assert last.fault
    assert says in last.note
    assert "someone" not in last.note
    until(lambda: len(served.line) == 0)
    assert error.__traceback__ is None or error.__context__ is None, "its frames would keep every tensor"
    served.inner = ReplayRunner(RUN)
    assert list(served.begin("a", SEEDED, "you")) == RUN.steps, "the next visitor is served"


def test_a_failure_lets_go_of_what_the_run_held() -> None:
    error = MemoryError()
    turn = crowd(Failing(error)).begin("a", SEEDED, "me")
    with pytest.raises(RunFailedError):
        list(turn)
    assert error.__traceback__ is None


# Limits


def test_runs_are_limited_per_session_and_minute_not_per_address() -> None:
    clock = Clock()
    rate = RateLimit(3, clock, most_sessions=2)
    for _ in range(3):
        rate.count("me")
    with pytest.raises(LimitError, match=r"3 runs within a minute.*wait 60 s"):
        rate.count("me")
    rate.count("you")
    clock.now += 61
    rate.count("me")
    rate.count("one more")  # the oldest session is forgotten: the table has a bound
    assert len(rate._starts) == 2


def test_limits_come_from_the_environment() -> None:
    assert Limits.from_environment({}) == Limits()
    assert Limits.from_environment({"EAGLE_MOST_WAITING": "3"}).most_waiting == 3
    for bad in ("0", "-1", "many", "1e3", "9" * 30):
        with pytest.raises(LimitError, match="EAGLE_MOST_WAITING must be a whole number"):
            Limits.from_environment({"EAGLE_MOST_WAITING": bad})


def test_a_run_longer_than_the_server_makes_is_refused() -> None:
    with pytest.raises(LimitError, match="at most 512 on this server, but is 4096"):
        crowd().begin("a", Settings(max_new_tokens=4096), "me")


# What is remembered


def test_the_same_request_is_answered_from_memory_and_says_so() -> None:
    runner = GatedRunner()
    runner.let()
    served = crowd(runner)
    first = list(served.begin("a", SEEDED, "me"))
    again = served.begin("a", SEEDED, "you")
    assert list(again) == first
    assert "decoded before" in again.note
    assert len(runner.begun) == 1
    assert again.trace().prompt.text == "a"
    for prompt, settings in (("b", SEEDED), ("a", Settings(seed=8)), ("a", Settings())):
        assert served.begin(prompt, settings, "other").note == ""
    last = list(run_events(served, "a", SEEDED, "third", False))[-1]
    assert last.note.startswith("Done. Exactly this was decoded before")


def test_a_run_of_another_pair_is_not_taken_for_this_one() -> None:
    cache = ResultCache(10**6)
    cache.put(cache.key("pair one", "a", SEEDED), RUN)
    assert cache.get(cache.key("pair two", "a", SEEDED)) is None
    assert cache.get(cache.key("pair one", "a", SEEDED)) == RUN.model_copy(
        update={"checksum": RUN.content_checksum()}
    )


def test_memory_of_runs_has_a_bound_and_drops_the_least_recently_used() -> None:
    big = ResultCache(10**9)
    big.put("x", RUN)
    cache = ResultCache(int(2.5 * big.bytes))
    for key in ("one", "two"):
        cache.put(key, RUN)
    cache.get("one")
    cache.put("three", RUN)
    assert len(cache) == 2
    assert cache.get("two") is None
    assert cache.get("one") is not None
    assert cache.bytes <= 2.5 * big.bytes


def test_a_fresh_seed_is_never_remembered() -> None:
    cache = ResultCache(10**6)
    assert cache.key("pair", "a", Settings()) is None
    cache.put(None, RUN)
    assert len(cache) == 0


# Sentences


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("The folder /home/ann/models/x is empty.", "The folder …/x is empty."),
        ("C:\\Users\\ann\\cache\\y can not be read", "…/y can not be read"),
        ("~/cache/eagle/z is full", "…/z is full"),
        ("tree must be TOTAL/DEPTH/WIDTH such as 60/6/10", "tree must be TOTAL/DEPTH/WIDTH such as 60/6/10"),
        ("owner/name was not found", "owner/name was not found"),
        ("see https://example.org/a/b", "see https://example.org/a/b"),
        ("https://me:pass@example.org/a", "https://example.org/a"),
        ("token hf_abcdefghijklmnopqrst", "token (a token)"),
        ("one line\nTraceback", "one line"),
    ],
)
def test_a_public_sentence_has_no_folder_token_or_second_line(text: str, shown: str) -> None:
    assert faults.public(text) == shown


def test_the_gpu_quota_of_a_space_is_explained() -> None:
    class QuotaError(Exception):
        title = "ZeroGPU quota exceeded"

    assert "Ask for fewer tokens" in faults.sentence(QuotaError("You have exceeded ..."))


# Models that visitors may name


@pytest.mark.parametrize(
    "name",
    [
        "owner/name",
        "/etc",
        "../x",
        "~/x",
        "https://example.org/x",
        "a/b;rm -rf",
        "оwner/name",
        "x",
        "",
        "a/..",
        ".",
    ],
)
def test_no_model_but_the_built_in_one_is_loaded_for_visitors(name: str) -> None:
    policy = Policy.from_environment({})
    assert not policy.is_open
    with pytest.raises(NotAllowedError):
        policy.check(name)


def test_an_operator_can_list_models_or_open_the_hub_but_never_the_disk() -> None:
    listed = Policy.from_environment({VARIABLE: "owner/one, owner/two"})
    assert listed.check(" owner/one ") == "owner/one"
    with pytest.raises(NotAllowedError, match="offers owner/one, owner/two"):
        listed.check("owner/three")
    open_hub = Policy.from_environment({VARIABLE: ANY})
    assert open_hub.check("owner/name") == "owner/name"
    for name in ("/etc/passwd", "../../x", "owner/..", "name", "оwner/name", "owner/na me", "a/b/c"):
        with pytest.raises(NotAllowedError):
            open_hub.check(name)


def test_the_status_is_the_inner_runners() -> None:
    served = crowd(ReplayRunner(RUN))
    assert served.status() == PairStatus(State.READY, f"{RUN.pair.target.name} is ready.")
    assert isinstance(crowd().begin("a", SEEDED, "a"), Turn)
