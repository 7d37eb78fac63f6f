"""Training a head: batches in, a run folder out, resumable at any moment.

A killed run goes on from its last checkpoint and, when bounded by steps, ends with the same weights and
the same log as one that was never killed: batches and noise depend on the seed and the step alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list
from torch import Tensor
from tqdm import tqdm

from eagle.head import HeadModule
from eagle.training import agreement
from eagle.training.checkpoint import Progress, RunFolder
from eagle.training.loss import Trainee
from eagle.training.optimizers import make_optimizers
from eagle.training.reading import Reader, scored_rows
from eagle.training.recipe import Recipe
from eagle.training.shards import Piece, batches, pieces

Report = Callable[[dict[str, Any]], None]


@dataclass
class Run:
    """A training under way."""

    recipe: Recipe
    folder: RunFolder
    reader: Reader
    accelerator: Accelerator
    trainee: torch.nn.Module
    optimizers: list[torch.optim.Optimizer]
    rows: Tensor
    progress: Progress

    @property
    def head(self) -> HeadModule:
        return self.accelerator.unwrap_model(self.trainee).head


def make_accelerator(device: torch.device) -> Accelerator:
    """One process on this device, or what ``accelerate launch`` set up; bf16 arithmetic on a GPU."""
    on_gpu = device.type == "cuda"
    return Accelerator(cpu=device.type == "cpu", mixed_precision="bf16" if on_gpu else "no")


def fit(
    recipe: Recipe,
    reader: Reader,
    module: HeadModule,
    vocabulary: Tensor | None,
    folder: RunFolder,
    accelerator: Accelerator,
    report: Report = lambda line: None,
) -> Progress:
    """Trains ``module`` (or goes on from the folder's checkpoint) until the recipe is done."""
    run = _begin(recipe, reader, module, vocabulary, folder, accelerator)
    training = pieces(reader.shards, recipe.cut, held_out=False)
    tests = agreement.spread(pieces(reader.shards, recipe.cut, held_out=True), recipe.measure_rows)
    held_out = list(agreement.held_out(reader, tests, vocabulary)) if accelerator.is_main_process else []
    if run.progress.step == 0:
        _log(run, report, measured=agreement.measure(run.head, held_out, run.rows))
    _train(run, training, held_out, report)
    return run.progress


def _begin(
    recipe: Recipe,
    reader: Reader,
    module: HeadModule,
    vocabulary: Tensor | None,
    folder: RunFolder,
    accelerator: Accelerator,
) -> Run:
    """Weights, optimisers and counters: fresh, or the checkpoint's."""
    module = module.to(device=accelerator.device, dtype=torch.float32).requires_grad_(True)
    progress = Progress()
    states: list[dict[str, Any]] = []
    if folder.has_checkpoint():
        weights, states, progress = folder.load()
        module.load_state_dict(weights)
    if accelerator.is_main_process:
        folder.rewind_log(progress.step if folder.has_checkpoint() else -1)
    optimizers = make_optimizers(module, recipe)
    for optimizer, state in zip(optimizers, states, strict=False):
        optimizer.load_state_dict(state)
    trainee = accelerator.prepare(Trainee(module, recipe.loss, recipe.unroll))
    compute = torch.bfloat16 if accelerator.mixed_precision == "bf16" else torch.float32
    rows = scored_rows(reader.source, vocabulary).to(compute)
    return Run(recipe, folder, reader, accelerator, trainee, optimizers, rows, progress)


def _train(
    run: Run, training: Sequence[Piece], held_out: Sequence[agreement.HeldOut], report: Report
) -> None:
    recipe, progress, accelerator = run.recipe, run.progress, run.accelerator
    world, rank = accelerator.num_processes, accelerator.process_index
    order = batches(training, recipe.batch_tokens, recipe.seed, progress.epoch, world)
    sums = torch.zeros(4, dtype=torch.float64)  # loss, feature term, token term, steps
    started = time.monotonic() - progress.seconds
    bar = tqdm(total=recipe.steps, initial=progress.step, desc="fit", unit=" step", disable=None)
    while recipe.done(progress.step, progress.seconds) < 1:
        if (progress.batch + 1) * world > len(order):
            progress.epoch, progress.batch = progress.epoch + 1, 0
            order = batches(training, recipe.batch_tokens, recipe.seed, progress.epoch, world)
        chosen = order[progress.batch * world + rank]
        terms = _step(run, chosen)
        progress.step += 1
        progress.batch += 1
        progress.tokens += world * sum(piece.length for piece in chosen)
        progress.seconds = _agreed(time.monotonic() - started, accelerator)
        sums += torch.tensor([*terms, 1.0], dtype=torch.float64)
        bar.update()
        if progress.step % recipe.log_every == 0 and recipe.done(progress.step, progress.seconds) < 1:
            _boundary(run, sums, held_out, report)
            sums.zero_()
    bar.close()
    if not progress.finished:
        progress.finished = True
        _log(run, report, sums=sums, measured=agreement.measure(run.head, held_out, run.rows))
        _save(run)


def _step(run: Run, chosen: Sequence[Piece]) -> tuple[float, float, float]:
    """One update; returns the loss and its two terms."""
    recipe, progress = run.recipe, run.progress
    device = run.reader.source.target.device
    generator = torch.Generator(device=device)
    seed = np.random.SeedSequence([recipe.seed, progress.step, run.accelerator.process_index])
    generator.manual_seed(int(seed.generate_state(1)[0]))
    batch = run.reader.batch(chosen, recipe.loss.prompt, recipe.noise, generator)
    rate = recipe.rate(progress.step, progress.seconds)
    for optimizer in run.optimizers:
        optimizer.zero_grad(set_to_none=True)
        for group in optimizer.param_groups:
            group["lr"] = group["full_lr"] * rate
    loss, feature, token = run.trainee(batch, run.rows)
    if not bool(torch.isfinite(loss)):
        raise ArithmeticError(f"The loss is not finite in step {progress.step + 1}; lower the learning rate.")
    run.accelerator.backward(loss)
    run.accelerator.clip_grad_norm_(run.trainee.parameters(), recipe.clip)
    for optimizer in run.optimizers:
        optimizer.step()
    return float(loss.detach()), float(feature), float(token)


def _boundary(run: Run, sums: Tensor, held_out: Sequence[agreement.HeldOut], report: Report) -> None:
    """What is due after a logging interval. Checkpoints fall only here, so no interval is ever cut in two."""
    step = run.progress.step
    due = step % run.recipe.measure_every == 0
    _log(run, report, sums, agreement.measure(run.head, held_out, run.rows) if due else None)
    if step % run.recipe.save_every == 0:
        _save(run)


def _log(
    run: Run, report: Report, sums: Tensor | None = None, measured: dict[str, Any] | None = None
) -> None:
    if not run.accelerator.is_main_process:
        return
    progress = run.progress
    line: dict[str, Any] = {"step": progress.step, "epoch": progress.epoch, "tokens": progress.tokens}
    if sums is not None and float(sums[3]):
        means = (sums[:3] / sums[3]).tolist()
        line |= dict(zip(("loss", "feature", "token"), (round(x, 6) for x in means), strict=True))
    line |= {"held_out": measured} if measured else {}
    line["seconds"] = round(progress.seconds, 1)
    run.folder.append(line)
    report(line)


def _save(run: Run) -> None:
    if run.accelerator.is_main_process:
        weights = {name: value.cpu() for name, value in run.head.state_dict().items()}
        states = [optimizer.state_dict() for optimizer in run.optimizers]
        run.folder.save(weights, states, replace(run.progress))


def _agreed(seconds: float, accelerator: Accelerator) -> float:
    """The first process's clock, so that all stop at the same step."""
    if accelerator.num_processes == 1:
        return seconds
    told = [seconds]
    broadcast_object_list(told)
    return told[0]


def open_run(path: Path) -> RunFolder:
    """The run folder at ``path``, made if it is not there."""
    path.mkdir(parents=True, exist_ok=True)
    return RunFolder(path)


def sentence(line: dict[str, Any]) -> str:
    """A line of the log for people."""
    words = [f"step {line['step']}"]
    if "loss" in line:
        words.append(f"loss {line['loss']:.4f} (features {line['feature']:.4f}, tokens {line['token']:.4f})")
    if line["step"] and line["seconds"]:
        words.append(f"{line['tokens'] / line['seconds']:.0f} tokens/s")
    if "held_out" in line:
        shares = ["/".join(f"{100 * x:.1f}" for x in line["held_out"][key]) for key in ("top1", "top4")]
        words.append(f"held out: best token {shares[0]} %, best four {shares[1]} %")
    return ", ".join(words)
