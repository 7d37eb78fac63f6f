"""From names to a ready pair: the only file that touches hub, disk, device and number type."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from eagle import builtin, head_files, head_loading, memory
from eagle.adapters import check
from eagle.builtin import LoadError, Progress, quiet_transformers
from eagle.costs import probe
from eagle.decoder import Pair
from eagle.fast_llama import FastLlamaTarget
from eagle.hub import folder_of, stored_size, with_weights
from eagle.linear import Int8, LinearKind, Packed, Plain, packing_works
from eagle.target import Target, TransformersTarget
from eagle.trace import ModelInfo, PairInfo

__all__ = ["LoadError", "load"]

BUILTIN_HEAD = Path(__file__).parent.parent / "assets" / "head"
OVERFLOWS_IN_HALF = ("qwen2", "qwen2_moe")
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

    ``target`` and ``head`` are folders or hub ids. ``device`` is cpu, cuda, cuda:N or auto (spread
    over everything there is); left out, the GPU if there is one. ``dtype`` left out is bfloat16 on a
    GPU and float32 on the CPU. What can be refused is refused before any weights are loaded. Raises
    LoadError with one plain sentence.
    """
    say = progress or (lambda sentence, fraction: None)
    spread = device == "auto"
    place = pick_device(None if spread else device)
    folder, name, digest = _target_folder(target, say)
    config = _target_config(folder, name)
    number = pick_dtype(dtype, place, config.model_type)
    kind = linear_kind(weights, place, number)
    where = "auto" if spread else str(place)
    if target is not None:  # an index tells the size before anything large is fetched
        _refuse_too_large(Path(folder), name, config, number, where)
    files = _head_files(target, head, config, say)
    if target is not None:
        folder = str(with_weights(target, Path(folder), "target", say))
        _refuse_too_large(Path(folder), name, config, number, where, files)
    say(f"loading {name}", None)
    model, tokenizer = _load_model(folder, number, place, spread=spread)
    info = ModelInfo(
        name=name,
        hash=digest,
        dtype=str(number).removeprefix("torch."),
        weights=weights,
        device="several" if len(set(getattr(model, "hf_device_map", {}).values())) > 1 else str(place),
        parameters=sum(p.numel() for p in model.parameters()),
    )
    eagle3 = files is not None and files.is_eagle3
    runner = _runner(model, end_tokens(model, tokenizer), kind, weights, plain=eagle3 or spread)
    notes = [*getattr(runner, "notes", ()), *_dtype_notes(number, config.model_type)]
    if files is None:
        return Pair(runner, None, tokenizer, PairInfo(target=info, notes=notes))
    return _with_head(
        Pair(runner, None, tokenizer, PairInfo(target=info, notes=notes)), files, config, kind, say
    )


def _runner(model: Any, ends: frozenset[int], kind: LinearKind, weights: str, *, plain: bool) -> Target:
    """The fastest target that describes this model; one that transformers runs is tried on a small tree."""
    if kind is not Plain and not plain and FastLlamaTarget.fits(model):
        return FastLlamaTarget(model, ends, kind)
    if weights == "int8":
        raise LoadError("weights int8 are for Llama targets with EAGLE-1/2 heads on the CPU; use fp32 here.")
    runner = TransformersTarget(model, ends)
    check(runner)
    return runner


def _with_head(
    pair: Pair, files: head_loading.HeadFiles, config: Any, kind: LinearKind, say: Progress
) -> Pair:
    """The pair with its head fitted and its costs measured."""
    say(f"loading head {files.name}", None)
    drafter = head_loading.fit(files, pair.target, config, kind)
    target = pair.info.target
    head = ModelInfo(
        name=files.name,
        hash=files.hash,
        dtype=target.dtype,
        weights=target.weights,
        device=str(pair.target.device),
        parameters=files.parameters,
    )
    trained_for = files.config.get("eagle", {}).get("target_sha256")
    notes = [*pair.info.notes, *files.notes]
    if trained_for is None or trained_for != target.hash:
        notes.append(head_loading.OTHER_COPY)
    size = None if drafter.vocabulary is None else drafter.draft_vocabulary_size
    info = PairInfo(target=target, head=head, draft_vocabulary=size, notes=notes)
    pair = Pair(pair.target, drafter, pair.tokenizer, info)
    say("measuring what a pass costs on this machine", None)
    return replace(pair, info=info.model_copy(update={"costs": probe(pair)}))


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


