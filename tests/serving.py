"""A server of the whole page on a free loopback port, and what is needed to ask it things."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from app.crowd import CrowdRunner
from app.gallery import Gallery
from app.limits import Limits
from app.runner import Runner
from app.ui import build_demo, launch_options
from tests.tiny import tiny_pair

# A tiny random pair answers in milliseconds, so a class of tests fits into one minute's share.
GENEROUS = Limits(runs_per_minute=100_000)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serving(runner: Any = None, gallery: Gallery | None = None, **options: Any) -> Iterator[str]:
    """The address of a running page; without a runner it decodes with the tiny pair."""
    runner = runner or CrowdRunner(Runner(lambda say: tiny_pair()), GENEROUS)
    demo = build_demo(runner, gallery)
    chosen = launch_options(gallery) | {
        "server_port": free_port(),
        "prevent_thread_lock": True,
        "quiet": True,
    }
    _, url, _ = demo.launch(**(chosen | options))
    try:
        yield url.rstrip("/")
    finally:
        demo.close()


def call(url: str, name: str, data: Any, timeout: float = 30.0) -> list[tuple[str, Any]]:
    """What curl would see of an endpoint: (event, data) one after the other. A dict names parameters."""
    place = f"{url}/gradio_api/call/{'v2/' if isinstance(data, dict) else ''}{name}"
    body = data if isinstance(data, dict) else {"data": data}
    with httpx.Client(timeout=timeout, verify=False) as client:  # plain HTTP: no certificates to read
        asked = client.post(place, json=body)
        asked.raise_for_status()
        events = []
        with client.stream("GET", f"{url}/gradio_api/call/{name}/{asked.json()['event_id']}") as stream:
            kind = ""
            for line in stream.iter_lines():
                if line.startswith("event: "):
                    kind = line.removeprefix("event: ")
                elif line.startswith("data: ") and kind != "heartbeat":
                    events.append((kind, json.loads(line.removeprefix("data: "))))
    return events


def answer(url: str, name: str, data: Any) -> Any:
    """The result of an endpoint that does not stream, or its error as {"error": sentence}."""
    kind, result = call(url, name, data)[-1]
    return result if kind == "error" else result[0]
