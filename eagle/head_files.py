"""Reading a draft head's folder in the published layouts, and refusing anything else by name.

A head is a folder with ``config.json`` and its weights: ``model.safetensors`` or
``pytorch_model.bin``, whole or in shards. Unpickling a ``.bin`` takes tensors only and never runs
code. A ``draft_vocabulary.safetensors`` beside them, if there is one, lists the token ids that the
draft may propose; it is ours and no part of the published layout.

Every tensor of the file must be used and every parameter set; anything else is a named error.
"""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from eagle.builtin import LoadError
from eagle.head import HeadConfig, HeadModule
from eagle.head3 import Head3Module
from eagle.hub import SINGLE as WEIGHTS
from eagle.hub import weight_files

__all__ = ["VOCABULARY", "WEIGHTS", "build_module", "build_module3", "is_eagle3", "read_config"]

VOCABULARY = "draft_vocabulary.safetensors"
EMBEDDING = "embed_tokens.weight"
# Rotary tables that older checkpoints store; they follow from the config.
DERIVED = re.compile(r"^.*rotary_emb\.inv_freq$")
MAP, INVERSE_MAP, LM_HEAD = "d2t", "t2d", "lm_head.weight"
ModuleT = TypeVar("ModuleT", bound=nn.Module)
NUMBERS = ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "vocab_size")


