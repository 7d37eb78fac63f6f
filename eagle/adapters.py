"""What differs between families of transformers models, read from the model's own modules and config.

Nothing of a family's forward pass is written again here. What the decoder must know is: which masks
the layers ask for, what is done to the logits behind the LM head, what is done to the embeddings in
front of the first layer, and up to which length positions mean the same in every pass. Whatever is
not understood is refused by name; and what is understood is tried once on a small tree
(:func:`check`), so that a family that ignores the mask is refused at load and not found out by its
text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from eagle.builtin import LoadError

if TYPE_CHECKING:
    from eagle.target import TransformersTarget

FULL, SLIDING = "full_attention", "sliding_attention"
BACK_ENDS = ("sdpa", "eager")
# Rotary tables that change with the length of a pass: keys cached before the change no longer fit.
CHANGING_ROPE = ("dynamic", "longrope", "yarn_dynamic")


@dataclass(frozen=True)
class Anatomy:
    """Where a model keeps what, and what it does besides.

    ``masks`` are the layer types that want a mask of their own (empty: one mask for all layers, with
    the window if there is one). ``window`` is the length of a sliding window. Logits are the LM
    head's output times ``logit_factor``, then capped smoothly at ``softcap``.
    """

    family: str
    backbone: nn.Module
    lm_head: nn.Module
    embedding: nn.Module
    layers: int
    hidden_size: int
    max_context: int
    masks: tuple[str, ...] = ()
    window: int | None = None
    logit_factor: float = 1.0
    softcap: float | None = None
    embedding_factor: float = 1.0
    notes: tuple[str, ...] = ()


def anatomy(model: Any) -> Anatomy:
    """Reads a causal LM; LoadError names a family that can not be verified as a tree, and why."""
    config = model.config.get_text_config()
    family = str(config.model_type)
    _refuse_what_can_not_work(model, config, family)
    layer_types = getattr(config, "layer_types", None)
    window = getattr(config, "sliding_window", None)
    masks = tuple(sorted(set(layer_types))) if layer_types else ()
    length, notes = _context(config, family)
    return Anatomy(
        family=family,
        backbone=model.get_decoder() if model.config is not config else model.base_model,
        lm_head=model.get_output_embeddings(),
        embedding=model.get_input_embeddings(),
        layers=config.num_hidden_layers,
        hidden_size=config.hidden_size,
        max_context=length,
        masks=masks,
        window=window if not masks or SLIDING in masks else None,
        logit_factor=_logit_factor(config),
        softcap=getattr(config, "final_logit_softcapping", None),
        embedding_factor=float(getattr(config, "embedding_multiplier", None) or 1.0),
        notes=notes,
    )


def _refuse_what_can_not_work(model: Any, config: Any, family: str) -> None:
    if getattr(model.config, "is_encoder_decoder", False):
        raise LoadError(f"The target is an encoder-decoder model ({family}); a causal LM is needed.")
    if model.get_output_embeddings() is None:
        raise LoadError(f"The target ({family}) has no LM head; a causal LM is needed.")
    back_end = config._attn_implementation
    if back_end not in BACK_ENDS:
        raise LoadError(
            f"The target runs with {back_end} attention, which drops the mask that a tree needs; "
            f"use {' or '.join(BACK_ENDS)}."
        )
    others = sorted(set(getattr(config, "layer_types", None) or ()) - {FULL, SLIDING})
    if others:
        raise LoadError(
            f"Targets of the family {family} can not be verified as a tree: their {others[0]} layers keep "
            f"a state that a rejected branch can not be taken out of."
        )


def _context(config: Any, family: str) -> tuple[int, tuple[str, ...]]:
    """How many tokens fit, and a note where that is fewer than the model itself takes."""
    length = int(getattr(config, "max_position_embeddings", 0) or 2**20)
    rope = getattr(config, "rope_parameters", None) or {}
    kinds = rope.values() if rope and all(isinstance(v, dict) for v in rope.values()) else [rope]
    for kind in kinds:
        if kind.get("rope_type") in CHANGING_ROPE:
            fixed = int(
                kind.get("original_max_position_embeddings")
                or getattr(config, "original_max_position_embeddings", None)
                or length
            )
            if fixed < length:
                note = (
                    f"This target's rotary positions change beyond {fixed:,} tokens, in the middle of a run; "
                    f"so its context ends there."
                )
                return fixed, (note,)
    return length, ()


def _logit_factor(config: Any) -> float:
    """Granite divides its logits, Cohere multiplies them."""
    divisor = getattr(config, "logits_scaling", None)
    factor = getattr(config, "logit_scale", None)
    return (1.0 / float(divisor) if divisor else 1.0) * (float(factor) if factor else 1.0)


def additive(visible: Tensor, dtype: torch.dtype) -> Tensor:
    """bool [N, T] -> [1, 1, N, T]: 0 where a row sees a column, the smallest number elsewhere."""
    bias = torch.zeros(visible.shape, dtype=dtype, device=visible.device)
    return bias.masked_fill_(~visible, torch.finfo(dtype).min)[None, None]


def masks_for(
    parts: Anatomy, positions: Tensor, block: Tensor, committed: int, dtype: torch.dtype
) -> Tensor | dict[str, Tensor]:
    """The mask of a pass of N rows over ``committed`` rows and themselves, one for each layer type.

    Row i sees every committed row and row j where ``block`` [N, N] says so; in a layer with a
    window of W only those less than W positions before it. A tree's rows stand at the positions of
    their depths, so the window counts along each path:

        positions 5 6 6 7, W = 2, the last below the second:    1 0 0 0
        the root is two positions before the last row,          1 1 0 0
        so only its parent and itself are in the window         1 0 1 0
                                                                0 1 0 1
    """
    n = positions.shape[0]
    everything = torch.cat((block.new_ones(n, committed), block), dim=1)
    full = additive(everything, dtype)
    if parts.window is None:
        return dict.fromkeys(parts.masks, full) if parts.masks else full
    columns = torch.cat((torch.arange(committed, device=positions.device), positions))
    near = columns > positions[:, None] - parts.window
    sliding = additive(everything & near, dtype)
    if not parts.masks:
        return sliding
    return {kind: sliding if kind == SLIDING else full for kind in parts.masks}


@torch.inference_mode()
def check(target: TransformersTarget) -> None:
    """Tries a small tree: every row must equal a plain pass of the model's own over that row's path.

    Raises LoadError with the family's name where the model can not do it or does it wrongly.
    """
    family = target.parts.family
    ids = torch.arange(1, 11, device=target.device) % target.vocab_size
    try:
        rows, alone = _tree_and_paths(target, ids)
    except (TypeError, ValueError, RuntimeError, AttributeError, IndexError, KeyError) as error:
        raise LoadError(
            f"Targets of the family {family} can not be verified as a tree: the model does not take "
            f"our mask and cache ({type(error).__name__})."
        ) from error
    scale = float(alone.abs().max()) or 1.0
    allowed = scale * (1e-3 if target.dtype == torch.float32 else 0.06)
    finite = bool(torch.isfinite(rows).all() and torch.isfinite(alone).all())
    if finite and float((rows - alone).abs().max()) > allowed:
        raise LoadError(
            f"Targets of the family {family} can not be verified as a tree: a pass over a tree gives other "
            f"logits than the model's own pass over each path, so mask or positions are not followed."
        )


def _tree_and_paths(target: TransformersTarget, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Logits [5, V] of a root, its two children and a child of each, and of the five paths alone."""
    start, paths = 5, ((5,), (5, 6), (5, 7), (5, 6, 8), (5, 7, 9))
    cache = target.new_cache(start + len(paths))
    target.forward(ids[:start], torch.arange(start, device=target.device), None, cache)
    cache.keep_first(start)
    block = torch.tensor([[path[-1] in other for path in paths] for other in paths], device=target.device)
    depth = torch.tensor([len(path) - 1 for path in paths], device=target.device)
    rows = target.logits(target.forward(ids[start:], depth + start, block, cache))
    alone = []
    for path in paths:
        text = torch.cat((ids[:start], ids[list(path)]))
        out = target.model(input_ids=text[None].to(target.input_device), use_cache=False)
        alone.append(out.logits[0, -1].to(target.device))
    return rows.float(), torch.stack(alone).float()
