"""The draft head at work: its own cache, its rotary positions, its (trimmed) vocabulary.

The cache of the head holds the target's features for every committed token, never guesses: what a
draft adds for its own nodes is forgotten when the draft ends.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eagle.attention import attend_rows, block_bias
from eagle.cache import KVCache
from eagle.head import HeadModule
from eagle.linear import LinearKind, Plain, with_linears
from eagle.target import PREFILL_CHUNK, Target, causal

Rotary = Callable[[Tensor], tuple[Tensor, Tensor]]


class RotaryTable:
    """Cosines and sines for any position, made on demand; no trained length limits it."""

    def __init__(self, inverse_frequencies: Tensor, scaling: float = 1.0) -> None:
        self.inverse_frequencies = inverse_frequencies.float()
        self.scaling = scaling
        self._cos = self._sin = inverse_frequencies.new_zeros(0, 2 * inverse_frequencies.shape[0])

    @classmethod
    def plain(cls, head_dim: int, theta: float, device: torch.device) -> RotaryTable:
        """The unscaled table: angle = position / theta^(2i / D)."""
        steps = torch.arange(0, head_dim, 2, dtype=torch.float32, device=device)
        return cls(1.0 / theta ** (steps / head_dim))

    def __call__(self, start: int, count: int) -> tuple[Tensor, Tensor]:
        """cos, sin [1, count, D] of positions start .. start + count - 1, in fp32."""
        if start + count > self._cos.shape[0]:
            size = max(1024, 2 * (start + count))
            positions = torch.arange(size, dtype=torch.float32, device=self.inverse_frequencies.device)
            angles = torch.outer(positions, self.inverse_frequencies).repeat(1, 2)
            self._cos, self._sin = angles.cos() * self.scaling, angles.sin() * self.scaling
        return self._cos[None, start : start + count], self._sin[None, start : start + count]


class DraftHead:
    """A head beside its target. ``vocabulary`` [V'] lists the token ids it may propose (None: all);
    ``embedding`` [V, H] is there where the head's file holds other embeddings than the target's.

    The draft scores only those rows of the target's LM head (FR-Spec, arXiv 2502.14856). Any
    candidate list is allowed under the acceptance rule, so trimming changes how many drafts are
    accepted and never what comes out.
    """

    def __init__(
        self,
        module: HeadModule,
        target: Target,
        rotary: RotaryTable,
        vocabulary: Tensor | None = None,
        kind: LinearKind = Plain,
        embedding: Tensor | None = None,
    ) -> None:
        self.module: Any = with_linears(module.eval(), kind)
        self.target = target
        self.rotary = rotary
        self.vocabulary = vocabulary
        self.embedding = embedding
        rows = target.lm_head_weight()
        rows = rows if vocabulary is None else rows[vocabulary].contiguous()
        self.scores = kind(rows)

    @property
    def draft_vocabulary_size(self) -> int:
        return self.target.vocab_size if self.vocabulary is None else self.vocabulary.shape[0]

    @cached_property
    def vocabulary_here(self) -> NDArray[np.int64]:
        """The draft vocabulary [V'] on the host, brought once."""
        ids = torch.arange(self.target.vocab_size) if self.vocabulary is None else self.vocabulary
        return ids.cpu().numpy()

    def new_cache(self, capacity: int) -> KVCache:
        return KVCache(1, capacity)

    def extend(self, tokens: Tensor, features: Tensor, cache: KVCache) -> Tensor:
        """Commits pairs (token t+1 [n], feature t [n, H]) and returns the last guess [1, H]."""
        guess = features[-1:]
        for start in range(0, tokens.shape[0], PREFILL_CHUNK):
            chunk = slice(start, start + PREFILL_CHUNK)
            block = causal(tokens[chunk].shape[0], tokens.device)
            guess = self._pass(tokens[chunk], features[chunk], block, cache.length, cache)
            cache.keep_first(guess.shape[0])
        return guess[-1:]

    def grow(self, tokens: Tensor, features: Tensor, seen: Tensor, position: int, cache: KVCache) -> Tensor:
        """One level of a tree: tokens [m] with their parents' guesses [m, H] -> their own guesses [m, H].

        All sit at ``position``; ``seen`` [m, B] says which of the last B rows (this level's m rows
        last) each may see. The rows stay in the cache until the caller resets its length.
        """
        guess = self._pass(tokens, features, seen, None, cache, position)
        cache.keep_first(guess.shape[0])
        return guess

    def log_confidence(self, guesses: Tensor) -> Tensor:
        """Log-probabilities [m, V'] of the next token given guesses [m, H], never above 0."""
        return self.scores(guesses).float().log_softmax(-1).clamp_(max=0.0)

    def token_ids(self, index: Tensor) -> Tensor:
        """Columns of ``log_confidence`` as token ids."""
        return index if self.vocabulary is None else self.vocabulary[index]

    def _pass(
        self,
        tokens: Tensor,
        features: Tensor,
        seen: Tensor,
        start: int | None,
        cache: KVCache,
        position: int = 0,
    ) -> Tensor:
        n = tokens.shape[0]
        cos, sin = self.rotary(start, n) if start is not None else self.rotary(position, 1)
        bias = block_bias(seen, features.dtype)

        def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            keys, values = cache.write(0, k, v)
            return attend_rows(q, keys, values, bias)

        cos, sin = cos.to(features.dtype), sin.to(features.dtype)
        return self.module(self._embed(tokens)[None], features[None], cos, sin, attend)[0]

    def _embed(self, tokens: Tensor) -> Tensor:
        """Embeddings [n, H]: the target's, or the head's own where its file holds others."""
        return self.target.embed(tokens) if self.embedding is None else self.embedding[tokens]
