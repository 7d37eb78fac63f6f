"""What the host gets of a step: one copy, after the target's pass.

On a GPU every number that the host reads makes it wait until the GPU is done. So a step drafts and
verifies on the device without reading anything there; then :func:`bring` copies what judging and
the record look at, all in one piece: the tree with its confidences, and of the target's logits at
temperature 0 the best token of each row, above it the rows themselves in the target's own number
type (which of them the walk visits is not known before, and the law is computed here, in float64).

What is read before that, because the host has to decide there:

- ``tree="auto"``: the new candidates' values, once a level, to decide whether another level pays
  (``eagle/expansion.py``);
- chain and eagle1: once a level, the best columns at temperature 0, above it the confidences of the
  whole draft vocabulary, because their tokens are drawn in float64 by the run's own generator
  (``eagle/static_tree.py``).

``tests/test_host.py`` counts all of it on a pretended device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from eagle.drafts import Draft
from eagle.rules import Array
from eagle.sampling import check_logits, distribution, token_probabilities
from eagle.settings import Settings
from eagle.tree import Candidates


@dataclass(frozen=True)
class Rows:
    """The target's logits [N + 1, V] at the root and each node, as far as the host needs them.

    ``best`` [N + 1] are the tokens with the largest logits, all that counts at temperature 0; above
    it ``logits`` holds the rows.
    """

    settings: Settings
    vocab_size: int
    best: list[int] | None
    logits: Tensor | None

    def p(self, row: int) -> Array:
        """The target's distribution [V] at a row, in float64."""
        if self.best is not None:
            p = np.zeros(self.vocab_size)
            p[self.best[row]] = 1.0
            return p
        assert self.logits is not None
        return distribution(self.logits[row].float().numpy(), self.settings)

    def p_of(self, rows: Sequence[int], tokens: Sequence[int]) -> list[float]:
        """p of one token at each of some rows, to about 1e-7; builds no distribution."""
        if self.best is not None:
            return [float(self.best[row] == token) for row, token in zip(rows, tokens, strict=True)]
        assert self.logits is not None
        return token_probabilities(
            self.logits.float(), torch.tensor(rows), torch.tensor(tokens), self.settings
        ).tolist()


@torch.inference_mode()
def bring(drafted: Draft | None, logits: Tensor, settings: Settings, where: str) -> tuple[Draft | None, Rows]:
    """The draft and the rows of logits [N + 1, V] on the host, by one copy; ``block`` stays where it is.

    Raises NumericsError, which says ``where``, if a row of logits is no row of logits.
    """
    vocab_size = logits.shape[-1]
    greedy = settings.temperature == 0
    wanted = list(logits.max(dim=-1)) if greedy else [logits]
    parts = [] if drafted is None else [*_fields(drafted.kept), *_fields(drafted.cut)]
    wanted_here, parts = _split(fetch([*wanted, *parts]), len(wanted))
    check_logits(wanted_here[0][:, None] if greedy else wanted_here[0], where)
    rows = (
        Rows(settings, vocab_size, wanted_here[1].tolist(), None)
        if greedy
        else Rows(settings, vocab_size, None, wanted_here[0])
    )
    if drafted is None:
        return None, rows
    kept, cut = _split(parts, len(parts) // 2)
    return replace(drafted, kept=Candidates(*kept), cut=Candidates(*cut)), rows


def _fields(candidates: Candidates) -> list[Tensor]:
    return [getattr(candidates, name) for name in Candidates.__dataclass_fields__]


def _split(values: list[Tensor], at: int) -> tuple[list[Tensor], list[Tensor]]:
    return values[:at], values[at:]


def fetch(tensors: Sequence[Tensor]) -> list[Tensor]:
    """These tensors on the host, by one copy; as they are where they lie there already."""
    if all(tensor.device.type == "cpu" for tensor in tensors):
        return list(tensors)
    return unpack(on_host(pack(tensors)), tensors)


def pack(tensors: Sequence[Tensor]) -> Tensor:
    """The bytes of all tensors, those with the widest entries first: so each begins where its type may."""
    return torch.cat([tensors[i].contiguous().view(-1).view(torch.uint8) for i in _widest_first(tensors)])


def unpack(packed: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """The tensors whose bytes :func:`pack` put together; ``like`` tells their types and shapes."""
    found, start = dict[int, Tensor](), 0
    for i in _widest_first(like):
        end = start + like[i].numel() * like[i].element_size()
        found[i] = packed[start:end].view(like[i].dtype).view(like[i].shape)
        start = end
    return [found[i] for i in range(len(like))]


def _widest_first(tensors: Sequence[Tensor]) -> list[int]:
    return sorted(range(len(tensors)), key=lambda i: -tensors[i].element_size())


def on_host(packed: Tensor) -> Tensor:
    """The one copy; by way of page-locked memory from a GPU, which is several times faster."""
    if not packed.is_cuda:
        return packed.cpu()
    return torch.empty(packed.shape, dtype=packed.dtype, pin_memory=True).copy_(packed)
