"""What a step leaves behind and sees: cold starts, caches, the mask, the edges of the tree."""

from __future__ import annotations

import pytest
import torch

from eagle import decoder
from eagle.decoder import Pair, decode
from eagle.host import bring
from eagle.settings import Method, Settings, Tree
from eagle.trace import StepTrace
from tests.stubs import audited, ids_prompt, plain_logits, prompt_of, with_oracle
from tests.tiny import tiny_pair

LENGTHS = (1, 17, 200)
DRAFTING = (Method.CHAIN, Method.EAGLE1, Method.EAGLE2)


@pytest.fixture(scope="module")
def pair() -> Pair:
    return tiny_pair()


@pytest.mark.parametrize("noise", [None, 10.0])
def test_cold_start_drafts_the_same_tree(pair: Pair, noise: float | None) -> None:
    """A fresh decoder fed prompt + emitted tokens drafts what the running one drafted."""
    prompt = prompt_of(20)
    warm = pair if noise is None else with_oracle(pair, prompt, noise)
    whole = audited(warm, prompt, max_new_tokens=30, tree=Tree.parse("10/3/4"))
    ids = prompt + whole.token_ids
    for step in whole.steps[1:]:
        before = ids[: step.context - 1]  # the root comes out of the fresh prompt's pass
        cold = pair if noise is None else with_oracle(pair, before, noise)
        left = 30 - (step.context - len(prompt))
        settings = Settings(seed=0, max_new_tokens=left + 1, tree=Tree.parse("10/3/4"))
        fresh = next(s for s in decode(cold, before, settings) if s.index == 1)
        assert_same_tree(fresh, step)


def assert_same_tree(a: StepTrace, b: StepTrace) -> None:
    assert a.tree is not None and b.tree is not None
    assert (a.tree.root, a.tree.parent, a.tree.token) == (b.tree.root, b.tree.parent, b.tree.token)
    # The tiny pair's weights are ten times a trained pair's and amplify the order of sums as much.
    assert a.tree.confidence == pytest.approx(b.tree.confidence, abs=1e-3)
    assert a.tree.cut.token == b.tree.cut.token


@pytest.mark.parametrize("method", DRAFTING)
def test_caches_hold_what_a_fresh_pass_would(pair: Pair, method: Method) -> None:
    """After every step: target rows of all tokens but the root; head rows with target features only."""
    prompt = prompt_of(15)
    settings = Settings(method=method, temperature=0.8, seed=3, max_new_tokens=24, tree=Tree.parse("10/3/4"))
    state = decoder.start(pair, ids_prompt(prompt), settings)
    decoder.prefill(state, settings)
    while state.finish is None:
        drafted = decoder.drafting(state, settings)
        length = len(state.ids) - 1
        assert state.head_cache.length == length == state.cache.length
        assert_cache_is_fresh(pair, state, length)
        logits, features = decoder.read(state, drafted)
        decoder.commit(state, decoder.judge(state, *bring(drafted, logits, settings, "here")), features)


@torch.inference_mode()
def assert_cache_is_fresh(pair: Pair, state: decoder.State, length: int) -> None:
    ids = torch.tensor(state.ids)
    fresh = pair.target.new_cache(length)
    features = pair.target.forward(ids[:length], torch.arange(length), None, fresh)
    fresh.keep_first(length)
    assert pair.head is not None
    head_rows = pair.head.new_cache(length)
    pair.head.extend(ids[1:], features, head_rows)
    for mine, theirs in ((state.cache, fresh), (state.head_cache, head_rows)):
        for layer in range(mine.layers):
            for a, b in zip(mine.rows(layer), theirs.rows(layer), strict=True):
                torch.testing.assert_close(a, b, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("back_end", ["sdpa", "eager"])
@torch.inference_mode()
def test_a_node_is_seen_by_its_subtree_only(length: int, back_end: str) -> None:
    """Another token at one node moves the logits of that node and its descendants, of nothing else."""
    pair = tiny_pair(attn=back_end)
    assert pair.target.config._attn_implementation == back_end  # type: ignore[attr-defined]
    settings = Settings(seed=0, tree=Tree.parse("30/4/4"))
    state = decoder.start(pair, ids_prompt(prompt_of(length)), settings)
    decoder.prefill(state, settings)
    drafted = decoder.drafting(state, settings)
    assert drafted is not None and drafted.block is not None
    before, _ = decoder.read(state, drafted)
    for node in range(drafted.kept.token.shape[0]):
        below = drafted.block[1:, node + 1]
        drafted.kept.token[node] += 1
        after, _ = decoder.read(state, drafted)
        drafted.kept.token[node] -= 1
        moved = (after - before).abs().amax(-1)
        assert float(moved[0]) < 1e-5 and _most(moved[1:][~below]) < 1e-5
        assert float(moved[node + 1]) > 1e-3


def _most(values: torch.Tensor) -> float:
    return float(values.max()) if values.numel() else 0.0


@pytest.mark.parametrize("length", LENGTHS)
def test_verified_logits_are_those_of_each_path_alone(pair: Pair, length: int) -> None:
    """Masks, positions and cache together: a node's row equals a plain pass over its path."""
    prompt = prompt_of(length)
    settings = Settings(seed=0, tree=Tree.parse("30/4/4"))
    state = decoder.start(pair, ids_prompt(prompt), settings)
    decoder.prefill(state, settings)
    drafted = decoder.drafting(state, settings)
    assert drafted is not None
    logits, _ = decoder.read(state, drafted)
    parents, tokens = drafted.kept.parent.tolist(), drafted.kept.token.tolist()
    for node in range(len(parents)):
        path, at = [], node
        while at >= 0:
            path.append(tokens[at])
            at = parents[at]
        alone = plain_logits(pair.target, state.ids + path[::-1])[-1]
        torch.testing.assert_close(logits[node + 1], alone, atol=1e-3, rtol=1e-3)


# The tree's edges.


@pytest.mark.parametrize(
    ("shape", "nodes"),
    [
        ("1/1/1", 1),
        ("60/2/2", 6),
        ("5/1/8", 5),
        ("60/1/8", 8),
        ("60/6/10", 60),
        ("60/16/1", 16),
        ("256/16/32", 256),
    ],
)
def test_the_tree_has_the_nodes_it_can_have(pair: Pair, shape: str, nodes: int) -> None:
    done = audited(pair, prompt_of(5), tree=Tree.parse(shape), max_new_tokens=20)
    tree = done.steps[1].tree
    assert tree is not None and len(tree) == nodes
    expected = Tree.parse(shape)
    drafted = expected.width + (expected.depth - 1) * expected.width**2
    assert len(tree.cut.token) == drafted - nodes


def test_a_tree_is_never_deeper_than_what_may_still_be_emitted(pair: Pair) -> None:
    done = audited(pair, prompt_of(5), max_new_tokens=4)
    for step in done.steps[1:]:
        assert step.tree is not None
        assert max(step.tree.depth) <= 4 - (step.context - 5)
