"""60 visitors for two minutes: ``python -m tests.load [--visitors N] [--seconds S] [--pair built-in|tiny]``.

Two thirds of the visitors move through recorded runs and the rule lab as the page does, one third ask
for live runs. The server is a process of its own on loopback, started and ended here; nothing else is
asked for anything. Exits with 1 if a visitor met an error, got another visitor's answer, or a
promised number was missed. Being told that the line is full is no error.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import psutil

from app.gallery import Gallery
from tests.load.report import Outcome, failures, report
from tests.load.visitors import LabVisitor, LiveVisitor, RunVisitor, Visitor, expected_runs
from tests.serving import free_port

REPO = Path(__file__).parents[2]
START_S = 240


def main() -> int:
    args = options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))  # so that the server ends too
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.load.server", str(port), args.pair],
        cwd=REPO,
        env={**os.environ, "EAGLE_MOST_WAITING": str(args.most_waiting), "EAGLE_RUNS_PER_MINUTE": "1000"},
    )
    try:
        wait_until_up(url, server)
        expected = expected_runs(url)
        outcome = crowd(url, args, server.pid, expected)
    finally:
        server.terminate()
        server.wait(30)
    print(report(outcome))
    if args.json:
        args.json.write_text(json.dumps(outcome.numbers(), indent=1))
    wrong = failures(outcome)
    for line in wrong:
        print(f"FAILED: {line}")
    return 1 if wrong else 0


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.load", description=__doc__.split("\n\n")[1])
    parser.add_argument("--visitors", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--most-waiting", type=int, default=16)
    parser.add_argument("--pair", choices=("built-in", "tiny"), default="built-in")
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    return parser.parse_args()


def wait_until_up(url: str, server: subprocess.Popen[bytes]) -> None:
    """Waits for the page and for the pair behind it."""
    started = time.monotonic()
    while time.monotonic() - started < START_S:
        if server.poll() is not None:
            sys.exit("the server ended before it answered")
        try:
            if httpx.get(f"{url}/ready", timeout=5).text == "ready":
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.5)
    sys.exit(f"the server was not ready within {START_S} s")


def crowd(url: str, args: argparse.Namespace, pid: int, expected: dict[str, list[int]]) -> Outcome:
    """All visitors at once until the time is up."""
    outcome = Outcome(args.visitors, args.seconds, args.pair)
    stop = threading.Event()
    config = httpx.get(f"{url}/config").json()
    first = Gallery().read(Gallery().names()[0])
    assert first is not None
    kinds: list[Visitor] = []
    for number in range(args.visitors):
        if number % 3 == 2:
            kinds.append(LiveVisitor(url, number, outcome, stop, expected))
        elif number % 3 == 1:
            kinds.append(LabVisitor(url, number, outcome, stop, config))
        else:
            kinds.append(RunVisitor(url, number, outcome, stop, config, first))
    process = psutil.Process(pid)
    for visitor in kinds:
        visitor.start()
    ends = time.monotonic() + args.seconds
    while time.monotonic() < ends:
        outcome.memory_mb.append(process.memory_info().rss / 2**20)
        time.sleep(2)
    stop.set()
    for visitor in kinds:
        visitor.join(60)
        if visitor.is_alive():
            outcome.error(f"visitor {visitor.number} did not come to an end")
    return outcome


if __name__ == "__main__":
    sys.exit(main())
