"""The named endpoints as programs see them: gradio's own client, plain HTTP, the MCP tools' descriptions."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from app import api, api_rules
from app.api_rules import AskError
from app.limits import Limits
from app.replay import ReplayRunner
from eagle import rules
from eagle.audit import audit as findings_of
from eagle.trace import Origin, RunTrace, StepTrace
from tests.serving import answer, call, serving
from tests.synthetic import synthetic_run

pytestmark = pytest.mark.slow

ENDPOINTS = {"/decode", "/generate", "/compare", "/law", "/simulate", "/audit"}
SMALL = {"max_new_tokens": 12, "tree": "4/2/2"}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving() as address:
        yield address


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[Any]:
    from gradio_client import Client

    made = Client(url, verbose=False)
    yield made
    made.close()


# Described


def test_the_named_endpoints_are_exactly_these_with_types_for_every_parameter(url: str) -> None:
    described = httpx.get(f"{url}/gradio_api/info").json()["named_endpoints"]
    assert set(described) == ENDPOINTS
    for name, endpoint in described.items():
        assert len(endpoint["description"]) > 40, name
        for parameter in endpoint["parameters"]:
            assert parameter["type"], (name, parameter)
        assert endpoint["returns"][0]["type"] == {"type": "object", "additionalProperties": {}}, name
    method = next(p for p in described["/decode"]["parameters"] if p["parameter_name"] == "method")
    assert method["type"]["enum"] == ["eagle2", "vanilla", "chain", "eagle1"]


LIVE = api.Live(ReplayRunner(synthetic_run(seed=3)))


@pytest.mark.parametrize(
    "function", [LIVE.decode, LIVE.generate, LIVE.compare, api.law, api.simulate, api.audit]
)
def test_every_parameter_has_a_sentence(function: Any) -> None:
    from gradio.utils import get_function_description

    description, parameters, _ = get_function_description(api.answering(function))
    assert len(description) > 40
    parameters.pop("request", None)
    assert parameters and all(len(words) > 10 for words in parameters.values()), parameters


# Runs


def test_decode_streams_a_step_at_a_time_and_ends_with_the_summary(client: Any) -> None:
    items = list(client.submit("Hi there", seed=5, api_name="/decode", **SMALL))
    steps = [StepTrace.model_validate(item["step"]) for item in items if item["kind"] == "step"]
    done = items[-1]
    assert [step.index for step in steps] == list(range(len(steps)))
    assert done["kind"] == "done"
    assert done["new_tokens"] == 12 == sum(len(step.emitted) for step in steps)
    assert [token["id"] for token in done["tokens"]] == [t for step in steps for t in step.emitted.token]
    assert {token["origin"] for token in done["tokens"]} <= {str(origin) for origin in Origin}
    assert items[-2]["text"] == done["text"]
    assert done["seed"] == 5


def test_the_same_by_plain_http(url: str) -> None:
    events = call(url, "decode", {"prompt": "Hi there", "seed": 5, **SMALL})
    assert events[-1][0] == "complete"
    kinds = [data[0]["kind"] for kind, data in events if kind == "generating"]
    assert set(kinds[:-1]) == {"step"}
    assert kinds[-1] == "done"
    assert StepTrace.model_validate(events[0][1][0]["step"]).index == 0


def test_generate_gives_the_text_and_on_request_the_whole_record(client: Any) -> None:
    made = client.predict("Hi there", seed=5, with_trace=True, api_name="/generate", **SMALL)
    run = RunTrace.from_json(made["trace"])
    assert findings_of(run) == []
    assert run.text == made["text"]
    assert run.prompt.text == "Hi there"
    assert made["tau"] == run.tau
    again = client.predict("Hi there", seed=5, api_name="/generate", **SMALL)
    assert "decoded before" in again["note"]
    assert again["tokens"] == made["tokens"]
    assert "trace" not in again
    other = client.predict("Hi there", seed=6, api_name="/generate", **SMALL)
    assert other["tokens"] != made["tokens"]


def test_compare_measures_both_and_at_temperature_0_they_agree(client: Any) -> None:
    made = client.predict("Hi there", seed=1, api_name="/compare", **SMALL)
    assert made["same_tokens"] is True
    assert made["vanilla"]["tau"] == 1
    assert made["vanilla"]["new_tokens"] == made["eagle2"]["new_tokens"]
    assert made["speedup"] == pytest.approx(made["eagle2"]["tokens_per_s"] / made["vanilla"]["tokens_per_s"])
    assert made["overhead"] == pytest.approx(made["eagle2"]["tau"] / made["speedup"] - 1)
    assert client.predict("Hi", 0.7, 1, api_name="/compare", **SMALL)["same_tokens"] is None


def test_every_method_runs_by_its_name(client: Any) -> None:
    for method in ("eagle2", "vanilla", "chain", "eagle1"):
        made = client.predict("Hi", method=method, seed=2, api_name="/generate", **SMALL)
        assert made["settings"]["method"] == method
        assert made["new_tokens"] == 12


# Laws


def test_the_misreading_is_biased_by_point_49_and_the_rule_by_0(client: Any) -> None:
    wrong = client.predict([0.51, 0.49], rule="misreading", api_name="/law")
    assert wrong["law"] == [1.0, 0.0]
    assert wrong["total_variation"] == pytest.approx(0.49)
    assert not wrong["sound"]
    right = client.predict([0.51, 0.49], api_name="/law")
    assert right["law"] == pytest.approx([0.51, 0.49], abs=1e-12)
    assert right["accepted"] == pytest.approx(0.51)


@pytest.mark.parametrize("rule", rules.RULES)
def test_the_law_is_the_rules_own(rule: Any) -> None:
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])
    given = api_rules.law(p.tolist(), q.tolist(), rule, 2, None)
    assert given["law"] == pytest.approx(rules.law(rule, p, q, 2).tolist(), abs=1e-12)
    assert given["sound"] == (rule != "misreading")


def test_simulate_counts_come_from_the_law_and_the_seed(client: Any) -> None:
    asked: dict[str, Any] = {"draft": [0.2, 0.2, 0.6], "k": 2, "draws": 20_000, "seed": 3}
    one = client.predict([0.5, 0.3, 0.2], api_name="/simulate", **asked)
    assert sum(one["counts"]) == 20_000
    assert one["p_value"] > 0.001
    assert one["total_variation"] < 3 * one["total_variation_by_chance"]
    assert one == client.predict([0.5, 0.3, 0.2], api_name="/simulate", **asked)
    wrong = client.predict([0.5, 0.3, 0.2], rule="misreading", api_name="/simulate", **asked)
    assert wrong["p_value"] < 1e-6
    fresh = api_rules.simulate([0.5, 0.5], None, "eagle2", 1, None, 100, None)
    assert api_rules.simulate([0.5, 0.5], None, "eagle2", 1, None, 100, fresh["seed"]) == fresh


def test_simulate_in_batches_is_simulate_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = api_rules.simulate([0.5, 0.3, 0.2], None, "chain", 1, None, 5000, 9)
    monkeypatch.setattr(api_rules, "BATCH_ENTRIES", 3 * 700)
    assert api_rules.simulate([0.5, 0.3, 0.2], None, "chain", 1, None, 5000, 9) == whole


def test_audit_finds_nothing_in_a_run_and_names_an_altered_draw(client: Any) -> None:
    made = client.predict("Hi", temperature=1.0, seed=4, with_trace=True, api_name="/generate", **SMALL)
    good = client.predict(made["trace"], api_name="/audit")
    assert good["ok"]
    assert good["steps"] == len(RunTrace.from_json(made["trace"]).steps)
    data = json.loads(made["trace"])
    trial = next(trial for step in data["steps"] for trial in step.get("trials", []))
    trial["draw"] = (trial["draw"] + 0.5) % 1
    bad = client.predict(json.dumps(data), api_name="/audit")
    assert not bad["ok"]
    assert bad["findings"]


# What can't be answered


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("generate", {"prompt": ""}, "The prompt is empty"),
        ("generate", {"prompt": 7}, "prompt must be text"),
        ("generate", {"prompt": "a", "temperature": 9}, "temperature must be a number from 0 to 2, but is 9"),
        ("generate", {"prompt": "a", "method": "magic"}, "method must be one of vanilla"),
        ("generate", {"prompt": "a", "max_new_tokens": 4000}, "at most 512 on this server"),
        ("decode", {"prompt": "a", "tree": "1/2"}, "tree must be 'paper', 'auto' or TOTAL/DEPTH/WIDTH"),
        ("decode", {"prompt": "a", "tree": "auto"}, "needs this machine's costs"),
        ("compare", {"prompt": "a", "seed": -1}, "seed must be a whole number"),
        ("law", {"target": [0.5, 0.6]}, "target must sum to 1, but sums to 1.1"),
        ("law", {"target": [0.5, 0.5], "rule": "magic"}, "rule must be one of"),
        ("law", {"target": [0.5, 0.5], "k": 3}, "k must be a whole number from 1 to 2"),
        ("law", {"target": [0.5, 0.5], "order": [0, 0]}, "different positions"),
        ("simulate", {"target": [0.5, 0.5], "draws": 10**9}, "draws must be a whole number from 1 to 100000"),
        ("audit", {"trace": "{}"}, "This is not a trace"),
        ("audit", {"trace": "[" * 100_000}, "This is not a trace"),
    ],
)
def test_a_bad_request_gets_one_sentence(url: str, name: str, data: dict[str, Any], says: str) -> None:
    error = answer(url, name, data)["error"]
    assert says in error
    assert "Traceback" not in error
    assert "\n" not in error


def test_what_nobody_foresaw_is_told_in_one_sentence_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(ReplayRunner):
        def begin(self, *_: Any) -> Any:
            raise KeyError("/home/someone/secret")

    with serving(Broken(synthetic_run(seed=3))) as address, caplog.at_level(logging.ERROR):
        error = answer(address, "generate", {"prompt": "a"})["error"]
    assert "did not foresee" in error
    assert "someone" not in error
    assert "someone" in caplog.text


def test_the_rate_is_limited_by_session_and_told() -> None:
    from gradio_client import Client

    from app.crowd import CrowdRunner

    runner = CrowdRunner(ReplayRunner(synthetic_run(seed=3)), Limits(runs_per_minute=2))
    with serving(runner) as address:
        me, you = Client(address, verbose=False), Client(address, verbose=False)
        for seed in (1, 2):
            me.predict("a", seed=seed, api_name="/generate")
        with pytest.raises(Exception, match="2 runs within a minute"):
            me.predict("a", seed=3, api_name="/generate")
        you.predict("a", seed=3, api_name="/generate")
        me.close()
        you.close()


# Values without a server


@pytest.mark.parametrize(
    ("target", "draft", "rule", "k", "order"),
    [
        ("0.5", None, "eagle2", 1, None),
        ([1], None, "eagle2", 1, None),
        ([0.5, True], None, "eagle2", 1, None),
        ([0.5, float("nan")], None, "eagle2", 1, None),
        ([0.5, 10**400], None, "eagle2", 1, None),
        ([0.5, 0.5], [1.0], "eagle2", 1, None),
        ([0.5, 0.5], None, ["eagle2"], 1, None),
        ([0.5, 0.5], None, None, 1, None),
        ([0.5, 0.5], None, "eagle2", True, None),
        ([0.5, 0.5], None, "eagle2", 10**9, None),
        ([0.5, 0.5], None, "eagle2", 1, "01"),
        ([0.5, 0.5], None, "eagle2", 1, [5]),
        ([0.5, 0.5], None, "chain", 1, [0]),
        ([0.5, 0.5], [1.0, 0.0], "misreading", 1, [1]),
        ([1 / 64] * 65, None, "eagle2", 1, None),
        ([1 / 9] * 9, None, "eagle1", 2, None),
    ],
)
def test_values_that_no_rule_takes_are_named(target: Any, draft: Any, rule: Any, k: Any, order: Any) -> None:
    with pytest.raises(AskError) as caught:
        api_rules.law(target, draft, rule, k, order)
    assert len(str(caught.value)) < 250
