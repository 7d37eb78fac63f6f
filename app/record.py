"""Makes the recorded runs that the page ships: ``python -m app.record [NAME ...]``.

Each is a real run of the built-in pair with a fixed seed, so that anyone can make it again and get
the same tokens (times differ). It is decoded in turns with plain decoding of the same prompt, and of each
the repetition of median speed is kept, so that the ratio on the page is a measured one. Every file passes
``python -m eagle audit`` before it is written.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from app.gallery import PLAIN, TRACES
from app.runner import vanilla_of
from eagle.settings import Settings

if TYPE_CHECKING:
    from eagle.decoder import Pair
    from eagle.trace import RunTrace


@dataclass(frozen=True)
class Recording:
    """One run to record."""

    name: str
    title: str
    prompt: str
    settings: Settings


def _run(name: str, title: str, prompt: str, **settings: object) -> Recording:
    return Recording(name, title, prompt, Settings(**{"max_new_tokens": 64, "tree": "12/5/5", **settings}))


RECORDINGS = (
    _run(
        "first",
        "Chat, temperature 0.7",
        "Explain why the sky is blue.",
        temperature=0.7,
        seed=5,
    ),
    _run("chat-greedy", "Chat, temperature 0", "What is a good way to learn to cook?", seed=0),
    _run(
        "code",
        "Code, temperature 0",
        "Write a Python function that adds up a list of numbers.",
        seed=0,
    ),
    _run(
        "arithmetic",
        "Arithmetic, temperature 0",
        "What is 12 times 8? Think step by step.",
        seed=0,
    ),
    _run(
        "list",
        "A list, temperature 1",
        "List five things to take on a camping trip.",
        temperature=1.0,
        seed=2,
    ),
    _run(
        "translation",
        "Rewording, temperature 0.7",
        "Say this in simpler words: The committee postponed its decision until further notice.",
        temperature=0.7,
        seed=1,
    ),
    _run(
        "lucky",
        "A lucky run: much is accepted",
        "Count from one to twenty in words.",
        temperature=0.7,
        seed=3,
    ),
    _run(
        "unlucky",
        "An unlucky run: little is accepted",
        "Tell me a strange dream.",
        temperature=1.3,
        seed=4,
        max_new_tokens=40,
    ),
    _run(
        "paper-tree",
        "The paper's tree, 60/6/10",
        "Explain why the sky is blue.",
        tree="paper",
        temperature=0.7,
        seed=5,
    ),
)


def main(argv: list[str] | None = None) -> int:
    """Records all runs, or those named."""
    parser = argparse.ArgumentParser(prog="python -m app.record", description=__doc__)
    parser.add_argument("name", nargs="*", help="which to record (default: all)")
    parser.add_argument("--out", type=Path, default=TRACES, help="folder (default: assets/traces)")
    parser.add_argument("--repeats", type=int, default=3, help="turns, of which the median is kept")
    args = parser.parse_args(argv)
    unknown = set(args.name) - {recording.name for recording in RECORDINGS}
    if unknown:
        print(f"error: there is no recording {sorted(unknown)[0]!r}", file=sys.stderr)
        return 2
    from eagle.audit import first_fault
    from eagle.commands.options import TerminalProgress
    from eagle.loading import load
    from eagle.threads import set_threads

    set_threads()
    with TerminalProgress() as progress:
        pair = load(progress=progress.report)
    (args.out / PLAIN).mkdir(parents=True, exist_ok=True)
    for recording in RECORDINGS:
        if args.name and recording.name not in args.name:
            continue
        run, plain = in_turns(pair, recording, args.repeats)
        for trace, folder in ((run, args.out), (plain, args.out / PLAIN)):
            text = trace.to_json()
            fault = first_fault(type(trace).from_json(text))
            if fault is not None:
                print(f"error: {recording.name} fails its own audit: {fault}", file=sys.stderr)
                return 1
            (folder / f"{recording.name}.json").write_text(text, encoding="utf-8")
        ratio = (run.tokens_per_s or 0) / (plain.tokens_per_s or 1)
        print(f"{recording.name}: {run.new_tokens} tokens, τ {run.tau:.2f}, {ratio:.2f} x plain decoding")
    return 0


def in_turns(pair: Pair, recording: Recording, repeats: int) -> tuple[RunTrace, RunTrace]:
    """The run and plain decoding of its prompt, decoded in turns; of each the one of median speed."""
    from eagle.decoder import generate

    runs: list[RunTrace] = []
    plain: list[RunTrace] = []
    for _ in range(repeats):
        runs.append(generate(pair, recording.prompt, recording.settings))
        plain.append(generate(pair, recording.prompt, vanilla_of(recording.settings, runs[-1])))
    median = [sorted(made, key=lambda run: run.decode_ms)[repeats // 2] for made in (runs, plain)]
    return tuple(run.model_copy(update={"title": recording.title}) for run in median)  # type: ignore[return-value]


if __name__ == "__main__":
    sys.exit(main())
