"""From pieces of the corpus to a batch of pairs that the head is trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from eagle.training.features import Features
from eagle.training.loss import Batch
from eagle.training.shards import Piece, Shard
from eagle.training.source import Source


@dataclass(frozen=True)
class Reader:
    """Joins tokens and features into pairs, on the target's device, in fp32."""

    source: Source
    shards: Sequence[Shard]
    features: Features

    def batch(
        self,
        pieces: Sequence[Piece],
        prompt_weight: float,
        noise: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> Batch:
        """Pieces of one length n as n - 1 pairs.

        Position t reads token t+1 and feature t, and wants feature t+1.

        A pair counts fully where token t+2, the one that it helps to guess, belongs to an answer, and
        with ``prompt_weight`` elsewhere. The noise is uniform in [-noise, noise].
        """
        device = self.source.target.device
        features = self.features.of(pieces).to(device, torch.float32)
        tokens, answers = self.tokens(pieces), self._answers(pieces)
        guessed = torch.cat((answers[:, 2:], answers[:, -1:]), dim=1)
        weight = torch.where(guessed, 1.0, prompt_weight).to(device)
        read = features[:, :-1]
        if noise:
            read = read + (torch.rand(read.shape, generator=generator, device=device) * 2 - 1) * noise
        rotary = self.source.rotary(self.source.head_config().head_dim, device)
        cos, sin = rotary(0, read.shape[1])
        embeddings = self.source.target.embed(tokens[:, 1:]).float()
        return Batch(embeddings, read, features[:, 1:], weight, cos, sin)

    def tokens(self, pieces: Sequence[Piece]) -> Tensor:
        """Token ids [B, n]."""
        rows = [self.shards[p.shard].tokens[p.row, p.start : p.stop] for p in pieces]
        return torch.from_numpy(np.stack(rows).astype(np.int64)).to(self.source.target.device)

    def _answers(self, pieces: Sequence[Piece]) -> Tensor:
        rows = [self.shards[p.shard].assistant[p.row, p.start : p.stop] for p in pieces]
        return torch.from_numpy(np.stack(rows))


def scored_rows(source: Source, vocabulary: Tensor | None) -> Tensor:
    """The LM head's rows [V', H] that the draft scores, apart from the target's own copy."""
    rows = source.target.lm_head_weight().detach()
    return rows if vocabulary is None else rows[vocabulary.to(rows.device)].contiguous()
