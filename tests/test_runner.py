"""Live and recorded runs through one door; a run's events for the page; loading in the background."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from app.live import Event, run_events, sentence
from app.pair_holder import State
from app.replay import ReplayRunner, first_steps
from app.runner import Runner, vanilla_of
from app.session import Source
from eagle.settings import Method, Settings
from eagle.text import PromptError
from eagle.trace import Finish
from tests.synthetic import synthetic_run

RUN = synthetic_run(seed=3, steps=6)


def ticking() -> Callable[[], float]:
    """A clock by which every step takes a second."""
    times = iter(range(10_000))
    return lambda: float(next(times))


def events(runner: Any, prompt: str = "Hi", compare: bool = False, **more: Any) -> list[Event]:
    return list(run_events(runner, prompt, Settings(**more), "me", compare, ticking()))


def test_a_replayed_run_grows_step_by_step_to_the_recorded_one() -> None:
    seen = [event for event in events(ReplayRunner(RUN)) if event.visit is not None]
    assert [len(event.visit.run.steps) for event in seen if event.visit] == [1, 2, 3, 4, 5, 6, 7, 7]
    assert all(event.visit.running for event in seen[:-1] if event.visit)
    last = seen[-1]
    assert last.over
    assert last.visit is not None
    assert last.visit.run.steps == RUN.steps
    assert last.visit.source is Source.LIVE


def test_plain_decoding_is_timed_after_the_run_with_the_same_seed_and_length() -> None:
    asked: list[Settings] = []

    class Watched(ReplayRunner):
        def begin(self, prompt: str, settings: Settings, visitor: str) -> Any:
            asked.append(settings)
            return super().begin(prompt, settings, visitor)

    last = events(Watched(RUN), compare=True)[-1]
    assert last.visit is not None
    assert last.visit.baseline is not None
    assert [one.method for one in asked] == [Method.EAGLE2, Method.VANILLA]
    assert asked[1].seed == RUN.seed
    assert asked[1].max_new_tokens == RUN.new_tokens


def test_pictures_wait_until_plain_decoding_is_timed_too() -> None:
    """Drawing would take the cores that the runs are timed on: only the last event's visit is drawn."""
    seen = [event for event in events(ReplayRunner(RUN), compare=True) if event.visit is not None]
    assert [event.visit.running for event in seen if event.visit] == [True] * (len(seen) - 1) + [False]
    assert seen[-1].over


def test_what_was_decoded_before_a_fault_is_drawn() -> None:
    class Failing(ReplayRunner):
        def begin(self, prompt: str, settings: Settings, visitor: str) -> Any:
            inner = super().begin(prompt, settings, visitor)

            class Run:
                note, waiting, trace = "", inner.waiting, inner.trace

                def __iter__(self) -> Any:
                    yield from list(inner)[:2]
                    raise PromptError("It broke.")

            return Run()

    last = events(Failing(RUN))[-1]
    assert last.over and last.fault and last.note == "It broke."
    assert last.visit is not None and not last.visit.running


def test_a_vanilla_run_is_not_compared_with_itself() -> None:
    last = events(ReplayRunner(RUN), compare=True, method="vanilla")[-1]
    assert last.visit is not None
    assert last.visit.baseline is None


def test_stop_ends_the_run_after_the_step_it_is_in() -> None:
    runner = ReplayRunner(RUN)
    stream = run_events(runner, "Hi", Settings(), "me", False, ticking())
    shown = 0
    for event in stream:
        if event.visit is not None and len(event.visit.run.steps) == 3:
            runner.stop("somebody else")
            runner.stop("me")
        if event.over:
            assert event.visit is not None
            shown = len(event.visit.run.steps)
            assert event.visit.run.finish is Finish.STOPPED
    assert shown == 3


def test_pictures_are_renewed_no_faster_than_they_should() -> None:
    stream = run_events(ReplayRunner(RUN), "Hi", Settings(), "me", False, lambda: 0.0)
    assert sum(event.visit is not None and event.visit.running for event in stream) == 1


@pytest.mark.parametrize("prompt", ["", "   \n", "a\0b", "x" * 50_000, "\ud800"])
def test_a_bad_prompt_ends_with_one_sentence(prompt: str) -> None:
    last = events(ReplayRunner(RUN), prompt)[-1]
    assert last.over
    assert last.fault
    assert last.note.startswith("The prompt")
    assert "\n" not in last.note


def test_what_nobody_foresaw_does_not_reach_the_visitor() -> None:
    class Broken(ReplayRunner):
        def begin(self, prompt: str, settings: Settings, visitor: str) -> Any:
            raise KeyError("/secret/path")

    last = events(Broken(RUN))[-1]
    assert last.fault
    assert "secret" not in last.note
    assert sentence(PromptError("The prompt is empty.")) == "The prompt is empty."


def test_the_first_steps_of_a_run_count_only_themselves() -> None:
    part = first_steps(RUN, 3)
    assert part.new_tokens == sum(len(step.emitted) for step in RUN.steps[:3])
    assert part.target_passes == 2
    assert RUN.text.startswith(part.text)
    assert first_steps(RUN, 7) == RUN


def test_vanilla_settings_keep_what_decides_the_text() -> None:
    asked = Settings(temperature=0.7, top_p=0.9, top_k=5)
    plain = vanilla_of(asked, RUN)
    assert (plain.method, plain.temperature, plain.top_p, plain.top_k) == (Method.VANILLA, 0.7, 0.9, 5)


def test_the_pair_loads_once_in_the_background_and_says_how_far_it_is() -> None:
    may_go_on, called = threading.Event(), []

    def load(say: Callable[[str, float | None], None]) -> Any:
        called.append(1)
        say("downloading the target", 0.25)
        assert may_go_on.wait(10)
        raise OSError("/root/secret")

    runner = Runner(load)
    assert runner.status().state is State.ABSENT
    runner.start_loading()
    runner.start_loading()
    while runner.status().fraction is None:
        pass
    status = runner.status()
    assert (status.state, status.words, status.fraction) == (State.LOADING, "Downloading the target…", 0.25)
    may_go_on.set()
    with pytest.raises(RuntimeError, match="could not be loaded") as caught:
        runner.pair()
    assert "secret" not in str(caught.value)
    assert runner.status().state is State.FAILED
    assert len(called) == 1
