"""``python -m eagle bench``: methods x prompts, interleaved, as a table and one line of JSON."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagle.commands.options import (
    UsageError,
    add_pair_options,
    add_sampling_options,
    load_pair,
    settings_from,
)
from eagle.prompts import Question, read_questions
from eagle.settings import Method, Settings

if TYPE_CHECKING:
    from eagle.decoder import Pair

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
    parser.add_argument("--temperatures", type=float, nargs="+", help="several; each method runs at each")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--contexts", type=int, nargs="+", metavar="N", help="milliseconds a step after prompts of N tokens"
    )
    instead.add_argument(
        "--grid",
        action="store_true",
        help="a grid of fixed trees against the automatic one: --limit questions of each file choose the "
        "winner, the next --limit judge it",
    )
    add_pair_options(parser)
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    parser.set_defaults(run=run, seed=0)


def run(args: argparse.Namespace) -> int:
    """Measures, prints the table, and with --json one final line."""
    from eagle.machine import machine

    names = _methods(args)
    if args.repeats < 1 or args.limit < 1:
        raise UsageError("--repeats and --limit must be at least 1.")
    if args.outside and (args.grid or args.contexts):
        raise UsageError("--outside goes with neither --grid nor --contexts.")
    if args.grid and args.temperatures:
        raise UsageError("--grid measures at one temperature: give --temperature.")
    questions = {path: read_questions(path, args.limit * (1 + args.grid)) for path in args.prompts}
    asked = [
        settings_from(argparse.Namespace(**{**vars(args), "temperature": temperature}), Method.VANILLA)
        for temperature in args.temperatures or [args.temperature]
    ]
    pair = load_pair(args)
    if args.grid:
        line, shown = _grid(args, pair, questions, asked[0])
    elif args.contexts:
        line, shown = _contexts(args, pair, names, questions, asked)
    else:
        line, shown = _methods_measured(args, pair, names, questions, asked)
    print(shown)
    if args.json:
        line |= {
            "machine": machine(pair),
            "repeats": args.repeats,
            "max_new_tokens": args.max_new_tokens,
            "temperature": asked[0].temperature,
        }
        print(json.dumps(line, allow_nan=False))
    return 0


def _methods(args: argparse.Namespace) -> list[str]:
    names = [name.strip() for name in args.methods.split(",") if name.strip()]
    unknown = [name for name in names if name not in list(Method)]
    if unknown or not names:
        raise UsageError(f"--methods names {unknown[:1] or 'nothing'}; the methods are {', '.join(Method)}.")
    return names


Questions = dict[Path, list[Question]]


def _ids(pair: Pair, questions: list[Question]) -> list[list[int]]:
    from eagle.text import encode

    return [encode(pair.tokenizer, question.text).token for question in questions]


def _methods_measured(
    args: argparse.Namespace, pair: Pair, names: list[str], questions: Questions, asked: list[Settings]
) -> tuple[dict[str, Any], str]:
    from eagle import bench
    from eagle.bench_outside import outside

    contenders = bench.contenders_for(pair, names, args.trees or [args.tree], asked)
    if args.outside:
        model = _plain_model(args)
        contenders += [
            one for settings in asked for one in outside(model, settings, bench.at(settings, asked))
        ]
    prompts = [ids for found in questions.values() for ids in _ids(pair, found)]
    bench.measure(contenders, prompts, args.repeats)
    rows = bench.rows(contenders)
    return {"rows": rows, "questions": len(prompts)}, bench.table(rows)


def _contexts(
    args: argparse.Namespace, pair: Pair, names: list[str], questions: Questions, asked: list[Settings]
) -> tuple[dict[str, Any], str]:
    from eagle import bench, bench_contexts

    bench_contexts.check_lengths(pair, args.contexts, args.max_new_tokens)
    text = [token for found in questions.values() for ids in _ids(pair, found) for token in ids]
    rows = bench_contexts.measure(
        lambda: bench.contenders_for(pair, names, args.trees or [args.tree], asked),
        text,
        args.contexts,
        args.repeats,
    )
    return {"contexts": rows}, bench_contexts.table(rows)


def _grid(
    args: argparse.Namespace, pair: Pair, questions: Questions, settings: Settings
) -> tuple[dict[str, Any], str]:
    from eagle import bench_grid

    tasks = []
    for path, found in questions.items():
        ids = _ids(pair, found)
        if len(ids) <= args.limit:
            raise UsageError(f"--grid needs more than {args.limit} questions, but {path} holds {len(ids)}.")
        tasks.append(bench_grid.Task(path.stem, ids[: args.limit], ids[args.limit :]))
    rows = bench_grid.measure(pair, tasks, settings, args.repeats, args.trees or bench_grid.GRID)
    return {"grid": rows}, bench_grid.table(rows)


def _plain_model(args: argparse.Namespace) -> object:
    """The target as transformers runs it, untouched by our packing."""
    from transformers import AutoModelForCausalLM

    from eagle.builtin import quiet_transformers, target_folder
    from eagle.loading import pick_device, pick_dtype

    device = pick_device(args.device)
    folder = args.target or str(target_folder(lambda sentence, fraction: None))
    with quiet_transformers():
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=pick_dtype(args.dtype, device))
    model.to(device)
    return model.eval()
