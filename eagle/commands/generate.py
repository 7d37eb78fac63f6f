"""``python -m eagle generate``: one prompt, one answer, streamed."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from eagle.commands.options import (
    UsageError,
    add_pair_options,
    add_sampling_options,
    load_pair,
    settings_from,
)
from eagle.settings import Method
from eagle.trace import RunTrace


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("generate", help="decode one prompt and print the answer")
    parser.add_argument("prompt", help="the prompt; '-' reads standard input")
    parser.add_argument("--method", default="eagle2", choices=list(Method), help="default: eagle2")
    parser.add_argument("--plain", action="store_true", help="no chat template: continue the text")
    add_sampling_options(parser)
    add_pair_options(parser)
    parser.add_argument("--trace", type=Path, help="write the whole run as JSON")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Streams the answer to standard output, a summary to standard error."""
    settings = settings_from(args, args.method)
    prompt = sys.stdin.read() if args.prompt == "-" else args.prompt
    if args.trace and not args.trace.parent.is_dir():
        raise UsageError(f"--trace {args.trace}: the folder {args.trace.parent} does not exist.")
    from eagle import recording
    from eagle.decoder import decode, with_seed
    from eagle.store import write_whole
    from eagle.text import check_text, encode

    check_text(prompt)
    pair = load_pair(args)
    settings = with_seed(settings)
    encoded = encode(pair.tokenizer, prompt, chat=not args.plain)
    steps = []
    for step in decode(pair, encoded, settings):
        steps.append(step)
        print("".join(step.emitted.text), end="", flush=True)
    print()
    run_trace = recording.run(pair.info, encoded, settings, steps)
    if args.trace:
        write_whole(args.trace, run_trace.to_json())
    print(summary(run_trace), file=sys.stderr)
    if args.json:
        print(json.dumps(as_line(run_trace), allow_nan=False))
    return 0


def summary(run: RunTrace) -> str:
    """One line for people."""
    tau, speed = run.tau, run.tokens_per_s
    return (
        f"[{run.new_tokens} tokens, {run.target_passes} target passes"
        f"{f', τ {tau:.2f}' if tau else ''}{f', {speed:.1f} tokens/s' if speed else ''}, "
        f"seed {run.seed}, ended by: {run.finish}]"
    )


def as_line(run: RunTrace) -> dict[str, object]:
    """The same for programs."""
    return {
        "text": run.text,
        "token_ids": run.token_ids,
        "new_tokens": run.new_tokens,
        "target_passes": run.target_passes,
        "tau": run.tau,
        "tokens_per_s": run.tokens_per_s,
        "finish_reason": run.finish,
        "seed": run.seed,
    }
