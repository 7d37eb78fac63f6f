"""Folders of tiny heads in the published layouts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from eagle.head import HeadConfig, HeadModule
from eagle.head3 import Head3Module
from tests.parity_pairs import TINY_CONFIG
from tests.tiny import HEAD_DIM, HEADS, HIDDEN, INNER, KV_HEADS


def head_config() -> dict[str, Any]:
    """A published config, silent on biases."""
    config = dict(TINY_CONFIG)
    config.pop("bias")
    return config


def _random(module: torch.nn.Module) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(3)
    return {
        name: float("norm" in name) + 0.3 * torch.randn(value.shape, generator=generator)
        for name, value in module.state_dict().items()
    }


def head_tensors(bias: bool = True, qkv_bias: bool = False) -> dict[str, Tensor]:
    """An EAGLE-1/2 head's tensors."""
    return _random(
        HeadModule(HeadConfig(HIDDEN, INNER, HEADS, KV_HEADS, HEAD_DIM, 257, 1e-6, bias, qkv_bias))
    )


def eagle3_tensors() -> dict[str, Tensor]:
    """An EAGLE-3 head's tensors, with 100 draft tokens: column c is token 2c + 1."""
    shape = HeadConfig(HIDDEN, INNER, HEADS, KV_HEADS, HEAD_DIM, 257, bias=False)
    columns = torch.arange(100)
    used = torch.zeros(257, dtype=torch.bool)
    used[2 * columns + 1] = True
    tensors = _random(Head3Module(shape, HIDDEN))
    return tensors | {"lm_head.weight": torch.randn(100, HIDDEN), "d2t": columns + 1, "t2d": used}


def write_head(
    folder: Path, tensors: dict[str, Tensor], form: str = "safetensors", config: dict[str, Any] | None = None
) -> Path:
    """Writes a head's folder: whole or sharded, safetensors or bin, or both (the bin then holds nothing)."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config or head_config()))
    if form in ("safetensors", "both"):
        save_file(tensors, folder / "model.safetensors")
    if form in ("bin", "both"):
        torch.save(tensors if form == "bin" else {}, folder / "pytorch_model.bin")
    if form.startswith("sharded"):
        _shards(folder, tensors, "bin" if form.endswith("bin") else "safetensors")
    return folder


def _shards(folder: Path, tensors: dict[str, Tensor], suffix: str) -> None:
    stem = "model" if suffix == "safetensors" else "pytorch_model"
    names = sorted(tensors)
    parts = {f"{stem}-0000{i + 1}-of-00002.{suffix}": names[i::2] for i in range(2)}
    for file, keys in parts.items():
        part = {key: tensors[key] for key in keys}
        if suffix == "safetensors":
            save_file(part, folder / file)
        else:
            torch.save(part, folder / file)
    index = {"metadata": {}, "weight_map": {key: file for file, keys in parts.items() for key in keys}}
    (folder / f"{stem}.{suffix}.index.json").write_text(json.dumps(index))
