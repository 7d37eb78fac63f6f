"""A head's folder and its target -> a head at work, every mismatch between the two refused by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from eagle import head_files
from eagle.builtin import LoadError, sha256_of
from eagle.draft_head import DraftHead, RotaryTable
from eagle.head3 import DraftHead3, watched_layers
from eagle.hub import weight_files
from eagle.linear import LinearKind, Plain
from eagle.target import Target

OTHER_COPY = (
    "This head was trained for another copy of this target, or does not say for which: the output is "
    "unchanged, fewer tokens may be accepted."
)


@dataclass
class HeadFiles:
    """What a head's folder holds, read and not yet fitted to a target."""

    folder: Path
    config: dict[str, Any]
    tensors: dict[str, Tensor]
    notes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def is_eagle3(self) -> bool:
        return head_files.is_eagle3(self.tensors)

    @property
    def parameters(self) -> int:
        return sum(tensor.numel() for tensor in self.tensors.values())

    @property
    def hash(self) -> str | None:
        return weights_hash(self.folder)


def weights_hash(folder: Path) -> str | None:
    """sha256 of a head's weight file; None where there are several."""
    files = weight_files(folder, "head")
    return sha256_of(files[0]) if len(files) == 1 else None


def read(folder: Path) -> HeadFiles:
    """The head's config and tensors. Raises LoadError."""
    return HeadFiles(folder, head_files.read_config(folder), head_files.read_tensors(folder))


def refuse_another_target(name: str, config: dict[str, Any], hidden_size: int, vocab_size: int) -> None:
    """LoadError with both numbers where a head's config was not made for a target of these sizes."""
    hidden = config.get("target_hidden_size") or config["hidden_size"]
    if hidden != hidden_size:
        raise LoadError(
            f"Head {name} was made for hidden size {hidden:,}, but the target has {hidden_size:,}."
        )
    vocabulary = config.get("vocab_size") or vocab_size
    if vocabulary != vocab_size:
        raise LoadError(
            f"Head {name} was made for a vocabulary of {vocabulary:,} tokens, "
            f"but the target has {vocab_size:,}."
        )


def fit(files: HeadFiles, target: Target, text_config: Any, kind: LinearKind = Plain) -> DraftHead:
    """The head beside its target; notes for a visitor are added to ``files.notes``. Raises LoadError."""
    refuse_another_target(files.name, files.config, target.hidden_size, target.vocab_size)
    _note_positions(files, target)
    if files.is_eagle3:
        return _fit3(files, target, text_config, kind)
    module = head_files.build_module(files.name, files.config, files.tensors)
    module = module.to(device=target.device, dtype=target.dtype).requires_grad_(False)
    vocabulary = head_files.read_vocabulary(files.folder, target.vocab_size)
    vocabulary = None if vocabulary is None else vocabulary.to(target.device)
    rotary = rotary_table(files.config, text_config, module.config.head_dim, target.device)
    return DraftHead(module, target, rotary, vocabulary, kind, _own_embedding(files, target))


def _fit3(files: HeadFiles, target: Target, text_config: Any, kind: LinearKind) -> DraftHead:
    if head_files.LM_HEAD not in files.tensors:
        raise LoadError(f"Head {files.name} lacks the tensor {head_files.LM_HEAD}, which EAGLE-3 heads have.")
    tensors = {_published_name(key): value for key, value in files.tensors.items()}
    module = head_files.build_module3(files.name, files.config, tensors, target.hidden_size)
    module = module.to(device=target.device, dtype=target.dtype).requires_grad_(False)
    vocabulary = head_files.mapped_vocabulary(files.name, tensors, target.vocab_size)
    target.watched = _watched(files, target)
    embedding = _own_embedding(files, target)
    if embedding is None and module.config.hidden_size != target.hidden_size:
        raise LoadError(f"Head {files.name} is narrower or wider than its target and brings no embed_tokens.")
    return DraftHead3(
        module,
        target,
        rotary_table(files.config, text_config, module.config.head_dim, target.device),
        tensors[head_files.LM_HEAD].to(device=target.device, dtype=target.dtype),
        None if vocabulary is None else vocabulary.to(target.device),
        kind,
        embedding,
    )


def _published_name(key: str) -> str:
    """Some checkpoints call the one layer ``layers.0``."""
    return key.replace("layers.0.", "midlayer.", 1) if key.startswith("layers.0.") else key


def _watched(files: HeadFiles, target: Target) -> tuple[int, ...]:
    if target.layers < 6:
        raise LoadError(
            f"An EAGLE-3 head reads layers of a target that has at least 6; this one has {target.layers}."
        )
    return watched_layers(target.layers)


def _own_embedding(files: HeadFiles, target: Target) -> Tensor | None:
    """The file's ``embed_tokens`` where it is not the target's own (published heads carry a copy of it)."""
    rows = files.tensors.get(head_files.EMBEDDING)
    if rows is None:
        return None
    hidden = files.config["hidden_size"]
    if tuple(rows.shape) != (target.vocab_size, hidden):
        raise LoadError(
            f"Head {files.name}: {head_files.EMBEDDING} has the shape {tuple(rows.shape)}, but "
            f"{(target.vocab_size, hidden)} is expected."
        )
    rows = rows.to(device=target.device, dtype=target.dtype)
    if hidden == target.hidden_size:
        ids = torch.arange(target.vocab_size, device=target.device)
        if all(torch.equal(target.embed(part), rows[part]) for part in ids.split(4096)):
            return None
    return rows


def rotary_table(
    config: dict[str, Any], text_config: Any, head_dim: int, device: torch.device
) -> RotaryTable:
    """The head's rotary positions: base and scaling from its config, else from the target's."""
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    own = config.get("rope_parameters") or config.get("rope_scaling") or {}
    asked = {"rope_theta": theta(config, text_config), **own}
    asked["rope_type"] = asked.pop("type", None) or asked.get("rope_type") or "default"
    if asked["rope_type"] == "default":
        return RotaryTable.plain(head_dim, float(asked["rope_theta"]), device)
    try:
        made = LlamaRotaryEmbedding(
            LlamaConfig(
                head_dim=head_dim,
                max_position_embeddings=config.get("max_position_embeddings") or 2048,
                rope_parameters=asked,
            )
        )
    except (KeyError, ValueError, TypeError) as error:
        raise LoadError(f"The head's rope scaling {asked['rope_type']!r:.40} is not understood.") from error
    return RotaryTable(made.inv_freq.to(device), float(made.attention_scaling))


def theta(config: dict[str, Any], text_config: Any) -> float:
    """RoPE base: the head's own, else the target's, else Llama's first."""
    for source in (config, text_config.to_dict()):
        rope = source.get("rope_parameters") or {}
        found = source.get("rope_theta") or rope.get("rope_theta")
        if found:
            return float(found)
    return 10000.0


def _note_positions(files: HeadFiles, target: Target) -> None:
    trained = files.config.get("max_position_embeddings") or target.max_context
    if trained < target.max_context:
        files.notes.append(
            f"This head was trained for up to {trained:,} tokens; beyond them fewer may be accepted."
        )