def read_config(folder: Path) -> dict[str, Any]:
    """The head's config.json; LoadError when it is missing, no JSON, or not a head's."""
    path = folder / "config.json"
    if not path.is_file():
        raise LoadError(f"The head folder {folder.name} has no config.json, so its shape is unknown.")
    try:
        config = json.loads(path.read_text())
    except ValueError:
        raise LoadError(f"The config.json of head {folder.name} is not valid JSON.") from None
    if not isinstance(config, dict) or "hidden_size" not in config:
        raise LoadError(f"The config.json of head {folder.name} names no hidden_size.")
    for name in NUMBERS:
        value = config.get(name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise LoadError(
                f"The config.json of head {folder.name} says {name} = {value!r:.40}, but it must be a whole "
                f"number from 1 on."
            )
    layers = config.get("num_hidden_layers", 1)
    if layers != 1:
        raise LoadError(
            f"{folder.name} has {layers} layers, but a draft head has 1: this looks like a full model."
        )
    if config.get("hidden_act", "silu") != "silu":
        raise LoadError(
            f"Head {folder.name} uses the activation {config['hidden_act']!r:.40}; published heads use silu."
        )
    return config


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """All tensors of the head's weight files; LoadError names a file that is none."""
    tensors: dict[str, Tensor] = {}
    for path in weight_files(folder, "head"):
        tensors |= _read(path)
    return {name: tensor for name, tensor in tensors.items() if not DERIVED.match(name)}


def _read(path: Path) -> dict[str, Tensor]:
    size, head = path.stat().st_size, path.parent.name
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        found = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise LoadError(
            f"{path.name} of head {head} is cut short or holds more than tensors; it is not unpickled "
            f"further, since that could run code."
        ) from error
    except (SafetensorError, RuntimeError, OSError, EOFError, ValueError, KeyError) as error:
        raise LoadError(
            f"{path.name} of head {head} ({size:,} bytes) is truncated or not a weight file."
        ) from error
    if not isinstance(found, dict) or not all(isinstance(value, Tensor) for value in found.values()):
        raise LoadError(f"{path.name} of head {head} is not a table of tensors.")
    return found


def is_eagle3(tensors: dict[str, Tensor]) -> bool:
    """Whether these are an EAGLE-3 head's: it has a vocabulary map, or its layer is called midlayer."""
    return MAP in tensors or any(name.startswith("midlayer.") for name in tensors)


def shape_of(config: dict[str, Any], tensors: dict[str, Tensor]) -> HeadConfig:
    """The head's shape, from its config; the biases from what the file really holds."""
    hidden, heads = config["hidden_size"], config.get("num_attention_heads") or 1
    return HeadConfig(
        hidden_size=hidden,
        intermediate_size=config.get("intermediate_size") or 4 * hidden,
        num_heads=heads,
        num_kv_heads=config.get("num_key_value_heads") or heads,
        head_dim=config.get("head_dim") or hidden // heads,
        vocab_size=config.get("vocab_size") or 0,
        rms_norm_eps=config.get("rms_norm_eps", 1e-6),
        bias="fc.bias" in tensors,
        qkv_bias=any(name.endswith("self_attn.q_proj.bias") for name in tensors),
    )


def build_module(name: str, config: dict[str, Any], tensors: dict[str, Tensor]) -> HeadModule:
    """An EAGLE-1/2 head's module. ``embed_tokens`` may be among the tensors; it is the caller's."""
    _refuse_other_kinds(name, config, tensors)
    shape = shape_of(config, tensors)
    _refuse_other_biases(name, config, shape)
    with torch.device("meta"):
        module = HeadModule(shape)
    given = {key: value for key, value in tensors.items() if key != EMBEDDING}
    return _filled(name, module, given, "EAGLE-1/2")


def build_module3(
    name: str, config: dict[str, Any], tensors: dict[str, Tensor], target_hidden: int
) -> Head3Module:
    """An EAGLE-3 head's module, without its LM head, vocabulary map and embedding, which are the caller's."""
    shape = shape_of(config, tensors)
    with torch.device("meta"):
        module = Head3Module(shape, target_hidden)
    apart = (EMBEDDING, MAP, INVERSE_MAP, LM_HEAD)
    given = {key: value for key, value in tensors.items() if key not in apart}
    return _filled(name, module, given, "EAGLE-3")


def _refuse_other_kinds(name: str, config: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    if any(key.startswith("model.layers.") for key in tensors):
        kind = (config.get("architectures") or ["a causal LM"])[0]
        raise LoadError(f"{name} is a full model ({kind}), not a draft head.")
    if "fc.weight" not in tensors:
        raise LoadError(f"{name} is not an EAGLE head: it has no tensor fc.weight.")


def _refuse_other_biases(name: str, config: dict[str, Any], shape: HeadConfig) -> None:
    for key, tensor, there in (("bias", "fc.bias", shape.bias), ("qkv_bias", "q_proj.bias", shape.qkv_bias)):
        if config.get(key) is not None and bool(config[key]) != there:
            raise LoadError(
                f"The config.json of head {name} says {key} = {str(config[key]).lower()}, but its file "
                f"{'has' if there else 'lacks'} {tensor}."
            )


def _filled(name: str, module: ModuleT, given: dict[str, Tensor], kind: str) -> ModuleT:
    """The module with every given tensor used and every parameter set, or LoadError."""
    wanted = {key: tuple(value.shape) for key, value in module.state_dict().items()}
    if missing := sorted(wanted.keys() - given.keys()):
        raise LoadError(f"Head {name} lacks the tensor {missing[0]}, which every {kind} head has.")
    if unused := sorted(given.keys() - wanted.keys()):
        raise LoadError(f"Head {name} holds the tensor {unused[0][:80]}, which no {kind} head has.")
    for key, expected in wanted.items():
        if tuple(given[key].shape) != expected:
            raise LoadError(
                f"Head {name}: {key} has the shape {tuple(given[key].shape)}, but its config.json asks for "
                f"{expected}."
            )
    module.load_state_dict(given, assign=True)
    return module


def read_vocabulary(folder: Path, vocab_size: int) -> Tensor | None:
    """Token ids [V'] that the draft may propose, ascending; None where the head scores everything."""
    path = folder / VOCABULARY
    if not path.is_file():
        return None
    try:
        ids = load_file(path)["token_ids"].long()
    except (SafetensorError, OSError, KeyError):
        raise LoadError(f"{VOCABULARY} of head {folder.name} is not a list of token ids.") from None
    _check_ids(ids, vocab_size, f"{VOCABULARY} of head {folder.name}")
    return ids


def mapped_vocabulary(name: str, tensors: dict[str, Tensor], vocab_size: int) -> Tensor | None:
    """Token ids [V'] of an EAGLE-3 head's columns; None where its vocabulary is the target's."""
    rows = tensors[LM_HEAD].shape[0]
    if MAP not in tensors:
        if rows != vocab_size:
            raise LoadError(
                f"Head {name} scores {rows:,} tokens, but has no map {MAP} to the target's {vocab_size:,}."
            )
        return None
    offsets = tensors[MAP].long()
    if offsets.shape != (rows,):
        raise LoadError(f"Head {name}: {MAP} has {offsets.numel():,} entries, but its LM head {rows:,} rows.")
    ids = torch.arange(rows) + offsets
    _check_ids(ids, vocab_size, f"The map {MAP} of head {name}")
    inverse = tensors.get(INVERSE_MAP)
    if inverse is not None:
        marked = torch.zeros(inverse.shape[0], dtype=torch.bool)
        marked[ids] = True
        if inverse.shape[0] != vocab_size or not torch.equal(marked, inverse.bool()):
            raise LoadError(f"Head {name}: its maps {MAP} and {INVERSE_MAP} name different tokens.")
    return ids


def _check_ids(ids: Tensor, vocab_size: int, where: str) -> None:
    if ids.ndim != 1 or ids.numel() == 0 or int(ids.min()) < 0 or int(ids.max()) >= vocab_size:
        raise LoadError(f"{where} lists token ids outside 0..{vocab_size - 1}.")
    if not bool((ids.diff() > 0).all()):
        raise LoadError(f"{where} must list each token id once, in ascending order.")
