"""Reading a draft head in the published EAGLE-1/2 layout, and refusing anything else by name.

A head is a folder with ``config.json`` and its weights (``model.safetensors`` or
``pytorch_model.bin``). A ``draft_vocabulary.safetensors`` beside them, if there is one, lists the
token ids that the draft may propose; it is ours and no part of the published layout.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from eagle.builtin import LoadError
from eagle.head import HeadConfig, HeadModule

WEIGHTS = ("model.safetensors", "pytorch_model.bin")
VOCABULARY = "draft_vocabulary.safetensors"
NOT_IN_THE_LAYER = re.compile(r"^(embed_tokens\.weight|layers\.0\.self_attn\.rotary_emb\.inv_freq)$")


def read_config(folder: Path) -> dict[str, Any]:
    """The head's config.json; LoadError when it is missing or not JSON."""
    path = folder / "config.json"
    if not path.is_file():
        raise LoadError(f"The head folder {folder.name} has no config.json, so its shape is unknown.")
    try:
        config = json.loads(path.read_text())
    except ValueError:
        raise LoadError(f"The config.json of head {folder.name} is not valid JSON.") from None
    if not isinstance(config, dict) or "hidden_size" not in config:
        raise LoadError(f"The config.json of head {folder.name} names no hidden_size.")
    return config


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """All tensors of the head's weight file; unpickling, where it is a .bin, never runs code."""
    path = next((folder / name for name in WEIGHTS if (folder / name).is_file()), None)
    if path is None:
        raise LoadError(f"The head folder {folder.name} has neither {WEIGHTS[0]} nor {WEIGHTS[1]}.")
    size = path.stat().st_size
    if size < 1024 and path.read_bytes().startswith(b"version https://git-lfs"):
        raise LoadError(f"{path.name} is a Git LFS pointer, not weights; download the file itself.")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        return torch.load(path, map_location="cpu", weights_only=True)
    except (SafetensorError, RuntimeError, OSError, EOFError, ValueError, KeyError) as error:
        raise LoadError(
            f"{path.name} of head {folder.name} ({size:,} bytes) is truncated or not a weight file."
        ) from error


def shape_of(config: dict[str, Any], tensors: dict[str, Tensor]) -> HeadConfig:
    """The head's shape, from its config; the biases from what the file really holds."""
    hidden, heads = config["hidden_size"], config.get("num_attention_heads", 1)
    return HeadConfig(
        hidden_size=hidden,
        intermediate_size=config.get("intermediate_size", 4 * hidden),
        num_heads=heads,
        num_kv_heads=config.get("num_key_value_heads", heads),
        head_dim=config.get("head_dim") or hidden // heads,
        vocab_size=config.get("vocab_size", 0),
        rms_norm_eps=config.get("rms_norm_eps", 1e-6),
        bias="fc.bias" in tensors,
        qkv_bias="layers.0.self_attn.q_proj.bias" in tensors,
    )


def build_module(name: str, config: dict[str, Any], tensors: dict[str, Tensor]) -> HeadModule:
    """The head's module with every tensor of the file used and every parameter set, or LoadError."""
    fc = tensors.get("fc.weight")
    if fc is None:
        raise LoadError(f"{name} is not an EAGLE head: it has no tensor fc.weight.")
    shape = shape_of(config, tensors)
    if config.get("bias") is not None and bool(config["bias"]) != shape.bias:
        raise LoadError(
            f"The config.json of head {name} says bias = {config['bias']}, but its file "
            f"{'has' if shape.bias else 'lacks'} fc.bias."
        )
    with torch.device("meta"):
        module = HeadModule(shape)
    wanted = {key: tuple(value.shape) for key, value in module.state_dict().items()}
    given = {key: value for key, value in tensors.items() if not NOT_IN_THE_LAYER.match(key)}
    if missing := sorted(wanted.keys() - given.keys()):
        raise LoadError(f"Head {name} lacks the tensor {missing[0]}.")
    if unused := sorted(given.keys() - wanted.keys()):
        raise LoadError(f"Head {name} holds the tensor {unused[0]}, which no EAGLE-1/2 head has.")
    for key, expected in wanted.items():
        if tuple(given[key].shape) != expected:
            raise LoadError(
                f"Head {name}: {key} has shape {tuple(given[key].shape)}, "
                f"but its config.json asks for {expected}."
            )
    module.load_state_dict(given, assign=True)
    return module


def read_vocabulary(folder: Path, vocab_size: int) -> Tensor | None:
    """Token ids [V'] that the draft may propose, ascending; None where the head scores everything."""
    path = folder / VOCABULARY
    if not path.is_file():
        return None
    ids = load_file(path)["token_ids"].long()
    if ids.numel() == 0 or int(ids.min()) < 0 or int(ids.max()) >= vocab_size:
        raise LoadError(f"{VOCABULARY} of head {folder.name} lists token ids outside 0..{vocab_size - 1}.")
    return ids
