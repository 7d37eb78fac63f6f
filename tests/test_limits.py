"""What a visitor may ask for, what is remembered, what is told, and which models may be named."""

from __future__ import annotations

import pytest

from app import faults
from app.limits import LimitError, Limits, RateLimit, ResultCache
from app.live import run_events
from app.policy import ANY, VARIABLE, NotAllowedError, Policy
from eagle.settings import Settings
from tests.gated import RUN, SEEDED, Clock, GatedRunner, crowd

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
