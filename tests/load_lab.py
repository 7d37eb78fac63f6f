"""Fifty visitors in the rule lab: ``python -m tests.load_lab [--visitors 50] [--seconds 30] [--busy]``.

Starts the page on a free loopback port, lets each visitor do one action every two seconds (steps,
edits, rules, links, experiments of up to 100,000 draws), and prints how long the answers took. Bounded:
it ends by itself and talks to nothing but loopback. ``--busy`` keeps one core computing meanwhile, as a
decoding model would. Exit status 1 when the 95th percentile misses the goal or an answer was wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import random
import statistics
import sys
import time
from dataclasses import dataclass, field
from typing import Any

import httpx

GOAL_MS = 300.0
BUSY_GOAL_MS = 500.0
PACE_S = 2.0
ACTIONS: tuple[tuple[float, dict[str, Any]], ...] = (
    (40, {"do": "next"}),
    (10, {"do": "new"}),
    (8, {"do": "card", "v": "next"}),
    (6, {"do": "reveal"}),
    (10, {"do": "weight", "which": "target", "i": 0}),
    (5, {"do": "draw", "column": 8}),
    (4, {"do": "rule", "v": "eagle1"}),
    (4, {"do": "rule", "v": "misreading"}),
    (3, {"do": "preset", "v": 2}),
    (4, {"do": "one"}),
    (2, {"do": "experiment", "v": 100}),
    (2, {"do": "experiment", "v": 10_000}),
    (2, {"do": "experiment", "v": 100_000}),
)


@dataclass
class Tally:
    """What came back: milliseconds for each answer, and what was wrong."""

    took: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def serve(pipe: Any) -> None:
    """The page with the lab alone, in a process of its own; sends its address and the lab's component id."""
    import gradio as gr

    from app import lab_view

    with gr.Blocks(analytics_enabled=False) as demo:
        lab = lab_view.build()
    _, url, _ = demo.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1")
    pipe.send((url.rstrip("/"), lab._id))
    pipe.recv()
    demo.close()


def compute() -> None:
    """Keeps a core busy, as a decoding model would."""
    import numpy as np

    while True:
        np.linalg.svd(np.random.default_rng(0).random((200, 200)))


async def visitor(number: int, url: str, component: int, until: float, tally: Tally, client: Any) -> None:
    """One action every two seconds, each on the state that the last answer gave."""
    luck = random.Random(number)
    query = ""
    await asyncio.sleep(luck.random() * PACE_S)
    while time.monotonic() < until:
        started = time.monotonic()
        action = dict(luck.choices([a for _, a in ACTIONS], [w for w, _ in ACTIONS])[0])
        if action["do"] in ("weight", "draw", "one"):
            action["v"] = round(luck.random() * 0.99, 2)
        body = {
            "data": {"query": query, "action": action},
            "component_id": component,
            "session_hash": f"visitor{number}",
            "fn_name": "lab_act",
        }
        try:
            answer = await client.post(f"{url}/gradio_api/component_server", json=body)
        except httpx.HTTPError as error:
            tally.wrong.append(f"{action}: {type(error).__name__} {error}")
            continue
        tally.took.append(1000 * (time.monotonic() - started))
        if answer.status_code != 200 or "lab-page" not in answer.json()["html"]:
            tally.wrong.append(f"{action}: {answer.status_code} {answer.text[:80]}")
            continue
        query = answer.json()["query"]
        await asyncio.sleep(max(0.0, started + PACE_S - time.monotonic()))


async def crowd(visitors: int, seconds: float, url: str, component: int) -> Tally:
    tally = Tally()
    until = time.monotonic() + seconds
    limits = httpx.Limits(max_connections=visitors)
    async with httpx.AsyncClient(limits=limits, timeout=30, trust_env=False) as client:
        await asyncio.gather(
            *(visitor(number, url, component, until, tally, client) for number in range(visitors))
        )
    return tally


def report(tally: Tally, goal: float) -> bool:
    """Prints the figures; whether the goal was met."""
    took = sorted(tally.took)
    if len(took) < 2:
        print("too few answers to judge", *tally.wrong[:5], sep="\n")
        return False
    p95 = statistics.quantiles(took, n=20)[-1]
    figures = {
        "answers": len(took),
        "wrong": len(tally.wrong),
        "median_ms": round(statistics.median(took), 1),
        "p95_ms": round(p95, 1),
        "p99_ms": round(statistics.quantiles(took, n=100)[-1], 1),
        "max_ms": round(took[-1], 1),
        "goal_p95_ms": goal,
    }
    print(json.dumps(figures))
    for line in tally.wrong[:5]:
        print(line)
    return p95 < goal and not tally.wrong


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--visitors", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--busy", action="store_true", help="keep one core computing meanwhile")
    options = parser.parse_args(arguments)
    visitors, seconds = min(options.visitors, 200), min(options.seconds, 180.0)
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    worker = context.Process(target=compute, daemon=True)
    try:
        url, component = ours.recv()
        if options.busy:
            worker.start()
        tally = asyncio.run(crowd(visitors, seconds, url, component))
    finally:
        ours.send("stop")
        if worker.is_alive():
            worker.terminate()
        server.join(10)
        if server.is_alive():
            server.terminate()
    return 0 if report(tally, BUSY_GOAL_MS if options.busy else GOAL_MS) else 1


if __name__ == "__main__":
    sys.exit(main())
