"""From names to a ready pair: the only file that touches hub, disk, device and number type."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from eagle import builtin, head_files
from eagle.builtin import LoadError, Progress, quiet_transformers
from eagle.costs import probe
from eagle.decoder import Pair
from eagle.draft_head import DraftHead, RotaryTable
from eagle.fast_llama import FastLlamaTarget
from eagle.linear import Int8, LinearKind, Packed, Plain, packing_works
from eagle.target import Target, TransformersTarget
from eagle.trace import ModelInfo, PairInfo

__all__ = ["LoadError", "load"]

BUILTIN_HEAD = Path(__file__).parent.parent / "assets" / "head"
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def load(
    target: str | None = None,
    head: str | None = None,
    device: str | None = None,
    dtype: str | None = None,
    weights: str = "fp32",
    *,
    progress: Progress | None = None,
) -> Pair:
    """A target and its head, ready to decode. Without names: the built-in pair.

    ``target`` and ``head`` are folders or hub ids; ``device`` defaults to the GPU if there is one;
    ``dtype`` to bfloat16 there and float32 on the CPU. Raises LoadError with one plain sentence.
    """
    say = progress or (lambda sentence, fraction: None)
    place = pick_device(device)
    number = pick_dtype(dtype, place)
    folder, name, digest = _target_folder(target, say)
    say(f"loading {name}", None)
    model, tokenizer = _load_model(folder, number, place)
    kind = linear_kind(weights, place, number)
    parameters = sum(p.numel() for p in model.parameters())
    ends = end_tokens(model, tokenizer)
    runner: Target
    if kind is not Plain and FastLlamaTarget.fits(model):
        runner = FastLlamaTarget(model, ends, kind)
    elif weights == "int8":
        raise LoadError(f"weights int8 are for Llama targets on the CPU; {name} runs as it is.")
    else:
        runner = TransformersTarget(model, ends)
    info = ModelInfo(
        name=name,
        hash=digest,
        dtype=str(number).removeprefix("torch."),
        weights=weights,
        device=str(place),
        parameters=parameters,
    )
    head_folder = Path(head) if head else BUILTIN_HEAD if target is None else None
    if head_folder is None:
        return Pair(runner, None, tokenizer, PairInfo(target=info))
    say(f"loading head {head_folder.name}", None)
    drafter, head_info, notes = load_head(head_folder, runner, info, model, kind)
    size = None if drafter.vocabulary is None else drafter.draft_vocabulary_size
    pair_info = PairInfo(target=info, head=head_info, draft_vocabulary=size, notes=notes)
    pair = Pair(runner, drafter, tokenizer, pair_info)
    say("measuring what a pass costs on this machine", None)
    return replace(pair, info=pair_info.model_copy(update={"costs": probe(pair)}))


def pick_device(name: str | None) -> torch.device:
    """The named device, or the GPU if there is one, else the CPU."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise LoadError(f"device {name!r:.40} is unknown: use cpu, cuda or cuda:N.") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise LoadError(f"device {name} was asked for, but no CUDA device is available; use cpu.")
    return device


def pick_dtype(name: str | None, device: torch.device) -> torch.dtype:
    """The named number type, or bfloat16 on a GPU and float32 elsewhere."""
    if name is None:
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    if name not in DTYPES:
        raise LoadError(f"dtype {name!r:.40} is unknown: use {', '.join(DTYPES)}.")
    return DTYPES[name]


def linear_kind(weights: str, device: torch.device, dtype: torch.dtype) -> LinearKind:
    """Packed where packing works, int8 where it was asked for, else plain weights."""
    if weights not in ("fp32", "int8"):
        raise LoadError(f"weights {weights!r:.40} are unknown: use fp32 or int8.")
    if weights == "int8":
        if device.type != "cpu":
            raise LoadError(f"weights int8 run on the CPU only, but the device is {device}.")
        return Int8
    return Packed if packing_works(device, dtype) else Plain


def _target_folder(target: str | None, say: Progress) -> tuple[str, str, str | None]:
    """Folder or hub id to load from, the name to show, the hash of the weights' source."""
    if target is None:
        return str(builtin.target_folder(say)), builtin.NAME, builtin.SHA256
    return target, Path(target).name, None


def _load_model(folder: str, dtype: torch.dtype, device: torch.device) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    with quiet_transformers():
        try:
            tokenizer = AutoTokenizer.from_pretrained(folder)
            model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="sdpa")
        except (OSError, ValueError) as error:
            reason = str(error).splitlines()[0][:200]
            raise LoadError(f"The target {folder!r:.80} could not be loaded: {reason}") from error
    model.to(device)  # type: ignore[arg-type]
    return model.eval(), tokenizer


def end_tokens(model: Any, tokenizer: Any) -> frozenset[int]:
    """Every id that ends an answer: the generation config's, the model config's, the tokenizer's."""
    ids: set[int] = set()
    for source in (model.generation_config, model.config.get_text_config(), tokenizer):
        found = getattr(source, "eos_token_id", None)
        ids.update([found] if isinstance(found, int) else found or [])
    return frozenset(ids)


def load_head(
    folder: Path, target: Target, target_info: ModelInfo, model: Any, kind: LinearKind = Plain
) -> tuple[DraftHead, ModelInfo, list[str]]:
    """A head checked against its target, and notes that a visitor should see."""
    config = head_files.read_config(folder)
    tensors = head_files.read_tensors(folder)
    if config["hidden_size"] != target.hidden_size:
        raise LoadError(
            f"Head {folder.name} was made for hidden size {config['hidden_size']}, "
            f"but the target has {target.hidden_size}."
        )
    if config.get("vocab_size", target.vocab_size) != target.vocab_size:
        raise LoadError(
            f"Head {folder.name} was made for a vocabulary of {config['vocab_size']:,} tokens, "
            f"but the target has {target.vocab_size:,}."
        )
    module = head_files.build_module(folder.name, config, tensors)
    module = module.to(device=target.device, dtype=target.dtype).requires_grad_(False)
    vocabulary = head_files.read_vocabulary(folder, target.vocab_size)
    vocabulary = None if vocabulary is None else vocabulary.to(target.device)
    rotary = RotaryTable.plain(module.config.head_dim, _theta(config, model), target.device)
    trained_for = config.get("eagle", {}).get("target_sha256")
    notes = []
    if trained_for is None or trained_for != target_info.hash:
        notes.append(
            "This head was trained for another copy of this target, or does not say for which: the output is "
            "unchanged, fewer tokens may be accepted."
        )
    info = ModelInfo(
        name=folder.name,
        hash=weights_hash(folder),
        dtype=target_info.dtype,
        weights=target_info.weights,
        device=target_info.device,
        parameters=sum(value.numel() for value in tensors.values()),
    )
    return DraftHead(module, target, rotary, vocabulary, kind), info, notes


def weights_hash(folder: Path) -> str:
    """sha256 of the head's weight file."""
    path = next(folder / name for name in head_files.WEIGHTS if (folder / name).is_file())
    return builtin.sha256_of(path)


def _theta(config: dict[str, Any], model: Any) -> float:
    """RoPE base: the head's own, else the target's, else Llama's first."""
    for source in (config, model.config.get_text_config().to_dict()):
        rope = source.get("rope_parameters") or {}
        found = source.get("rope_theta") or rope.get("rope_theta")
        if found:
            return float(found)
    return 10000.0
