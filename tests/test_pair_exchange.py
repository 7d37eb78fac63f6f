"""The pair that decodes here: what is offered, how one is exchanged, and what a failure leaves."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from dataclasses import replace
from threading import Event
from typing import Any

import pytest

from app import cli, pair_choice, pair_menu
from app.crowd import CrowdRunner
from app.pair_choice import BUILT_IN, BUILT_IN_INT8, PairChoice
from app.pair_holder import NoPairError, PairHolder, State
from app.policy import ANY, KNOWN, VARIABLE, NotAllowedError, Policy
from app.replay import ReplayRunner
from app.runner import Runner
from eagle.builtin import LoadError
from eagle.memory import TooLargeError
from eagle.pairs import known_pairs
from eagle.settings import Method, Settings
from tests.synthetic import synthetic_run
from tests.tiny import tiny_pair

pytestmark = pytest.mark.slow


def named(name: str) -> Any:
    """A tiny pair whose target has a name of its own."""
    pair = tiny_pair()
    target = pair.info.target.model_copy(update={"name": name})
    return replace(pair, info=pair.info.model_copy(update={"target": target}))


class Choice(PairChoice):
    """A pair that is made by a function, not fetched."""

    def __init__(self, make: Callable[[], Any]) -> None:
        super().__init__("a choice")
        object.__setattr__(self, "make", make)

    def load(self, say: Any) -> Any:
        say("loading it", 0.5)
        return self.make()  # type: ignore[attr-defined]


def raises(error: Exception) -> Callable[[], Any]:
    def make() -> Any:
        raise error

    return make


def holder_of(name: str = "first") -> PairHolder:
    holder = PairHolder(lambda say: named(name))
    holder.pair()
    return holder


def target_of(holder: PairHolder) -> str:
    return holder.pair().info.target.name


def test_another_pair_takes_the_place_and_the_old_one_is_freed() -> None:
    holder = holder_of()
    old = weakref.ref(holder.pair())
    seen = list(holder.exchange(Choice(lambda: named("second"))))
    assert target_of(holder) == "second"
    assert holder.status().words == "second is ready."
    assert {status.state for status in seen} <= {State.LOADING, State.READY}
    gc.collect()
    assert old() is None


def test_a_pair_that_can_not_be_loaded_leaves_the_old_one() -> None:
    holder = holder_of()
    before = holder.pair()
    with pytest.raises(NoPairError, match=r"There is no such model\."):
        list(holder.exchange(Choice(raises(LoadError("There is no such model.")))))
    assert holder.pair() is before
    assert (holder.status().state, holder.status().words) == (State.READY, "first is ready.")
    with pytest.raises(NoPairError) as caught:  # what another library says may hold anything
        list(holder.exchange(Choice(raises(OSError("/root/secret")))))
    assert "secret" not in str(caught.value)
    assert holder.pair() is before


def test_where_both_do_not_fit_the_old_one_is_freed_first() -> None:
    holder = holder_of()
    old = weakref.ref(holder.pair())

    def make() -> Any:
        if old() is not None:
            raise TooLargeError("second needs 9 GB, but 1 GB is free.")
        return named("second")

    list(holder.exchange(Choice(make)))
    assert target_of(holder) == "second"


def test_what_does_not_fit_even_then_brings_the_old_one_back() -> None:
    holder = holder_of()
    with pytest.raises(NoPairError, match="needs 9 GB"):
        list(holder.exchange(Choice(raises(TooLargeError("second needs 9 GB, but 1 GB is free.")))))
    assert target_of(holder) == "first"
    assert holder.status().state is State.READY


def test_an_exchange_waits_for_the_run_in_progress_and_never_touches_it() -> None:
    runner = Runner(lambda say: named("first"))
    running = iter(decoding := runner.begin("Hi", Settings(max_new_tokens=12, seed=1, tree="8/3/3"), "me"))
    next(running)
    exchange = runner.exchange(Choice(lambda: named("second")))
    assert next(exchange).words == "Waiting for the run in progress to end…"
    for _ in running:
        pass
    assert decoding.trace().pair.target.name == "first"
    assert decoding.trace().new_tokens == 12
    list(exchange)
    assert target_of(runner.holder) == "second"


def test_a_run_that_waits_takes_the_pair_that_is_there_at_its_turn() -> None:
    runner = Runner(lambda say: named("first"))
    waiting = runner.begin("Hi", Settings(max_new_tokens=4, seed=1, tree="8/3/3"), "me")
    list(runner.exchange(Choice(lambda: named("second"))))
    for _ in waiting:
        pass
    assert waiting.trace().pair.target.name == "second"


def test_one_exchange_at_a_time() -> None:
    holder, go_on = holder_of(), Event()

    def make() -> Any:
        assert go_on.wait(20)
        return named("second")

    first = holder.exchange(Choice(make))
    next(first)
    with pytest.raises(NoPairError, match="being exchanged right now"):
        next(holder.exchange(Choice(lambda: named("third"))))
    go_on.set()
    list(first)
    assert target_of(holder) == "second"


def test_runs_of_one_pair_are_not_remembered_for_another() -> None:
    crowd = CrowdRunner(Runner(lambda say: named("first")))
    settings = Settings(max_new_tokens=4, seed=1, tree="8/3/3")
    for _ in (run := crowd.begin("Hi", settings, "me")):
        pass
    assert run.trace().pair.target.name == "first"
    list(crowd.exchange(Choice(lambda: named("second"))))
    for _ in (run := crowd.begin("Hi", settings, "me")):
        pass
    assert run.note == ""
    assert run.trace().pair.target.name == "second"


# What is offered


def test_a_closed_server_offers_its_own_pair_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EAGLE_TARGET", raising=False)
    assert pair_choice.offered(Policy()) == [BUILT_IN]


def test_known_pairs_are_offered_where_both_ids_are_allowed() -> None:
    everything = pair_choice.offered(Policy.from_environment({VARIABLE: KNOWN}))
    assert everything[:2] == [BUILT_IN, BUILT_IN_INT8]
    assert [choice.label for choice in everything[2:]] == [pair.label for pair in known_pairs()]
    assert all("GB" in choice.label for choice in everything[2:])
    one = known_pairs()[0]
    both = Policy.from_environment({VARIABLE: f"{one.target},{one.head}"})
    assert [choice.target for choice in pair_choice.offered(both)[2:]] == [one.target]
    assert pair_choice.offered(Policy.from_environment({VARIABLE: one.target}))[2:] == []


def test_a_typed_pair_is_held_against_the_list() -> None:
    policy = Policy.from_environment({VARIABLE: ANY})
    assert pair_choice.typed(policy, " owner/target ", "owner/head").head == "owner/head"
    assert pair_choice.typed(policy, "owner/target", " ").head is None
    for target, head in (("/etc/passwd", ""), ("owner/target", "../head"), ("", "")):
        with pytest.raises(NotAllowedError):
            pair_choice.typed(policy, target, head)


def test_the_operators_pair_comes_from_the_environment() -> None:
    assert pair_choice.first({}) == BUILT_IN
    own = pair_choice.first({"EAGLE_TARGET": "/models/mine", "EAGLE_HEAD": "me/head"})
    assert (own.target, own.head, own.weights) == ("/models/mine", "me/head", "fp32")
    assert "/models" not in own.label
    assert pair_choice.first({"EAGLE_WEIGHTS": "int8"}).weights == "int8"


def test_only_a_page_that_its_owner_alone_reaches_offers_the_known_pairs_by_itself() -> None:
    assert cli.parse([], {}).variables() == {VARIABLE: KNOWN}
    assert cli.parse(["--host", "0.0.0.0"], {}).variables() == {}
    assert cli.parse([], {"GRADIO_SERVER_NAME": "0.0.0.0"}).variables() == {}
    assert cli.parse([], {"SPACE_ID": "me/demo"}).variables() == {}
    assert cli.parse([], {VARIABLE: "a/b"}).variables() == {}
    chosen = cli.parse(["--target", "a/b", "--head", "c/d", "--weights", "int8", "--models", ANY], {})
    assert chosen.variables() == {
        "EAGLE_TARGET": "a/b",
        "EAGLE_HEAD": "c/d",
        "EAGLE_WEIGHTS": "int8",
        VARIABLE: ANY,
    }


# What the page says


def test_the_panel_tells_the_progress_and_then_the_facts() -> None:
    runner = Runner(lambda say: named("first"))
    runner.pair()
    told = list(pair_menu.exchange(runner, Policy(), Choice(lambda: named("<b>second</b>")), "", ""))
    status, note = told[-1]
    assert "second" in note and "fault" not in note
    facts = pair_menu.pair_facts(status)
    assert "&lt;b&gt;second" in facts and "<b>second" not in facts
    assert "million parameters" in facts
    assert pair_menu.method_update(status)["value"] == "eagle2"


def test_the_panel_says_what_was_wrong_and_what_it_keeps() -> None:
    runner = Runner(lambda say: named("first"))
    runner.pair()
    (_, note), *_ = [*pair_menu.exchange(runner, Policy(), None, "owner/name", "")][-1:]
    assert "is not a model that this server loads" in note and "The page keeps first." in note
    told = list(pair_menu.exchange(runner, Policy(), Choice(raises(LoadError("It is gated."))), "", ""))
    assert "It is gated. The page keeps first." in told[-1][1]
    (_, note), *_ = [*pair_menu.exchange(ReplayRunner(synthetic_run(seed=1)), Policy(), BUILT_IN, "", "")]
    assert "only shows recorded runs" in note


def test_the_method_menu_offers_what_the_pair_can_run() -> None:
    runner = Runner(lambda say: replace(tiny_pair(), head=None))
    runner.pair()
    update = pair_menu.method_update(runner.status())
    assert [value for _, value in update["choices"]] == ["vanilla"]
    runner = Runner(lambda say: tiny_pair())
    runner.pair()
    assert Method.EAGLE3 not in runner.status().methods
    assert set(runner.status().methods) == {Method.VANILLA, Method.CHAIN, Method.EAGLE1, Method.EAGLE2}
