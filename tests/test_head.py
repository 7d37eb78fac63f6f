"""The head's pass against the published layer written out plainly, for both generations of heads.

The plain versions below share nothing with ``eagle/head.py``: no cache, no grouped product, loops over
positions where a loop is the clearest.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from eagle import decoder
from eagle.costs import measure
from eagle.decoder import Pair
from eagle.draft_head import DraftHead, RotaryTable
from eagle.head import HeadConfig, HeadModule
from eagle.head3 import DraftHead3, Head3Module, watched_layers
from eagle.settings import Settings, SettingsError, Tree
from eagle.target import TransformersTarget
from tests.stubs import audited, ids_prompt, info, prompt_of
from tests.tiny import HEAD_DIM, HEADS, HIDDEN, INNER, KV_HEADS, byte_tokenizer, tiny_model

THETA = 10000.0


def rms(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    return weight * x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt()


def turned(x: Tensor, position: int) -> Tensor:
    """Rotates the pairs (i, i + D/2) of a vector [D] by position / theta^(2i/D)."""
    half = x.shape[0] // 2
    out = x.clone()
    for i in range(half):
        angle = position / THETA ** (2 * i / x.shape[0])
        out[i] = x[i] * math.cos(angle) - x[i + half] * math.sin(angle)
        out[i + half] = x[i + half] * math.cos(angle) + x[i] * math.sin(angle)
    return out


def attention(w: dict[str, Tensor], prefix: str, x: Tensor) -> Tensor:
    """Causal attention over [N, inputs], head by head and row by row."""

    def project(name: str) -> Tensor:
        bias = w.get(f"{prefix}.{name}_proj.bias")
        out = x @ w[f"{prefix}.{name}_proj.weight"].T
        return out if bias is None else out + bias

    q, k, v = project("q"), project("k"), project("v")
    n = x.shape[0]
    out = torch.zeros(n, HEADS * HEAD_DIM)
    for head in range(HEADS):
        mine = slice(head * HEAD_DIM, (head + 1) * HEAD_DIM)
        group = head // (HEADS // KV_HEADS)
        shared = slice(group * HEAD_DIM, (group + 1) * HEAD_DIM)
        keys = torch.stack([turned(k[j, shared], j) for j in range(n)])
        for i in range(n):
            scores = keys[: i + 1] @ turned(q[i, mine], i) / math.sqrt(HEAD_DIM)
            out[i, mine] = scores.softmax(0) @ v[: i + 1, shared]
    return out @ w[f"{prefix}.o_proj.weight"].T


def mlp(w: dict[str, Tensor], prefix: str, x: Tensor) -> Tensor:
    gate, up = x @ w[f"{prefix}.gate_proj.weight"].T, x @ w[f"{prefix}.up_proj.weight"].T
    return (F.silu(gate) * up) @ w[f"{prefix}.down_proj.weight"].T


def plain_eagle2(w: dict[str, Tensor], embeddings: Tensor, features: Tensor) -> Tensor:
    """Guesses [N, H] of a published EAGLE-1/2 head: no norm in front of its attention."""
    x = torch.cat((embeddings, features), 1) @ w["fc.weight"].T + w.get("fc.bias", 0.0)
    x = x + attention(w, "layers.0.self_attn", x)
    return x + mlp(w, "layers.0.mlp", rms(x, w["layers.0.post_attention_layernorm.weight"]))


def plain_eagle3(w: dict[str, Tensor], embeddings: Tensor, three: Tensor) -> Tensor:
    """Guesses [N, H] of a published EAGLE-3 head over three target layers side by side [N, 3H]."""
    x = three @ w["fc.weight"].T
    both = torch.cat(
        (rms(embeddings, w["midlayer.input_layernorm.weight"]), rms(x, w["midlayer.hidden_norm.weight"])), 1
    )
    x = x + attention(w, "midlayer.self_attn", both)
    return x + mlp(w, "midlayer.mlp", rms(x, w["midlayer.post_attention_layernorm.weight"]))


def random_weights(module: torch.nn.Module) -> dict[str, Tensor]:
    """Random weights in a module, norms moved away from one; the same under their published names."""
    torch.manual_seed(1)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, mean=float(parameter.dim() == 1), std=0.3)
    module.requires_grad_(False)
    return {name: value.clone() for name, value in module.state_dict().items()}


def eagle2_head(target: TransformersTarget, qkv_bias: bool = False) -> tuple[DraftHead, dict[str, Tensor]]:
    """A random EAGLE-1/2 head beside its target, and its weights."""
    shape = HeadConfig(
        HIDDEN, INNER, HEADS, KV_HEADS, HEAD_DIM, target.vocab_size, bias=not qkv_bias, qkv_bias=qkv_bias
    )
    module = HeadModule(shape)
    plain = random_weights(module)
    return DraftHead(module, target, RotaryTable.plain(HEAD_DIM, THETA, target.device)), plain


@pytest.mark.parametrize("qkv_bias", [False, True])
@torch.no_grad()
def test_guesses_are_the_published_layers(qkv_bias: bool) -> None:
    target = TransformersTarget(tiny_model(), frozenset())
    head, plain = eagle2_head(target, qkv_bias)
    assert ("fc.bias" in plain) != qkv_bias and ("layers.0.self_attn.k_proj.bias" in plain) == qkv_bias
    tokens, features = torch.tensor(prompt_of(11)), torch.randn(11, HIDDEN)
    expected = plain_eagle2(plain, target.model.get_input_embeddings()(tokens), features)
    cache = head.new_cache(20)
    guess = head.extend(tokens[:7], features[:7], cache)
    torch.testing.assert_close(guess[0], expected[6], atol=1e-4, rtol=1e-4)
    guess = head.extend(tokens[7:], features[7:], cache)
    torch.testing.assert_close(guess[0], expected[10], atol=1e-4, rtol=1e-4)
    logits = expected[10] @ target.lm_head_weight().T
    torch.testing.assert_close(
        head.log_confidence(guess)[0], logits.log_softmax(-1).clamp(max=0), atol=1e-3, rtol=1e-3
    )


@torch.no_grad()
def test_feature_t_goes_with_token_t_plus_1() -> None:
    """What a run hands to its head: the pair at position t is (embedding of token t+1, feature t)."""
    target = TransformersTarget(tiny_model(), frozenset())
    head, plain = eagle2_head(target)
    prompt = prompt_of(9)
    asked = Settings(seed=0, max_new_tokens=20)
    state = decoder.start(Pair(target, head, byte_tokenizer(), info()), ids_prompt(prompt), asked)
    decoder.prefill(state, asked)
    decoder.drafting(state, asked)
    ids = torch.tensor(state.ids)
    out = target.model.model(input_ids=ids[None, :-1]).last_hidden_state[0]
    expected = plain_eagle2(plain, target.model.get_input_embeddings()(ids[1:]), out)[-1]
    torch.testing.assert_close(state.guess[0], expected, atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_a_tree_level_sees_its_own_path_only() -> None:
    """Two branches of two levels give the guesses of two plain sequences."""
    target = TransformersTarget(tiny_model(), frozenset())
    head, plain = eagle2_head(target)
    embed = target.model.get_input_embeddings()
    tokens, features = torch.tensor(prompt_of(5)), torch.randn(5, HIDDEN)
    cache = head.new_cache(20)
    root = head.extend(tokens, features, cache)
    one = torch.tensor([7, 9])
    first = head.grow(one, root.expand(2, -1), torch.eye(2, dtype=torch.bool), 5, cache)
    two = torch.tensor([3, 4])
    seen = torch.cat((torch.eye(2, dtype=torch.bool), torch.eye(2, dtype=torch.bool)), 1)
    second = head.grow(two, first, seen, 6, cache)
    for branch in range(2):
        path = torch.cat((tokens, one[branch : branch + 1], two[branch : branch + 1]))
        read = torch.cat((features, root, first[branch : branch + 1]))
        expected = plain_eagle2(plain, embed(path), read)
        torch.testing.assert_close(first[branch], expected[5], atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(second[branch], expected[6], atol=1e-4, rtol=1e-4)


def eagle3_pair(draft_vocabulary: int = 100) -> tuple[Pair, dict[str, Tensor], Tensor]:
    """An 8-layer target with a random EAGLE-3 head, that head's weights and its own LM head."""
    target = TransformersTarget(tiny_model(num_hidden_layers=8, initializer_range=0.2), frozenset())
    target.watched = watched_layers(8)
    shape = HeadConfig(HIDDEN, INNER, HEADS, KV_HEADS, HEAD_DIM, target.vocab_size, bias=False)
    module = Head3Module(shape, HIDDEN)
    plain = random_weights(module)
    lm_head = torch.randn(draft_vocabulary, HIDDEN)
    vocabulary = torch.randperm(target.vocab_size)[:draft_vocabulary].sort().values
    rotary = RotaryTable.plain(HEAD_DIM, THETA, target.device)
    head = DraftHead3(module, target, rotary, lm_head, vocabulary)
    return Pair(target, head, byte_tokenizer(), info()), plain, lm_head


