"""Visitors of the load test, each a thread that talks to the server as the page does."""

from __future__ import annotations

import json
import random
import threading
import time
import uuid
from typing import Any

import httpx

from app import session
from eagle.trace import RunTrace
from tests.load.report import Outcome

PATIENCE_S = 120.0
PROMPTS = ("Why is the sky blue?", "Write a short poem.", "Name three fruits.", "What is a prime number?")
SEEDS = (1, 2)
TOKENS = 24


class Visitor(threading.Thread):
    """Comes, looks at the page, then acts and thinks until it is told to stop."""

    kind = ""
    think_s = 3.0

    def __init__(self, url: str, number: int, outcome: Outcome, stop: threading.Event) -> None:
        super().__init__(name=f"visitor-{number}", daemon=True)
        self.url, self.number, self.outcome, self.stop_event = url, number, outcome, stop
        self.session = uuid.uuid4().hex[:11]
        self.random = random.Random(number)
        self.client = httpx.Client(timeout=PATIENCE_S, verify=False)  # plain HTTP: no certificates to read

    def run(self) -> None:
        self.stop_event.wait(self.random.random() * 3)
        try:
            self.timed("page", lambda: self.client.get(self.url + "/").raise_for_status())
            self.arrive()
            while not self.stop_event.wait(self.think_s * (0.5 + self.random.random())):
                self.act()
        except Exception as error:
            self.outcome.error(f"visitor {self.number}: {type(error).__name__}: {error}")
        finally:
            self.client.close()

    def arrive(self) -> None:
        """What the page does when it opens."""

    def act(self) -> None:
        """One thing that the visitor does."""
        raise NotImplementedError

    def timed(self, kind: str, do: Any) -> Any:
        began = time.monotonic()
        answer = do()
        self.outcome.took(kind, time.monotonic() - began)
        return answer


class PageVisitor(Visitor):
    """One who clicks on components of the page."""

    def __init__(
        self, url: str, number: int, outcome: Outcome, stop: threading.Event, config: dict[str, Any]
    ) -> None:
        super().__init__(url, number, outcome, stop)
        self.config = config
        self.ids = {c["props"].get("elem_id"): c["id"] for c in config["components"] if c.get("props")}

    def dependency(self, elem_id: str, event: str) -> dict[str, Any]:
        """The event of a component, by the names that the page uses."""
        wanted = [self.ids[elem_id], event]
        return next(d for d in self.config["dependencies"] if wanted in [list(t) for t in d["targets"]])

    def send(self, elem_id: str, event: str, detail: Any, values: list[Any] | None = None) -> dict[str, Any]:
        found = self.dependency(elem_id, event)
        body = {
            "data": values if values is not None else [None] * len(found["inputs"]),
            "event_data": detail,
            "fn_index": found["id"],
            "session_hash": self.session,
            "trigger_id": self.ids[elem_id],
        }
        answer = self.client.post(f"{self.url}/gradio_api/run/predict", json=body)
        answer.raise_for_status()
        return dict(answer.json())


class RunVisitor(PageVisitor):
    """One who steps through the recorded run of the first paint, and sometimes looks at it embedded."""

    def __init__(
        self,
        url: str,
        number: int,
        outcome: Outcome,
        stop: threading.Event,
        config: dict[str, Any],
        run: RunTrace,
    ) -> None:
        super().__init__(url, number, outcome, stop, config)
        self.steps = range(len(run.steps))
        self.at = session.opening(run).step

    def act(self) -> None:
        # Another step than the one on the page: going where one is changes nothing.
        step = self.random.choice([index for index in self.steps if index != self.at])
        if self.random.random() < 0.2:
            where = f"{self.url}/gradio_api/embed/state?step={step}"
            answer = self.timed("embedded run", lambda: self.client.get(where).raise_for_status().json())
            if answer["query"]["step"] != str(step):
                self.outcome.error(f"asked for step {step}, got {answer['query']['step']}")
            return
        event = {"act": "step", "step": step}
        answer = self.timed("recorded run, a step", lambda: self.send("nav", "act", event))
        if f"step <b>{step}</b> of" not in json.dumps(answer, ensure_ascii=False):
            self.outcome.error(f"visitor {self.number} asked for step {step} and got another")
        self.at = step


