"""Hundreds of hostile values, by the endpoints, the page's events, links and model names.

Each ends in a result or in one plain sentence: no traceback, no hang, no markup that runs, no file
outside the cache, no request to any address but the hub's. Files are in ``test_hostile_traces.py``,
HTTP bodies in ``test_hostile_http.py``.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import api, embed, lab_query, session
from app.ask import settings_from
from app.crowd import CrowdRunner
from app.gallery import Gallery
from app.limits import Limits
from app.live import run_events
from app.policy import ANY, NotAllowedError, Policy
from app.runner import Runner
from app.session import Visit
from app.view import render
from eagle import hub
from eagle.builtin import LoadError
from eagle.settings import Settings, SettingsError
from eagle.text import encode
from tests.hostile import RUN, asked, examples, is_a_sentence, runs_nothing, texts, values
from tests.tiny import byte_tokenizer, tiny_pair

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def served() -> CrowdRunner:
    return CrowdRunner(Runner(lambda say: tiny_pair()), Limits(runs_per_minute=10**5))


@pytest.fixture(scope="module")
def live(served: CrowdRunner) -> api.Live:
    return api.Live(served)


# Prompts and settings


@examples(40)
@given(prompt=st.one_of(texts, values))
def test_any_prompt_is_answered(live: api.Live, prompt: Any) -> None:
    asked(live.generate, prompt, "eagle2", 0.7, 1.0, 0, 1, 3, "2/2/2")


@examples(40)
@given(
    text=st.text(st.sampled_from(list("ab <|>end_imstar\n")), min_size=1, max_size=30), special=st.booleans()
)
def test_typed_special_tokens_stay_text(text: str, special: bool) -> None:
    typed = f"{text}<|end|>{text}" if special else text
    if typed.strip():
        tokenizer = byte_tokenizer()
        assert tokenizer.eos_token_id not in encode(tokenizer, typed).token


NAMES = ("method", "temperature", "top_p", "top_k", "seed", "max_new_tokens", "tree")
GOOD = ("eagle2", 0.7, 1.0, 0, 1, 3, "2/2/2")


@examples(80)
@given(place=st.integers(0, len(NAMES) - 1), value=values)
def test_any_setting_is_answered(live: api.Live, place: int, value: Any) -> None:
    given_values = list(GOOD)
    given_values[place] = value
    asked(live.decode, "Hi", *given_values)


@examples(60)
@given(changes=st.dictionaries(st.sampled_from([*NAMES, "total", "depth", "width"]), values, max_size=3))
def test_any_form_of_the_page_is_answered(changes: dict[str, Any]) -> None:
    form = (
        dict(zip(NAMES, GOOD, strict=True)) | {"total": 2, "depth": 2, "width": 2, "tree": "custom"} | changes
    )
    try:
        assert isinstance(settings_from(form), Settings)
    except SettingsError as error:
        is_a_sentence(str(error))


@examples(12)
@given(prompt=texts)
def test_any_prompt_on_the_page_ends_with_a_note(served: CrowdRunner, prompt: str) -> None:
    asked_for = Settings(seed=1, max_new_tokens=3, tree="2/2/2", temperature=0.7)
    last = list(run_events(served, prompt, asked_for, "me", compare=False))[-1]
    assert last.over
    is_a_sentence(last.note)
    assert "did not foresee" not in last.note


# Rules without a model


@examples(80)
@given(target=values, draft=values, rule=st.one_of(st.sampled_from(["eagle2", "eagle1"]), values))
def test_any_distribution_and_rule_is_answered(target: Any, draft: Any, rule: Any) -> None:
    asked(api.law, target, draft, rule, 1, None)


@examples(60)
@given(k=values, order=values, draws=st.one_of(st.integers(-5, 500), values), seed=values)
def test_any_number_of_draws_is_answered(k: Any, order: Any, draws: Any, seed: Any) -> None:
    asked(api.simulate, [0.5, 0.3, 0.2], None, "eagle2", k, order, draws, seed)


@examples(40)
@given(
    weights=st.lists(st.floats(0, 1e300, allow_subnormal=True), min_size=2, max_size=8),
    rule=st.sampled_from(["eagle2", "eagle1", "chain", "misreading", "vanilla"]),
    k=st.integers(1, 8),
)
def test_a_law_that_is_answered_sums_to_1_and_a_sound_one_is_the_targets(
    weights: list[float], rule: Any, k: int
) -> None:
    total = sum(weights)
    if total <= 0 or total == float("inf"):
        return
    p = [weight / total for weight in weights]
    given_law = asked(api.law, p, p[::-1], rule, min(k, len(p)), None)
    if given_law is not None:
        assert sum(given_law["law"]) == pytest.approx(1, abs=1e-9)
        assert not given_law["sound"] or given_law["total_variation"] < 1e-9


# Links and events


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Gallery:
    folder = tmp_path_factory.mktemp("traces")
    (folder / "first.json").write_text(RUN.to_json())
    return Gallery(folder)


KEYS = ["run", "step", "node", "view", "shown", "cut", "act", "by", "key", "theme"]
WORDS = [
    "first",
    "1",
    "-1",
    "9" * 20,
    "by",
    "view",
    "node",
    "story",
    "key",
    "cut",
    "draft",
    "NaN",
    "1e9",
    "0x1",
]


@examples(40)
@given(
    query=st.dictionaries(
        st.one_of(st.sampled_from(KEYS), texts), st.one_of(texts, st.sampled_from(WORDS)), max_size=6
    )
)
def test_any_link_to_an_embedded_run_is_drawn(gallery: Gallery, query: dict[str, str]) -> None:
    document = embed.page(gallery, query, "plotly.js")
    assert document.count("<script") == 3
    document.encode()
    made = json.loads(document.split('id="state">')[1].split("</script>", maxsplit=1)[0])
    for markup in made["markup"].values():
        runs_nothing(markup)


@pytest.fixture(scope="module")
def drawn() -> set[session.Look]:
    """What was selected and drawn already: most events change nothing."""
    return set()


@examples(60)
@given(event=st.dictionaries(st.sampled_from(KEYS), values, max_size=5))
def test_any_event_of_the_page_selects_something(drawn: set[session.Look], event: dict[str, Any]) -> None:
    look = session.act(RUN, session.opening(RUN), event)
    if look not in drawn:
        render(Visit(RUN), look, run_too=False)
        drawn.add(look)


@examples(60)
@given(
    pairs=st.lists(
        st.tuples(
            st.one_of(st.sampled_from(["lab.p", "lab.q", "lab.t", "lab.k", "lab.T", "lab.r"]), texts), texts
        ),
        max_size=5,
    )
)
def test_any_link_to_the_lab_opens_it(pairs: list[tuple[str, str]]) -> None:
    query = "&".join(f"{key}={value}" for key, value in pairs)
    state, notes = lab_query.from_query(query)
    assert lab_query.from_query(lab_query.to_query(state))[0] == state
    for note in notes:
        is_a_sentence(note)


# Names of models


names = st.one_of(
    texts,
    st.sampled_from(
        [
            "/etc/passwd",
            "..",
            "../..",
            "owner/../../x",
            "~root",
            "file:///etc/passwd",
            "https://example.org/owner/name",
            "owner/name;rm -rf /",
            "$(id)/x",
            "`id`/x",
            "owner\\name",
            "оwner/name",
            "owner/name\n",
            "owner/name/extra",
            "-owner/name",
            "owner/name@main",
            "a" * 500 + "/b",
            "CON",
            "//server/share",
        ]
    ),
)


@examples(80)
@given(name=names)
def test_no_name_reaches_a_file_or_another_address(name: str) -> None:
    asked_of_hub: list[str] = []

    def never(repo: str, **_: Any) -> str:
        asked_of_hub.append(repo)
        raise OSError("no network in tests")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("huggingface_hub.snapshot_download", never)
        for policy in (
            Policy(),
            Policy(frozenset({"owner/one"})),
            Policy.from_environment({"EAGLE_ALLOWED_MODELS": ANY}),
        ):
            try:
                hub.folder_of(policy.check(name), "target", lambda *_: None)
            except (NotAllowedError, LoadError) as error:
                is_a_sentence(str(error))
            else:
                pytest.fail(f"{name!r} was loaded from a folder")
    for repo in asked_of_hub:
        assert re.fullmatch(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", repo, re.ASCII), repo
