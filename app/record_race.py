"""Makes the recorded race of the page's first look: ``python -m app.record_race``, on an idle machine.

A real race of the built-in pair. Anyone can make it again with the same tokens; the times are those
of the machine it ran on, and the page says that they are recorded.
"""

from __future__ import annotations

import argparse
import sys
import threading
from pathlib import Path

from app.race import DEFAULT_PROMPT, METHODS, RECORDED
from eagle.race import Race
from eagle.settings import Settings


def main(argv: list[str] | None = None) -> int:
    """Runs the race and writes it."""
    parser = argparse.ArgumentParser(prog="python -m app.record_race", description=__doc__)
    parser.add_argument("--prompt", default=DEFAULT_PROMPT)
    parser.add_argument("--tree", default="auto", help="auto, paper or TOTAL/DEPTH/WIDTH (default: auto)")
    parser.add_argument("--max-new-tokens", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RECORDED)
    args = parser.parse_args(argv)
    settings = Settings(seed=1, max_new_tokens=args.max_new_tokens, tree=args.tree)
    from eagle.commands.options import TerminalProgress
    from eagle.loading import load
    from eagle.race import race
    from eagle.text import encode
    from eagle.threads import set_threads

    set_threads()
    with TerminalProgress() as progress:
        pair = load(progress=progress.report)
    prompt = encode(pair.tokenizer, args.prompt)
    for item in race(pair, prompt, settings, METHODS, args.repeats, threading.Event()):
        if isinstance(item, Race):
            args.out.write_text(item.model_dump_json(), encoding="utf-8")
            for meter in item.meters:
                print(f"{meter.method}: {meter.tokens_per_s:.1f} tokens/s, τ {meter.tau or 0:.2f}")
        else:
            word = "warming up" if item.warming else f"run {item.done + 1} of {item.runs}"
            print(f"{word}: {item.method}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
