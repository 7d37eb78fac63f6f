"""What each method drafts: shapes, what drawn candidates came from, and what acts on a draft."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from eagle import decoder, rules
from eagle.decoder import Pair, generate
from eagle.drafts import Draft, candidates_at
from eagle.settings import Method, Settings, SettingsError, Tree
from eagle.static_tree import STATIC_NODES, STATIC_PATHS, chain_shape, static_shape
from tests.stubs import Scripted, audited, ids_prompt, markov_pair, prompt_of
from tests.tiny import tiny_head, tiny_pair

SAMPLED = (Method.CHAIN, Method.EAGLE1)


@pytest.fixture(scope="module")
def pair() -> Pair:
    return tiny_pair()


def drafted_by(pair: Pair, prompt: list[int], draws: object | None = None, **settings: object) -> Draft:
    """The first draft after a prompt."""
    asked = Settings(**{"seed": 0, "max_new_tokens": 40, **settings})
    state = decoder.start(pair, ids_prompt(prompt), asked)
    decoder.prefill(state, asked)
    if draws is not None:
        state.rng = draws  # type: ignore[assignment]
    draft = decoder.drafting(state, asked)
    assert draft is not None
    return draft


def paths_of(draft: Draft) -> list[str]:
    """Each node's path of child ranks, as EAGLE-1 writes them."""
    parents, paths, children = draft.kept.parent.tolist(), [], {}
    for parent in parents:
        rank = children.get(parent, 0)
        children[parent] = rank + 1
        paths.append(("" if parent < 0 else paths[parent]) + str(rank))
    return paths


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_eagle1_drafts_its_published_tree(pair: Pair, temperature: float) -> None:
    draft = drafted_by(pair, prompt_of(8), method="eagle1", temperature=temperature)
    assert paths_of(draft) == STATIC_PATHS.split()
    assert len(STATIC_PATHS.split()) == STATIC_NODES == sum(static_shape().values()) == 25
    assert draft.kept.depth.tolist() == [len(path) for path in STATIC_PATHS.split()]
    assert draft.cut.token.numel() == 0


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("depth", [1, 6, 16])
def test_a_chain_is_one_node_a_level(pair: Pair, temperature: float, depth: int) -> None:
    draft = drafted_by(
        pair, prompt_of(8), method="chain", temperature=temperature, tree=Tree(total=1, depth=depth, width=1)
    )
    assert draft.kept.parent.tolist() == list(range(-1, depth - 1))
    assert sum(chain_shape(depth).values()) == depth


def test_at_temperature_0_the_best_are_taken_and_nothing_is_drawn(pair: Pair) -> None:
    for method in SAMPLED:
        draft = drafted_by(pair, prompt_of(8), method=method)
        assert draft.sampled is None and draft.draws == []
        best = drafted_by(pair, prompt_of(8), method="eagle2", tree=Tree(total=4, depth=1, width=4))
        first = [
            t for t, d in zip(draft.kept.token.tolist(), draft.kept.depth.tolist(), strict=True) if d == 1
        ]
        assert first == best.kept.token.tolist()[: len(first)]
        assert [c.q for c in candidates_at([0], first, draft)] == [None]


@pytest.mark.parametrize("method", SAMPLED)
@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_q_is_what_was_drawn_from(method: Method, temperature: float) -> None:
    """The head's distribution after the temperature, without earlier siblings; top-p and top-k are not."""
    torch.manual_seed(2)
    table = torch.randn(6, 6)
    pair = markov_pair(torch.zeros(6, 6), table)
    draft = drafted_by(
        pair,
        [3],
        method=method,
        temperature=temperature,
        top_p=0.2,
        top_k=1,
        tree=Tree(total=4, depth=4, width=1),
    )
    assert draft.sampled is not None
    root = decoder_root(pair, [3], method, temperature)
    tokens, parents = draft.kept.token.tolist(), draft.kept.parent.tolist()
    for node, parent in enumerate(parents):
        q = (table[root if parent < 0 else tokens[parent]].double() / temperature).softmax(-1).numpy()
        for sibling in range(node):
            if parents[sibling] == parent:
                q[tokens[sibling]] = 0.0
        (candidate,) = candidates_at([node], tokens, draft)
        assert candidate.q is not None
        np.testing.assert_allclose(candidate.q, q / q.sum(), atol=1e-6)
        assert candidate.token == tokens[node] and candidate.q[tokens[node]] > 0


def decoder_root(pair: Pair, prompt: list[int], method: Method, temperature: float) -> int:
    """The token that the drafts of these tests hang on: the first one, drawn with seed 0."""
    asked = Settings(method=method, temperature=temperature, top_p=0.2, top_k=1, seed=0, max_new_tokens=40)
    state = decoder.start(pair, ids_prompt(prompt), asked)
    decoder.prefill(state, asked)
    return state.ids[-1]


