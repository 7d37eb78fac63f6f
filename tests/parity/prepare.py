"""First half of a parity recording: pairs as folders that the published code can load.

``python -m tests.parity.prepare FOLDER``, in this project's environment. ``FOLDER/NAME`` then holds, for each
fixture NAME, the target, the head and ``jobs.json``: the prompts, what to run on them, and what tells these
weights from others. ``tests/parity/record.py`` goes on from there, in an environment of the published code.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from eagle.loading import BUILTIN_HEAD
from tests.parity_pairs import TINY_CONFIG, builtin_head, checksum, tiny_parts

PROMPTS = Path(__file__).parent.parent.parent / "assets" / "prompts.jsonl"
TINY_PROMPTS = Path(__file__).parent / "tiny.json"
TINY_JOBS = [
    {"tree": tree, "first": 0, "last": 12, "tokens": 32, "trees": 6}
    for tree in ("60/6/10", "8/4/4", "30/3/5")
]
TREE_JOBS = [
    {"tree": "60/6/10", "first": 0, "last": 4, "tokens": 1, "trees": 4},
    {"tree": "8/4/4", "first": 0, "last": 3, "tokens": 1, "trees": 3},
    {"tree": "30/3/5", "first": 0, "last": 3, "tokens": 1, "trees": 3},
]
TEXT_JOB = {"tree": "8/4/4", "first": 0, "last": 12, "tokens": 24, "trees": 0}


def save_target(model: Any, tokenizer: Any, folder: Path, theta: float, shard: str) -> None:
    """In several shards, with an LM head of its own and RoPE's base on the config's top level."""
    shutil.rmtree(folder, ignore_errors=True)
    model.config.tie_word_embeddings = False
    scoring = model.get_output_embeddings()
    scoring.weight = torch.nn.Parameter(scoring.weight.detach().clone())
    model.save_pretrained(folder, max_shard_size=shard)
    tokenizer.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    config.pop("rope_parameters", None)
    config |= {
        "rope_theta": theta,
        "rope_scaling": None,
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    named = json.loads((folder / "tokenizer_config.json").read_text())
    named["tokenizer_class"] = "PreTrainedTokenizerFast"
    (folder / "tokenizer_config.json").write_text(json.dumps(named))


def save_head(tensors: dict[str, Tensor], config: dict[str, Any], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(tensors, folder / "pytorch_model.bin")
    (folder / "config.json").write_text(json.dumps({**config, "pad_token_id": 0}))


def save_jobs(
    folder: Path, target: Path, pair: dict[str, str], prompts: list[list[int]], jobs: list[Any]
) -> None:
    asked = {
        "target": str(target),
        "head": str(folder / "head"),
        "pair": pair,
        "prompts": prompts,
        "jobs": jobs,
    }
    (folder / "jobs.json").write_text(json.dumps(asked))


def prepare_tiny(out: Path) -> None:
    """The prompts are those of the fixture that is there."""
    model, tensors, tokenizer = tiny_parts()
    pair = {"target": checksum(model.state_dict()), "head": checksum(tensors)}
    runs = json.loads(TINY_PROMPTS.read_text())["runs"]
    prompts = [run["prompt"] for run in runs if run["tree"] == "60/6/10"]
    save_head(tensors, TINY_CONFIG, out / "tiny" / "head")
    save_target(model, tokenizer, out / "tiny" / "target", 10000.0, "20KB")
    save_jobs(out / "tiny", out / "tiny" / "target", pair, prompts, TINY_JOBS)


def prepare_built_in(out: Path) -> None:
    """The built-in target with the shipped head and with a seeded one; two prompts of each kind."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from eagle.builtin import target_folder
    from eagle.text import encode

    source = target_folder(lambda sentence, fraction: None)
    tokenizer = AutoTokenizer.from_pretrained(source)
    model: Any = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    questions = [json.loads(line) for line in PROMPTS.read_text(encoding="utf-8").splitlines()]
    kinds = {question["category"]: [] for question in questions}
    for question in questions:
        kinds[question["category"]].append(encode(tokenizer, question["turns"][0]).token)
    prompts = [texts[turn] for turn in range(2) for texts in kinds.values()]
    config = json.loads((BUILTIN_HEAD / "config.json").read_text())
    config.pop("eagle", None)
    weights = BUILTIN_HEAD / "model.safetensors"
    trained = {name: tensor.float() for name, tensor in load_file(weights).items()}
    seeded = dict(builtin_head(model.config).state_dict())
    target = out / "builtin_target"
    for name, tensors, pair, jobs in (
        ("builtin_seeded_head", seeded, {"head": checksum(seeded)}, TREE_JOBS),
        (
            "builtin_trained_head",
            trained,
            {"head_sha256": hashlib.sha256(weights.read_bytes()).hexdigest()},
            [*TREE_JOBS, TEXT_JOB],
        ),
    ):
        save_head(tensors, config, out / name / "head")
        save_jobs(out / name, target, pair, prompts, jobs)
    save_target(model, tokenizer, target, 100000.0, "200MB")


if __name__ == "__main__":
    folder = Path(sys.argv[1]).resolve()
    prepare_tiny(folder)
    prepare_built_in(folder)