def pick_dtype(name: str | None, device: torch.device, family: str = "") -> torch.dtype:
    """The named number type; left out, float32 on the CPU and on a GPU the best half type it has.

    Qwen2 overflows in float16, so a GPU without bfloat16 runs it in float32 unless float16 is asked for.
    """
    if name is None:
        if device.type != "cuda":
            return torch.float32
        if torch.cuda.is_bf16_supported(including_emulation=False):
            return torch.bfloat16
        return torch.float32 if family in OVERFLOWS_IN_HALF else torch.float16
    if name not in DTYPES:
        raise LoadError(f"dtype {name!r:.40} is unknown: use {', '.join(DTYPES)}.")
    return DTYPES[name]


def _dtype_notes(dtype: torch.dtype, family: str) -> list[str]:
    if dtype is torch.float16 and family in OVERFLOWS_IN_HALF:
        return [f"Targets of the family {family} can overflow in float16; bfloat16 or float32 is advised."]
    return []


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
    """Folder to load from, the name to show, the hash of the weights' source."""
    if target is None:
        return str(builtin.target_folder(say)), builtin.NAME, builtin.SHA256
    return str(folder_of(target, "target", say)), Path(target).name, None


def _target_config(folder: str, name: str) -> Any:
    """The text part of the target's config; LoadError where there is none or it is of no known kind."""
    from transformers import AutoConfig

    if not (Path(folder) / "config.json").is_file():
        raise LoadError(f"The target folder {name} has no config.json, so what it is is unknown.")
    try:
        return AutoConfig.from_pretrained(folder).get_text_config()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise LoadError(f"The config.json of target {name} is not understood: {first_line(error)}") from error


def _head_files(
    target: str | None, head: str | None, config: Any, say: Progress
) -> head_loading.HeadFiles | None:
    """The head's files; its config is held against the target's before its weights are fetched."""
    if head is None:
        return head_loading.read(BUILTIN_HEAD) if target is None else None
    folder = folder_of(head, "head", say)
    described = head_files.read_config(folder)
    vocabulary = int(getattr(config, "vocab_size", 0) or described.get("vocab_size") or 0)
    head_loading.refuse_another_target(folder.name, described, config.hidden_size, vocabulary)
    return head_loading.read(with_weights(head, folder, "head", say))


def _refuse_too_large(
    folder: Path,
    name: str,
    config: Any,
    dtype: torch.dtype,
    device: str,
    files: head_loading.HeadFiles | None = None,
) -> None:
    """LoadError where target and head can not fit; silent where the size is not known yet."""
    stored, kept = stored_size(folder), getattr(config, "dtype", None)
    if stored is None:
        return
    asked = memory.needed(stored, kept.itemsize if isinstance(kept, torch.dtype) else 2, dtype)
    asked += files.parameters * dtype.itemsize if files else 0
    memory.refuse_what_does_not_fit(name, asked, device)


def _load_model(
    folder: str, dtype: torch.dtype, device: torch.device, *, spread: bool = False
) -> tuple[Any, Any]:
    """The model and its tokenizer; ``spread`` lets accelerate lay the layers out over all devices."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    with quiet_transformers():
        try:
            tokenizer = AutoTokenizer.from_pretrained(folder)
            placed = {"device_map": "auto"} if spread else {}
            model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, **placed)
        except (OSError, ValueError, RuntimeError, KeyError, TypeError, SafetensorError) as error:
            raise LoadError(
                f"The target {Path(folder).name!r:.80} could not be loaded: {first_line(error)}"
            ) from error
    if not spread:
        model.to(device)
    return model.eval().requires_grad_(False), tokenizer


def first_line(error: Exception) -> str:
    """The first line of another library's message, short, with a full stop."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:200].rstrip(".") + "."


def end_tokens(model: Any, tokenizer: Any) -> frozenset[int]:
    """Every id that ends an answer: the generation config's, the model config's, the tokenizer's."""
    ids: set[int] = set()
    for source in (model.generation_config, model.config.get_text_config(), tokenizer):
        found = getattr(source, "eos_token_id", None)
        ids.update([found] if isinstance(found, int) else found or [])
    return frozenset(ids)


def _theta(config: dict[str, Any], model: Any) -> float:
    """RoPE base of a head for this model."""
    return head_loading.theta(config, model.config.get_text_config())
