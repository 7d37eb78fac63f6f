"""``python -m eagle bench``: methods x prompts, interleaved, as a table and one line of JSON."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from eagle.commands.options import (
    UsageError,
    add_pair_options,
    add_sampling_options,
    load_pair,
    settings_from,
)
from eagle.prompts import read_questions
from eagle.settings import Method

SHIPPED = Path(__file__).parents[2] / "assets" / "prompts.jsonl"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("bench", help="measure methods against each other on this machine")
    parser.add_argument(
        "--methods", default="vanilla,eagle2", help="comma-separated (default: vanilla,eagle2)"
    )
    parser.add_argument(
        "--prompts", type=Path, nargs="+", default=[SHIPPED], help="question files (JSON lines)"
    )
    parser.add_argument("--limit", type=int, default=4, help="questions of each file (default: 4)")
    parser.add_argument("--repeats", type=int, default=3, help="counted rounds (default: 3)")
    parser.add_argument(
        "--outside", action="store_true", help="also transformers' generate and prompt lookup"
    )
    parser.add_argument("--threads", type=int, help="torch threads (default: this machine's share)")
    add_sampling_options(parser)
    parser.add_argument("--trees", nargs="+", help="several tree shapes; each is a contender")
    add_pair_options(parser)
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    parser.set_defaults(run=run, seed=0)


def run(args: argparse.Namespace) -> int:
    """Measures, prints the table, and with --json one final line."""
    from eagle import bench
    from eagle.text import encode

    names = [name.strip() for name in args.methods.split(",") if name.strip()]
    unknown = [name for name in names if name not in list(Method)]
    if unknown or not names:
        raise UsageError(f"--methods names {unknown[:1] or 'nothing'}; the methods are {', '.join(Method)}.")
    if args.repeats < 1 or args.limit < 1:
        raise UsageError("--repeats and --limit must be at least 1.")
    questions = [question for path in args.prompts for question in read_questions(path, args.limit)]
    settings = settings_from(args, Method.VANILLA)
    pair = load_pair(args)
    outside = _plain_model(args) if args.outside else None
    contenders = bench.contenders_for(pair, names, args.trees or [args.tree], settings, outside)
    bench.measure(contenders, [encode(pair.tokenizer, q.text).token for q in questions], args.repeats)
    figures = bench.rows(contenders)
    print(bench.table(figures))
    if args.json:
        line = {"rows": figures, "machine": bench.machine(pair), "questions": len(questions)}
        line |= {"repeats": args.repeats, "temperature": args.temperature}
        print(json.dumps(line, allow_nan=False))
    return 0


def _plain_model(args: argparse.Namespace) -> object:
    """The target as transformers runs it, untouched by our packing."""
    from transformers import AutoModelForCausalLM

    from eagle.builtin import quiet_transformers, target_folder
    from eagle.loading import pick_device, pick_dtype

    device = pick_device(args.device)
    folder = args.target or str(target_folder(lambda sentence, fraction: None))
    with quiet_transformers():
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=pick_dtype(args.dtype, device))
    model.to(device)  # type: ignore[arg-type]
    return model.eval()
