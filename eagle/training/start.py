"""How a training run begins: its head to start from, its vocabulary, and the record of both."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from eagle import builtin, head_files
from eagle.head import HeadConfig, HeadModule
from eagle.training.checkpoint import CHECKPOINT, RunFolder
from eagle.training.errors import TrainingError
from eagle.training.reading import Reader
from eagle.training.recipe import Recipe
from eagle.training.shards import Shard, digest, most_frequent, pieces, token_counts
from eagle.training.source import Source, fresh_module, rms


@dataclass(frozen=True)
class Start:
    """The head that a run begins with, and what is known about where it came from."""

    module: HeadModule
    history: list[dict[str, Any]]
    sha256: str | None = None


def starting_head(init: Path | None, reader: Reader, recipe: Recipe) -> Start:
    """A fresh head, or the one in ``init``: an exported folder, a run folder or a .safetensors file."""
    config = reader.source.head_config()
    if init is None:
        first = pieces(reader.shards, recipe.cut, held_out=False)[:8]
        batch = reader.batch([p for p in first if p.length == first[0].length], 1.0)
        module = fresh_module(config, rms(batch.embeddings), rms(batch.features), recipe.seed)
        return Start(module, [])
    if (init / CHECKPOINT).is_file():
        run = RunFolder(init)
        tensors, _, progress = run.load()
        module = head_files.build_module(init.name, layout(config, reader.source.rope_theta), tensors)
        history = [*run.record().get("history", []), stretch(run.record(), vars(progress))]
        return Start(module, history, builtin.sha256_of(init / CHECKPOINT))
    if init.is_file() and init.suffix == ".safetensors":
        made = head_files.build_module(init.name, layout(config, reader.source.rope_theta), load_file(init))
        return Start(made.float(), [], builtin.sha256_of(init))
    described = head_files.read_config(init)
    if described["hidden_size"] != config.hidden_size:
        raise TrainingError(
            f"The head {init.name} has hidden size {described['hidden_size']}, "
            f"but the target has {config.hidden_size}."
        )
    module = head_files.build_module(init.name, described, head_files.read_tensors(init)).float()
    if module.config.bias != config.bias:
        raise TrainingError(f"The head {init.name} has no fc.bias; training starts from heads that have one.")
    told = described.get("eagle", {})
    history = [*told.get("history", []), told.get("stretch")] if told.get("stretch") else []
    weights = next(init / name for name in head_files.WEIGHTS if (init / name).is_file())
    return Start(module, history, builtin.sha256_of(weights))


def stretch(record: dict[str, Any], progress: dict[str, Any]) -> dict[str, Any]:
    """One stretch of training in a few words, for the history that a head carries."""
    return {
        "steps": progress["step"],
        "tokens_read": progress["tokens"],
        "minutes": round(progress["seconds"] / 60, 1),
        "corpus_tokens": record["corpus"]["tokens"],
        "recipe": record["recipe"],
        "git_commit": record["git_commit"],
    }


def draft_vocabulary(source: Source, shards: Sequence[Shard], size: int) -> Tensor | None:
    """Ids [V'] of the corpus's most frequent tokens, every end token among them; None for all."""
    vocab_size = source.target.vocab_size
    if not 0 < size < vocab_size:
        return None
    counts = token_counts(shards, vocab_size)
    return torch.from_numpy(most_frequent(counts, size, sorted(source.target.end_tokens)))


def describe(
    recipe: Recipe,
    source: Source,
    shards: Sequence[Shard],
    start: Start,
    vocabulary: Tensor | None,
    commit: str | None,
) -> dict[str, Any]:
    """The record of a run: recipe, target, corpus and starting head."""
    training = pieces(shards, recipe.cut, held_out=False)
    return {
        "recipe": recipe.as_json(),
        "target": source.name,
        "target_sha256": source.sha256,
        "layout": layout(start.module.config, source.rope_theta, source.target.max_context),
        "corpus": {
            "shards": len(shards),
            "rows": sum(len(shard.tokens) for shard in shards),
            "tokens": sum(shard.tokens.size for shard in shards),
            "training_tokens": sum(piece.length for piece in training),
            "sha256": digest(shards),
        },
        "draft_vocabulary": None if vocabulary is None else len(vocabulary),
        "draft_vocabulary_sha256": None if vocabulary is None else _digest(vocabulary),
        "init_sha256": start.sha256,
        "history": start.history,
        "git_commit": commit,
    }


def check_same_run(old: dict[str, Any], new: dict[str, Any]) -> None:
    """Raises TrainingError when a run folder was begun with another recipe, target or corpus."""
    for name in ("recipe", "target_sha256", "corpus", "draft_vocabulary_sha256"):
        if old.get(name) != new[name]:
            detail = ""
            if name == "recipe":
                detail = " (" + ", ".join(k for k in new[name] if new[name][k] != old[name].get(k)) + ")"
            raise TrainingError(
                f"This run was begun with another {name.removesuffix('_sha256')}{detail}; "
                "go on as it began, or start another folder with --init."
            )


def _digest(ids: Tensor) -> str:
    return hashlib.sha256(ids.to(torch.int32).numpy().tobytes()).hexdigest()


def layout(config: HeadConfig, rope_theta: float, positions: int = 2048) -> dict[str, Any]:
    """config.json in the published layout of EAGLE-1/2 heads. ``positions``: the target's longest context."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": config.hidden_act,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.num_kv_heads,
        "head_dim": config.head_dim,
        "num_hidden_layers": 1,
        "max_position_embeddings": positions,
        "rms_norm_eps": config.rms_norm_eps,
        "rope_theta": rope_theta,
        "vocab_size": config.vocab_size,
        "bias": config.bias,
        "tie_word_embeddings": False,
        "torch_dtype": "float16",
    }
