"""``python -m eagle eval``: measures how good a draft head is."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from eagle.commands.options import UsageError, add_pair_options, load_pair
from eagle.settings import Settings, Tree

OWN_PROMPTS = Path(__file__).parent.parent.parent / "assets" / "prompts.jsonl"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("eval", help="measure how good a draft head is")
    add = parser.add_argument
    add("--prompts", type=Path, nargs="+", default=[OWN_PROMPTS], help="files (default: the product's own)")
    add("--limit", type=int, help="questions of each task (default: all)")
    add("--limit-others", type=int, help="the same for every column but the first (default: --limit)")
    add("--temperatures", type=float, nargs="*", default=[0.0, 1.0], help="default: 0 1")
    add("--full-vocabulary", action="store_true", help="columns without trimming too")
    add("--max-new-tokens", type=int, default=128)
    add("--tree", default="paper", help="paper (60/6/10) or TOTAL/DEPTH/WIDTH")
    add("--seed", type=int, default=0)
    add("--corpus", type=Path, nargs="+", help="shards whose held-out rows are measured too")
    add("--features", type=Path, help="their cached features, made if missing")
    add("--out", type=Path, help="JSON file; a killed evaluation goes on from FILE.partial")
    add("--store", action="store_true", help="write the evaluation into the head's config.json")
    add("--json", action="store_true", help="end with one line of JSON")
    add_pair_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints the table, then the JSON line if asked for."""
    plan = _plan(args)
    if args.out and not args.out.parent.is_dir():
        raise UsageError(f"--out {args.out}: the folder {args.out.parent} does not exist.")
    from eagle.evaluate import report, runs, stored

    pair = load_pair(args)
    if pair.head is None or pair.info.head is None:
        raise UsageError("eval measures a head: name one with --head.")
    target, head = pair.info.target, pair.info.head
    about = {
        "target": target.name,
        "target_sha256": target.hash,
        "head": head.name,
        "head_sha256": head.hash,
        "draft_vocabulary": pair.info.draft_vocabulary,
        "dtype": target.dtype,
        "weights": target.weights,
        "device": target.device,
    }
    settings = {"tree": str(plan.tree), "max_new_tokens": plan.max_new_tokens, "seed": plan.seed}
    partial = args.out.with_name(f"{args.out.name}.partial") if args.out else None
    ledger = runs.Ledger(partial, about | settings)
    held_out = _held_out(args) if args.corpus else None
    results = runs.run_plan(pair, plan, ledger)
    found = report.as_json(plan, results, held_out, about | _prompt_files(args))
    if args.out:
        args.out.write_text(json.dumps(found, indent=1, allow_nan=False) + "\n")
    if args.store:
        stored.store(_head_folder(args), found, stored.check_tau(pair, OWN_PROMPTS))
    print(report.table(found))
    if args.json:
        print(json.dumps(found, allow_nan=False))
    return 0


def _plan(args: argparse.Namespace) -> Any:
    """The columns with their questions; settings are checked before anything is loaded."""
    tree = Tree.parse(args.tree)
    for temperature in args.temperatures:
        Settings(temperature=temperature, max_new_tokens=args.max_new_tokens, seed=args.seed, tree=tree)
    for name in ("limit", "limit_others"):
        if getattr(args, name) is not None and getattr(args, name) < 1:
            raise UsageError(f"--{name.replace('_', '-')} must be at least 1.")
    from eagle.evaluate.questions import read_questions
    from eagle.evaluate.runs import Column, Plan

    columns: list[Any] = []
    for full in (False, True) if args.full_vocabulary else (False,):
        for temperature in args.temperatures:
            limit = args.limit if not columns or args.limit_others is None else args.limit_others
            columns.append((Column(temperature, full), read_questions(args.prompts, limit)))
    return Plan(columns, tree, args.max_new_tokens, args.seed)


def _prompt_files(args: argparse.Namespace) -> dict[str, Any]:
    from eagle.builtin import sha256_of

    return {"prompts": [{"file": path.name, "sha256": sha256_of(path)} for path in args.prompts]}


def _head_folder(args: argparse.Namespace) -> Path:
    from eagle.loading import BUILTIN_HEAD

    return Path(args.head) if args.head else BUILTIN_HEAD


def _held_out(args: argparse.Namespace) -> dict[str, Any]:
    """Agreement on the corpus rows that no training read."""
    from eagle.commands.options import TerminalProgress
    from eagle.training.held_out import measure_folder
    from eagle.training.source import load_source

    with TerminalProgress() as progress:
        source = load_source(args.target, args.device, args.dtype, progress.report)
    print("measuring agreement on held-out text", file=sys.stderr)
    return measure_folder(source, _head_folder(args), args.corpus, args.features)
