"""Many visitors and one model: the line and its cap, who has the model, and who frees it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from app.crowd import REPEAT_MARK, RunFailedError, Turn
from app.limits import LimitError, StoppedError
from app.line import Line
from app.live import run_events
from app.pair_holder import PairStatus, State
from app.replay import ReplayRunner
from eagle.settings import Method, Settings
from eagle.text import PromptError
from eagle.trace import Finish, RunTrace, StepTrace
from tests.gated import PATIENCE, RUN, SEEDED, VISITOR, Clock, GatedRunner, crowd, until

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


@pytest.mark.slow
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


def test_the_status_is_the_inner_runners() -> None:
    served = crowd(ReplayRunner(RUN))
    assert served.status() == PairStatus(State.READY, f"{RUN.pair.target.name} is ready.")
    assert isinstance(crowd().begin("a", SEEDED, "a"), Turn)
