"""The automatic tree: costs measured once, decisions from the draft alone, output law untouched."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from eagle import costs as paying
from eagle.decoder import Pair, generate
from eagle.settings import Settings
from eagle.trace import Costs
from tests.tiny import tiny_pair


def costs(slope: float = 1.0, level_ms: float = 2.0, typical: tuple[float, ...] = (0.6, 0.1)) -> Costs:
    """A pass costs 20 ms plus ``slope`` ms a token."""
    nodes = [1, 8, 64]
    return Costs(
        nodes=nodes,
        pass_ms=[20 + slope * n for n in nodes],
        level_ms=level_ms,
        typical_confidence=list(typical),
    )


def with_costs(pair: Pair, found: Costs) -> Pair:
    return replace(pair, info=pair.info.model_copy(update={"costs": found}))


def test_best_size_is_the_best_of_all_sizes() -> None:
    values = np.sort(np.random.default_rng(0).random(40))[::-1]
    for slope in (0.1, 1.0, 5.0):
        pass_cost = paying.pass_ms(costs(slope))
        size, rate = paying.best_size(values, pass_cost, 6.0)
        by_hand = {n: (1 + values[:n].sum()) / (6.0 + pass_cost[n]) for n in range(1, 41)}
        assert size == max(by_hand, key=lambda n: by_hand[n])
        assert rate == pytest.approx(max(by_hand.values()))


def test_dearer_nodes_make_smaller_trees_and_dearer_levels_shallower_ones() -> None:
    values = np.array([0.8, 0.6, 0.5, 0.3, 0.2, 0.1, 0.05])
    sizes = [paying.best_size(values, paying.pass_ms(costs(s)), 2.0)[0] for s in (0.1, 2.0, 20.0)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[-1]
    cheap, dear = costs(0.5, level_ms=0.5), costs(0.5, level_ms=50.0)
    first = np.array([0.7, 0.2])
    assert paying.another_level_pays(first, first, 1, cheap, paying.pass_ms(cheap))
    assert not paying.another_level_pays(first, first, 1, dear, paying.pass_ms(dear))


def test_a_measured_latency_that_falls_is_read_as_flat() -> None:
    noisy = Costs(nodes=[1, 2, 4], pass_ms=[30.0, 20.0, 40.0], level_ms=1.0, typical_confidence=[0.5])
    assert paying.pass_ms(noisy)[:4].tolist() == [30.0, 30.0, 35.0, 40.0]


def test_greedy_text_is_vanilla_text_whatever_the_costs() -> None:
    pair = tiny_pair()
    vanilla = generate(pair, "abc", Settings(method="vanilla", seed=0, max_new_tokens=30))
    sizes = set()
    for found in (costs(0.01, 0.01, (0.9, 0.5)), costs(5.0, 30.0)):
        run = generate(with_costs(pair, found), "abc", Settings(tree="auto", seed=0, max_new_tokens=30))
        assert run.token_ids == vanilla.token_ids
        assert run.pair.costs == found
        sizes.add(max(len(step.tree) for step in run.steps if step.tree))
    assert len(sizes) == 2  # the costs did change the trees


@pytest.mark.slow
def test_the_tree_depends_on_the_draft_and_not_on_the_target_or_the_draws() -> None:
    """Same tokens so far, another temperature and seed: the first tree is the same."""
    pair = with_costs(tiny_pair(), costs(0.2, 0.5, (0.5, 0.3)))
    prompt = list(range(40, 60))
    trees = []
    for seed in range(60):
        for temperature in (0.5, 1.5):
            settings = Settings(tree="auto", seed=seed, temperature=temperature, max_new_tokens=4)
            steps = generate(pair, prompt, settings).steps
            if steps[0].emitted.token == trees[0][0] if trees else True:
                tree = steps[1].tree
                assert tree is not None
                trees.append((steps[0].emitted.token, tree.token, tree.parent))
    assert len(trees) > 3
    assert all(tree == trees[0] for tree in trees)


def test_a_probe_measures_every_size() -> None:
    found = paying.measure(tiny_pair())
    assert found.nodes == list(paying.PROBED_NODES)
    assert len(found.pass_ms) == len(found.nodes)
    assert all(ms > 0 for ms in (*found.pass_ms, found.level_ms))


@pytest.mark.parametrize(("passes", "kept"), [([30.0, 31.0, 60.0], True), ([464.0, 281.0, 300.0], False)])
def test_only_an_undisturbed_measurement_is_recalled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, passes: list[float], kept: bool
) -> None:
    monkeypatch.setenv("EAGLE_CACHE", str(tmp_path))
    first = Costs(nodes=[1, 2, 8], pass_ms=passes, level_ms=1.0, typical_confidence=[0.5])
    later = costs()
    pair = tiny_pair()
    monkeypatch.setattr(paying, "measure", lambda _: first)
    assert paying.probe(pair) == first
    monkeypatch.setattr(paying, "measure", lambda _: later)
    assert paying.probe(pair) == (first if kept else later)


def test_auto_without_costs_is_refused_in_a_sentence() -> None:
    with pytest.raises(ValueError, match="tree auto needs this machine's costs"):
        generate(tiny_pair(), "abc", Settings(tree="auto", seed=0))
