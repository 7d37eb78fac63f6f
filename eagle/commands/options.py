"""Options that several commands share."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from tqdm import tqdm

from eagle.settings import Method, Settings

if TYPE_CHECKING:
    from eagle.builtin import Progress
    from eagle.decoder import Pair


class UsageError(ValueError):
    """Arguments that do not fit together, or a file that can not be read."""


def add_pair_options(parser: argparse.ArgumentParser) -> None:
    """Which models, where, in what numbers."""
    group = parser.add_argument_group("the pair")
    group.add_argument("--target", help="folder or hub id (default: the built-in SmolLM2-135M-Instruct)")
    group.add_argument("--head", help="folder or hub id of an EAGLE head (default: the built-in one)")
    group.add_argument("--device", help="cpu, cuda, cuda:N, auto (default: the GPU if there is one)")
    group.add_argument(
        "--dtype", help="float32, bfloat16 or float16 (default: bfloat16 on GPU, float32 on CPU)"
    )
    group.add_argument(
        "--weights", default="fp32", choices=("fp32", "int8"), help="int8: another target, faster on CPU"
    )


def add_sampling_options(parser: argparse.ArgumentParser, temperature: float = 0.0) -> None:
    """What decides the output besides the prompt."""
    group = parser.add_argument_group("decoding")
    group.add_argument("--temperature", type=float, default=temperature, help="0 (greedy) to 2")
    group.add_argument("--top-p", type=float, default=1.0, help="above 0, up to 1 (off)")
    group.add_argument("--top-k", type=int, default=0, help="0 is off")
    group.add_argument("--seed", type=int, help="left out: a fresh one, which is printed")
    group.add_argument("--max-new-tokens", type=int, default=64)
    group.add_argument("--tree", default="auto", help="auto, paper (60/6/10) or TOTAL/DEPTH/WIDTH")


def settings_from(args: argparse.Namespace, method: Method | str) -> Settings:
    """Checked settings; SettingsError names the field."""
    return Settings(
        method=method,
        temperature=args.temperature,
        top_p=args.top_p,
        top_k=args.top_k,
        seed=args.seed,
        max_new_tokens=args.max_new_tokens,
        tree=args.tree,
    )


def load_pair(args: argparse.Namespace) -> Pair:
    """Loads the pair that the options name, with its progress on the terminal."""
    from eagle.loading import load
    from eagle.threads import set_threads

    set_threads(getattr(args, "threads", None))
    with TerminalProgress() as progress:
        return load(args.target, args.head, args.device, args.dtype, args.weights, progress=progress.report)


class TerminalProgress:
    """Progress sentences on standard error, as a bar where a fraction is known."""

    def __enter__(self) -> TerminalProgress:
        self._bar: tqdm[None] | None = None
        self._sentence = ""
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    @property
    def report(self) -> Progress:
        return self._report

    def _report(self, sentence: str, fraction: float | None) -> None:
        if sentence != self._sentence:
            self._close()
            self._sentence = sentence
            if fraction is None:
                print(sentence, file=sys.stderr, flush=True)
            else:
                self._bar = tqdm(total=100, desc=sentence, bar_format="{desc} {percentage:3.0f}% |{bar}|")
        if self._bar is not None and fraction is not None:
            self._bar.update(round(100 * fraction) - self._bar.n)

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
