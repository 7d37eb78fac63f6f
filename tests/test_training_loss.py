"""The loss against plain autograd, the unrolled passes against drafting, Muon against torch's."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from eagle.draft_head import RotaryTable
from eagle.training import loss
from eagle.training.loss import Batch, LossWeights, SoftCrossEntropy, Trainee, soft_targets
from eagle.training.optimizers import Muon, orthogonal
from eagle.training.unroll import unrolled_guesses
from tests.tiny import HEAD_DIM, HIDDEN, tiny_pair


def test_each_unrolled_pass_guesses_what_drafting_would_guess():
    """Pass j at position t + j - 1 is what the head says when it drafts j deep from true features up to t."""
    pair = tiny_pair()
    head, target = pair.head, pair.target
    torch.manual_seed(3)
    tokens, features = torch.randint(0, 256, (12,)), torch.randn(12, HIDDEN)
    cos, sin = RotaryTable.plain(HEAD_DIM, 10000.0, torch.device("cpu"))(0, 12)
    with torch.inference_mode():
        passes = unrolled_guesses(head.module, target.embed(tokens)[None], features[None], cos, sin, 4)
        for known in (3, 6, 9):
            cache = head.new_cache(64)
            guess = head.extend(tokens[:known], features[:known], cache)
            torch.testing.assert_close(guess[0], passes[0][0, known - 1])
            for deeper in range(1, min(4, 12 - known)):
                seen = torch.ones(1, deeper, dtype=torch.bool)
                at = known + deeper - 1
                guess = head.grow(tokens[at : at + 1], guess, seen, at, cache)
                torch.testing.assert_close(guess[0], passes[deeper][0, at], rtol=1e-3, atol=1e-3)


def plain_loss(trainee: Trainee, batch: Batch, rows: torch.Tensor) -> torch.Tensor:
    """The same loss written out with whole tensors, positions counted alike."""
    w, total, decay_sum = trainee.weights, torch.zeros(()), 0.0
    guesses = unrolled_guesses(
        trainee.head, batch.embeddings, batch.features, batch.cos, batch.sin, trainee.unroll
    )
    p = (batch.wanted @ rows.T).softmax(-1).detach()
    best = torch.zeros_like(p).scatter(-1, p.topk(w.top_count).indices, 1.0)
    for depth, guess in enumerate(guesses):
        weight = batch.weight[:, depth:] / batch.weight[:, depth:].sum()
        log_q = (guess @ rows.T).log_softmax(-1)
        token = -((w.token * p + w.top * p * best) * log_q).sum(-1)[:, depth:]
        feature = F.smooth_l1_loss(guess, batch.wanted, reduction="none").mean(-1)[:, depth:]
        total = total + w.step_decay**depth * ((w.feature * feature + token) * weight).sum()
        decay_sum += w.step_decay**depth
    return total / decay_sum


@pytest.mark.parametrize("chunk", [5, 1024])
def test_loss_and_gradients_equal_the_plain_formula(chunk, monkeypatch):
    monkeypatch.setattr(loss, "CHUNK", chunk)
    torch.manual_seed(1)
    pair = tiny_pair()
    weights = LossWeights(feature=0.7, token=0.5, top=0.3, top_count=6, prompt=0.2, step_decay=0.8)
    trainee = Trainee(pair.head.module, weights, 3)
    cos, sin = RotaryTable.plain(HEAD_DIM, 10000.0, torch.device("cpu"))(0, 9)
    weight = torch.rand(2, 9)
    batch = Batch(*(torch.randn(2, 9, HIDDEN) for _ in range(3)), weight, cos, sin)
    rows = torch.randn(50, HIDDEN) * 0.3
    found = {}
    for name, value in (("fast", trainee(batch, rows)[0]), ("plain", plain_loss(trainee, batch, rows))):
        trainee.zero_grad()
        value.backward()
        found[name] = [value.detach(), *(p.grad.clone() for p in trainee.parameters())]
    for fast, plain in zip(found["fast"], found["plain"], strict=True):
        torch.testing.assert_close(fast, plain, rtol=1e-4, atol=1e-6)


def test_token_loss_is_smallest_where_the_guess_is_the_feature():
    torch.manual_seed(2)
    rows, feature = torch.randn(20, HIDDEN), torch.randn(4, HIDDEN)
    goal = soft_targets(feature, rows, LossWeights(token=1.0))
    guess = feature.clone().requires_grad_()
    SoftCrossEntropy.apply(guess, rows, goal, torch.full((4,), 0.25)).backward()
    assert float(guess.grad.abs().max()) < 1e-6


def test_orthogonal_brings_singular_values_near_one():
    torch.manual_seed(0)
    for shape in ((8, 20), (20, 8), (16, 16)):
        values = torch.linalg.svdvals(orthogonal(torch.randn(shape)))
        assert 0.5 < float(values.min()) <= float(values.max()) < 1.3


def test_muon_steps_equal_torchs_own_to_bfloat16():
    torch.manual_seed(0)
    start = torch.randn(8, 12)
    ours, theirs = torch.nn.Parameter(start.clone()), torch.nn.Parameter(start.clone())
    mine = Muon([ours], lr=1e-2, weight_decay=0.1)
    reference = torch.optim.Muon([theirs], lr=1e-2, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    for _ in range(4):
        ours.grad = torch.randn(8, 12)
        theirs.grad = ours.grad.clone()
        mine.step()
        reference.step()
    with torch.no_grad():
        moved, apart = (theirs - start).abs().max(), (ours - theirs).abs().max()
    assert apart < 0.03 * moved
