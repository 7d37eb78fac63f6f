"""``python -m eagle profile``: where the milliseconds of a step go, as a picture and one line of JSON."""

from __future__ import annotations

import argparse
from pathlib import Path

from eagle.commands.options import add_pair_options, add_sampling_options, load_pair, settings_from
from eagle.settings import Method

PICTURE = Path(__file__).parents[2] / "docs" / "images" / "profile.svg"
PROMPT = "Explain in a few sentences why the sky is blue at noon and red in the evening."


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("profile", help="draw where the milliseconds of a step go")
    parser.add_argument(
        "--method", default="eagle2", choices=[str(method) for method in Method], help="default: eagle2"
    )
    parser.add_argument("--prompt", default=PROMPT, help="the text to decode after")
    parser.add_argument(
        "--out", type=Path, default=PICTURE, help="the SVG file (default: docs/images/profile.svg)"
    )
    parser.add_argument("--threads", type=int, help="torch threads (default: this machine's share)")
    add_sampling_options(parser)
    add_pair_options(parser)
    parser.set_defaults(run=run, seed=0)


def run(args: argparse.Namespace) -> int:
    """Profiles, writes the picture, prints the figures."""
    from eagle.step_picture import picture
    from eagle.step_profile import profile_step, threads
    from eagle.text import encode

    settings = settings_from(args, args.method)
    pair = load_pair(args)
    target = pair.info.target
    tree = f" {settings.tree}" if settings.method in (Method.EAGLE2, Method.EAGLE3) else ""
    what = (
        f"{settings.method}{tree}, T={settings.temperature:g}, {target.name}, {target.dtype} "
        f"{target.weights}, {target.device}, {threads()} threads"
    )
    found = profile_step(pair, encode(pair.tokenizer, args.prompt), settings, what)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(picture(found), encoding="utf-8")
    print(f"wrote {args.out}")
    print(found.model_dump_json())
    return 0
