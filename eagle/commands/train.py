"""``python -m eagle train``: corpus, fit, export."""

from __future__ import annotations

import argparse
import math
import os
import sys
from pathlib import Path
from typing import Any

from eagle.commands.options import TerminalProgress, UsageError

Parser = argparse.ArgumentParser


def add_parser(subparsers: argparse._SubParsersAction[Parser]) -> None:
    parser = subparsers.add_parser("train", help="corpus, fit, export: make a draft head")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    _add_corpus(actions.add_parser("corpus", help="let the target write text; makes the missing shards"))
    _add_fit(actions.add_parser("fit", help="train a head on a corpus; goes on where it was killed"))
    export = actions.add_parser("export", help="write a run's head in the published layout")
    export.add_argument("--run", dest="run_folder", type=Path, required=True, help="folder that fit wrote")
    export.add_argument("--out", type=Path, required=True, help="folder for the head")
    export.set_defaults(action=run_export)
    refresh = actions.add_parser("refresh", help="re-make all that hangs on the built-in head")
    refresh.add_argument("--limit", type=int, default=2, help="questions of each kind in the evaluation")
    refresh.add_argument("--max-new-tokens", type=int, default=96)
    refresh.set_defaults(action=run_refresh)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Runs the chosen action."""
    return args.action(args)


def _add_target(parser: Parser) -> None:
    parser.add_argument("--target", help="folder or hub id (default: the built-in SmolLM2-135M-Instruct)")
    parser.add_argument("--device", help="cpu, cuda or cuda:N (default: the GPU if there is one)")
    parser.add_argument("--dtype", help="the target's number type (default: bfloat16 on GPU, else float32)")


def _add_machine(parser: Parser) -> None:
    parser.add_argument("--threads", type=int, help="CPU threads (default: this machine's share)")
    parser.add_argument("--nice", type=int, default=0, help="give way to other programs: 0 to 19")


def _add_corpus(parser: Parser) -> None:
    add = parser.add_argument
    add("--out", type=Path, required=True, help="folder for the shards")
    add("--shards", type=int, default=20, help="shards in the finished corpus")
    add("--rows", type=int, default=96, help="conversations a shard, written side by side")
    add("--length", type=int, default=288, help="tokens of a conversation")
    add("--user-limit", type=int, default=48, help="tokens of a question that does not end by itself")
    add("--user-top-p", type=float, default=0.9, help="nucleus that questions are drawn from")
    add("--seed", type=int, default=0)
    add("--prompts", type=Path, help="user turns from a file (.jsonl with turns, or lines of text)")
    _add_target(parser)
    _add_machine(parser)
    parser.set_defaults(action=run_corpus)


def _add_fit(parser: Parser) -> None:
    add = parser.add_argument
    add("--corpus", type=Path, nargs="+", required=True, help="folders of shards (.npz)")
    add("--out", type=Path, required=True, help="run folder; an unfinished run there is resumed")
    add("--features", type=Path, help="folder for fp16 features (default: the target runs for each batch)")
    add("--init", type=Path, help="head folder, run folder or .safetensors to start from")
    group = parser.add_argument_group("how long and how fast")
    group.add_argument("--steps", type=int, default=10_000)
    group.add_argument("--minutes", type=float, default=math.inf, help="ends the run too, if earlier")
    group.add_argument("--batch-tokens", type=int, default=1728, help="tokens a step and process")
    group.add_argument("--cut", type=int, default=512, help="longest part of a row, in tokens")
    group.add_argument("--optimizer", choices=("adamw", "muon"), default="adamw")
    group.add_argument("--lr", type=float, default=2e-3, help="full learning rate")
    group.add_argument("--vector-lr", type=float, default=2e-3, help="of biases and norms under muon")
    group.add_argument("--weight-decay", type=float, default=0.0)
    group.add_argument("--warmup", type=int, default=30, help="steps")
    group.add_argument("--floor", type=float, default=0.02, help="share of the learning rate left at the end")
    group.add_argument("--clip", type=float, default=1.0, help="norm of the gradient")
    group.add_argument("--seed", type=int, default=0)
    group = parser.add_argument_group("the loss")
    group.add_argument("--unroll", type=int, default=3, help="passes on the head's own guesses (1: none)")
    group.add_argument("--feature-weight", type=float, default=1.0)
    group.add_argument("--token-weight", type=float, default=0.5)
    group.add_argument("--top-weight", type=float, default=0.0, help="of the top-k cross-entropy")
    group.add_argument("--top-count", type=int, default=10)
    group.add_argument("--prompt-weight", type=float, default=1.0, help="of text that is no answer")
    group.add_argument("--step-decay", type=float, default=1.0, help="weight of each pass against the last")
    group.add_argument("--noise", type=float, default=0.1, help="half width of the noise on features")
    group.add_argument("--vocabulary", type=int, default=8192, help="tokens that the draft scores; 0: all")
    group = parser.add_argument_group("reports")
    group.add_argument("--log-every", type=int, default=25, help="steps")
    group.add_argument("--save-every", type=int, default=100, help="steps between checkpoints")
    group.add_argument("--measure-every", type=int, default=400, help="steps between held-out measurements")
    group.add_argument("--measure-rows", type=int, default=24, help="held-out pieces in a measurement")
    _add_target(parser)
    _add_machine(parser)
    parser.set_defaults(action=run_fit)


def _recipe(args: argparse.Namespace) -> Any:
    from eagle.training.loss import LossWeights
    from eagle.training.recipe import Recipe

    loss = LossWeights(
        feature=args.feature_weight,
        token=args.token_weight,
        top=args.top_weight,
        top_count=args.top_count,
        prompt=args.prompt_weight,
        step_decay=args.step_decay,
    )
    names = [name for name in Recipe.__dataclass_fields__ if name != "loss"]
    return Recipe(**{name: getattr(args, name) for name in names}, loss=loss)


def _settle(args: argparse.Namespace) -> None:
    """Priority and threads."""
    from eagle.threads import set_threads

    if args.nice:
        if not hasattr(os, "nice"):
            raise UsageError("--nice is not available on this system.")
        os.nice(args.nice)
    set_threads(args.threads)


def run_corpus(args: argparse.Namespace) -> int:
    """Writes the missing shards."""
    _settle(args)
    from eagle import loading
    from eagle.training import corpus, loop
    from eagle.training.report import say, spent
    from eagle.training.source import load_source

    names = ("shards", "rows", "length", "user_limit", "user_top_p", "seed")
    plan = corpus.Plan(**{name: getattr(args, name) for name in names})
    questions = corpus.read_prompts(args.prompts) if args.prompts else []
    accelerator = loop.make_accelerator(loading.pick_device(args.device))
    with TerminalProgress() as progress:
        source = load_source(args.target, str(accelerator.device), args.dtype, progress.report)
    rank, world = accelerator.process_index, accelerator.num_processes
    corpus.make_corpus(source, args.out, plan, questions, rank, world, say)
    say(f"{plan.shards} shards, {plan.shards * plan.rows * plan.length:,} tokens in {args.out}; {spent()}")
    return 0


def run_fit(args: argparse.Namespace) -> int:
    """Trains, or goes on training; the curves are redrawn at each measurement."""
    recipe = _recipe(args)
    _settle(args)
    from eagle import head_files, loading
    from eagle.training import curves, features, loop, reading, shards, start
    from eagle.training.export import git_commit, save_vocabulary
    from eagle.training.report import say, spent
    from eagle.training.source import load_source

    accelerator = loop.make_accelerator(loading.pick_device(args.device))
    with TerminalProgress() as progress:
        source = load_source(args.target, str(accelerator.device), args.dtype, progress.report)
    corpus = shards.read_corpus(args.corpus, source.target.vocab_size)
    with accelerator.main_process_first():
        store: features.Features = (
            features.cached(source, corpus, args.features)
            if args.features
            else features.FreshFeatures(source, corpus)
        )
    reader = reading.Reader(source, corpus, store)
    begin = start.starting_head(args.init, reader, recipe)
    vocabulary = start.draft_vocabulary(source, corpus, recipe.vocabulary)
    folder = loop.open_run(args.out)
    record = start.describe(recipe, source, corpus, begin, vocabulary, git_commit())
    if folder.has_checkpoint():
        start.check_same_run(folder.record(), record)
        say(f"going on with the run in {args.out}")
    elif accelerator.is_main_process:
        folder.write_record(record)
        if vocabulary is not None:
            save_vocabulary(folder.path / head_files.VOCABULARY, vocabulary)

    def report(line: dict[str, Any]) -> None:
        say(loop.sentence(line))
        if "held_out" in line:
            curves.write_curves(folder.log(), folder.path / curves.FILE)

    done = loop.fit(recipe, reader, begin.module, vocabulary, folder, accelerator, report)
    say(f"{done.step} steps, {done.tokens:,} tokens read, {done.seconds / 60:.1f} minutes; {spent()}")
    return 0


def run_export(args: argparse.Namespace) -> int:
    """Writes the head folder and says how large it is."""
    from eagle.training.checkpoint import RunFolder
    from eagle.training.export import export

    folder = export(RunFolder(args.run_folder), args.out)
    size = sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
    print(f"wrote {folder} ({size / 1e6:.1f} MB)", file=sys.stderr)
    return 0


def run_refresh(args: argparse.Namespace) -> int:
    """The stored evaluation, then the recorded runs, each by its own command; stops at the first failure."""
    import subprocess

    limits = ["--limit", str(args.limit), "--max-new-tokens", str(args.max_new_tokens)]
    for command in (["eagle", "eval", "--store", *limits], ["app.record"]):
        print(f"python -m {' '.join(command)}", file=sys.stderr, flush=True)
        code = subprocess.run([sys.executable, "-m", *command], check=False).returncode
        if code:
            return code
    return 0