@torch.no_grad()
def test_eagle3_guesses_are_the_published_layers() -> None:
    pair, plain, lm_head = eagle3_pair()
    target, head = pair.target, pair.head
    assert isinstance(target, TransformersTarget) and isinstance(head, DraftHead3)
    ids = torch.tensor(prompt_of(10))
    own = target.model(input_ids=ids[None, :-1], output_hidden_states=True).hidden_states
    three = torch.cat([own[2][0], own[4][0], own[5][0]], 1)
    expected = plain_eagle3(plain, target.model.get_input_embeddings()(ids[1:]), three)[-1]
    features = target.forward(ids[:-1], torch.arange(9), None, target.new_cache(9))
    assert features.shape == (9, 4 * HIDDEN)
    guess = head.extend(ids[1:], features, head.new_cache(20))
    torch.testing.assert_close(guess[0], expected, atol=1e-3, rtol=1e-3)
    scores = rms(expected, plain["norm.weight"]) @ lm_head.T
    torch.testing.assert_close(head.log_confidence(guess)[0], scores.log_softmax(-1), atol=1e-3, rtol=1e-3)
    grown = head.grow(ids[:1], guess, torch.ones(1, 1, dtype=torch.bool), 9, head.new_cache(20))
    assert grown.shape == (1, HIDDEN)


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("method", ["eagle3", "chain"])
def test_eagle3_runs_and_is_lossless(method: str, temperature: float) -> None:
    pair, _, _ = eagle3_pair()
    prompt = prompt_of(17)
    drafted = audited(pair, prompt, method=method, temperature=temperature, tree=Tree.parse("12/4/3"))
    if temperature == 0:
        assert drafted.token_ids == audited(pair, prompt, method="vanilla").token_ids
    assert pair.head is not None and pair.head.vocabulary is not None
    allowed = set(pair.head.vocabulary.tolist())
    assert all(set(step.tree.token) <= allowed for step in drafted.steps if step.tree)


def test_the_automatic_tree_knows_eagle3() -> None:
    pair, _, _ = eagle3_pair()
    pair = replace(pair, info=pair.info.model_copy(update={"costs": measure(pair)}))
    drafted = audited(pair, prompt_of(17), method="eagle3", tree="auto", max_new_tokens=16)
    assert drafted.token_ids == audited(pair, prompt_of(17), method="vanilla", max_new_tokens=16).token_ids


def test_methods_and_heads_of_different_generations_do_not_mix() -> None:
    pair, _, _ = eagle3_pair()
    for method in ("eagle1", "eagle2"):
        with pytest.raises(
            SettingsError, match=f"{method} needs an EAGLE-1/2 head, but this pair's is EAGLE-3"
        ):
            decoder.generate(pair, prompt_of(3), Settings(method=method))


def test_positions_have_no_end() -> None:
    """A table for any position, whatever length a head's config names."""
    table = RotaryTable.plain(HEAD_DIM, THETA, torch.device("cpu"))
    cos, _ = table(0, 4)
    late, _ = table(5000, 1)
    assert cos.shape == (1, 4, HEAD_DIM)
    assert float(late[0, 0, 0]) == pytest.approx(math.cos(5000), abs=1e-3)