def test_drawn_tokens_are_the_inverse_cdf_of_the_recorded_draws(pair: Pair) -> None:
    """One uniform number a node, in the order of the nodes."""
    numbers = np.random.default_rng(5).random(STATIC_NODES).tolist()
    draft = drafted_by(pair, prompt_of(8), Scripted(numbers), method="eagle1", temperature=1.0)
    assert draft.draws == numbers
    tokens = draft.kept.token.tolist()
    for node, u in enumerate(numbers):
        (candidate,) = candidates_at([node], tokens, draft)
        assert candidate.q is not None
        assert rules.inverse_cdf(candidate.q, u).token == tokens[node]


def test_the_number_of_siblings_is_cut_to_the_drafts_support() -> None:
    table = torch.full((6, 6), -torch.inf)
    table[:, [1, 4]] = torch.tensor([0.0, 1.0])
    pair = markov_pair(torch.zeros(6, 6), table)
    draft = drafted_by(pair, [3], method="eagle1", temperature=1.0)
    assert [path for path in paths_of(draft) if len(path) == 1] == ["0", "1"]
    assert set(draft.kept.token.tolist()) == {1, 4}
    assert len(draft.draws) == draft.kept.token.numel()
    audited(pair, [3], method="eagle1", temperature=1.0)


@pytest.mark.parametrize("method", [*SAMPLED, Method.EAGLE2])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_trimmed_vocabulary_drafts_only_from_it(pair: Pair, method: Method, temperature: float) -> None:
    allowed = torch.arange(0, 257, 5)
    trimmed = replace(pair, head=tiny_head(pair.target, vocabulary=allowed))
    draft = drafted_by(trimmed, prompt_of(8), method=method, temperature=temperature)
    assert set(draft.kept.token.tolist()) <= set(allowed.tolist())
    if draft.sampled:
        (candidate,) = candidates_at([0], draft.kept.token.tolist(), draft)
        assert candidate.q is not None and candidate.q.shape == (257,)
        assert set(np.flatnonzero(candidate.q)) <= set(allowed.tolist())
    run = audited(trimmed, prompt_of(8), method=method, temperature=temperature, max_new_tokens=12)
    if temperature == 0:
        assert run.token_ids == audited(pair, prompt_of(8), method="vanilla", max_new_tokens=12).token_ids


@pytest.mark.parametrize("temperature", [0.0, 0.5, 2.0])
def test_nothing_acts_on_the_draft_of_eagle2(pair: Pair, temperature: float) -> None:
    plain = drafted_by(markov(), [3], tree=Tree.parse("8/3/3"))
    other = drafted_by(
        markov(), [3], tree=Tree.parse("8/3/3"), temperature=temperature, top_p=0.3, top_k=1, seed=9
    )
    assert plain.kept.token.tolist() == other.kept.token.tolist()
    assert torch.equal(plain.kept.log_confidence, other.kept.log_confidence)
    assert other.draws == [] and other.sampled is None


def markov() -> Pair:
    """A target that says token 2 whatever the settings, and a head with opinions."""
    torch.manual_seed(4)
    table = torch.full((6, 6), -50.0)
    table[:, 2] = 50.0
    return markov_pair(table, torch.randn(6, 6))


def test_the_record_holds_q_of_the_listed_tokens(pair: Pair) -> None:
    run = audited(pair, prompt_of(8), method="eagle1", temperature=1.0, max_new_tokens=24)
    trials = [trial for step in run.steps for trial in step.trials]
    assert len(trials) > 20
    for step in run.steps:
        for trial in step.trials:
            assert step.tree is not None and trial.sampled_from is not None
            token = step.tree.token[trial.node]
            q = trial.sampled_from.q[trial.before.token.index(token)]
            assert trial.proposal == pytest.approx(q, rel=1e-5)
            p = trial.before.p[trial.before.token.index(token)]
            assert trial.accept == pytest.approx(min(1.0, p / q), rel=1e-4)


@pytest.mark.parametrize("method", ["eagle3"])
def test_a_method_for_another_kind_of_head_is_refused(pair: Pair, method: str) -> None:
    with pytest.raises(SettingsError, match="needs an EAGLE-3 head, but this pair's is EAGLE-1/2"):
        generate(pair, prompt_of(3), Settings(method=method))


def test_the_automatic_tree_needs_costs(pair: Pair) -> None:
    with pytest.raises(SettingsError, match="tree auto needs this machine's costs"):
        generate(pair, prompt_of(3), Settings(tree="auto"))
    for method in SAMPLED:  # their shape is fixed
        assert audited(pair, prompt_of(3), method=method, tree="auto", max_new_tokens=8).new_tokens == 8