class LabVisitor(PageVisitor):
    """One who works in the rule lab: a law of numbers of its own each time, so that nothing is cached."""

    def act(self) -> None:
        first = round(self.random.uniform(0.05, 0.95), 6)
        if self.random.random() < 0.5 and "lab" in self.ids:
            self._in_the_page(first)
            return
        asked = {"target": [first, 1 - first], "rule": "misreading"}
        answer = self.timed("rule lab, a law", lambda: self._call("law", asked))
        if abs(answer["target"][0] - first) > 1e-9:
            self.outcome.error(f"visitor {self.number} got another's law")

    def _in_the_page(self, first: float) -> None:
        body = {
            "component_id": self.ids["lab"],
            "fn_name": "lab_act",
            "session_hash": self.session,
            "data": {"query": f"tab=lab&lab.p={first},{1 - first:.6f}", "action": {"do": "view", "v": "why"}},
        }
        where = f"{self.url}/gradio_api/component_server"
        answer = self.timed(
            "rule lab, an action", lambda: self.client.post(where, json=body).raise_for_status().json()
        )
        if f"{first:.12g}" not in answer["query"]:
            self.outcome.error(f"visitor {self.number} got another's lab: {answer['query']}")

    def _call(self, name: str, asked: dict[str, Any]) -> Any:
        return call(self.client, self.url, name, asked, self.session)[-1]


class LiveVisitor(Visitor):
    """One who asks for live runs and checks that each answer is its own."""

    think_s = 5.0

    def __init__(
        self,
        url: str,
        number: int,
        outcome: Outcome,
        stop: threading.Event,
        expected: dict[str, list[int]],
    ) -> None:
        super().__init__(url, number, outcome, stop)
        self.expected = expected

    def act(self) -> None:
        prompt = self.random.choice(PROMPTS)
        # Half of the runs are nobody's before, so that they are decoded and not remembered.
        known = self.random.random() < 0.5
        seed = self.random.choice(SEEDS) if known else self.random.randrange(1000, 10**9)
        began = time.monotonic()
        try:
            answer = call(self.client, self.url, "generate", asked_run(prompt, seed), self.session)[-1]
        except EndpointError as error:
            if "Try a recorded run" not in str(error):
                self.outcome.error(f"visitor {self.number}: {error}")
            else:
                with self.outcome.guard:
                    self.outcome.full += 1
            return
        remembered = bool(answer["note"])
        self.outcome.took("live, from memory" if remembered else "live, decoded", time.monotonic() - began)
        with self.outcome.guard:
            self.outcome.remembered += remembered
            if known:
                self.outcome.compared += 1
                tokens = [token["id"] for token in answer["tokens"]]
                self.outcome.mixed += tokens != self.expected[f"{prompt} {seed}"]
            elif answer["seed"] != seed:
                self.outcome.mixed += 1


def asked_run(prompt: str, seed: int) -> dict[str, Any]:
    return {"prompt": prompt, "seed": seed, "max_new_tokens": TOKENS, "temperature": 0.7, "tree": "8/4/4"}


def expected_runs(url: str) -> dict[str, list[int]]:
    """The solo runs: every known prompt and seed, decoded while nobody else is there."""
    found = {}
    with httpx.Client(timeout=PATIENCE_S) as client:
        for prompt in PROMPTS:
            for seed in SEEDS:
                answer = call(client, url, "generate", asked_run(prompt, seed), uuid.uuid4().hex[:11])[-1]
                found[f"{prompt} {seed}"] = [token["id"] for token in answer["tokens"]]
    return found


class EndpointError(Exception):
    """An endpoint answered with a sentence."""


def call(client: httpx.Client, url: str, name: str, asked: dict[str, Any], session: str) -> list[Any]:
    """The results of an endpoint, one after the other."""
    place = f"{url}/gradio_api/call"
    event = client.post(f"{place}/v2/{name}", json=asked)
    event.raise_for_status()
    results, kind = [], ""
    with client.stream("GET", f"{place}/{name}/{event.json()['event_id']}") as stream:
        for line in stream.iter_lines():
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: ") and kind == "error":
                raise EndpointError(json.loads(line.removeprefix("data: "))["error"])
            elif line.startswith("data: ") and kind in ("generating", "complete"):
                results.append(json.loads(line.removeprefix("data: "))[0])
    return results
