"""The losslessness proof: many judgements are the decoder's own one by one, and wrong rules are caught."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from eagle import goodness, lossless, rules
from eagle.decoder import Pair
from eagle.greedy_check import first_difference, greedy_check
from eagle.lossless import ENDED, After, Opening
from eagle.settings import Method, Settings, SettingsError, Tree
from eagle.target import Target
from eagle.text import encode
from eagle.trace import ROOT
from tests.stubs import Scripted, law_of_decoder
from tests.tiny import tiny_head, tiny_pair

SETTINGS = Settings(temperature=1.0, top_k=4, seed=1, tree=Tree(total=8, depth=3, width=3))
PROMPT = "What is a tree?"


def opened(pair: Pair | None = None, settings: Settings = SETTINGS) -> tuple[Opening, dict[int, After]]:
    pair = pair or tiny_pair()
    opening = lossless.open_at(pair, encode(pair.tokenizer, PROMPT), settings)
    return opening, {token: lossless.after(opening, token) for token in opening.support()}


def knowing_pair(end_tokens: frozenset[int] = frozenset()) -> Pair:
    """The tiny pair with a head that may only propose what its target can say in the next two places,
    so that candidates are accepted often although the head is random."""
    pair = tiny_pair(end_tokens=end_tokens)
    opening, afters = opened(tiny_pair())
    possible = {token for one in afters.values() if one.law is not None for token in np.flatnonzero(one.law)}
    vocabulary = torch.tensor(sorted({int(token) for token in possible} | set(opening.support())))
    return replace(pair, head=tiny_head(pair.target, vocabulary=vocabulary))


@pytest.fixture(scope="module")
def tiny() -> tuple[Opening, dict[int, After]]:
    return opened(knowing_pair())


# Counts against a law.


def binomial(n: int, p: float) -> np.ndarray:
    from scipy.stats import binom

    return binom.pmf(np.arange(n + 1), n, p)


@pytest.mark.parametrize(("n", "p"), [(1, 0.5), (7, 0.2), (10, 0.1), (10, 0.9999), (50, 1.0), (200, 0.013)])
def test_the_expected_variation_is_the_mean_over_all_outcomes(n: int, p: float) -> None:
    mean = float(binomial(n, p) @ np.abs(np.arange(n + 1) / n - p))  # two cells: half of twice one
    assert goodness.expected_variation(np.array([p, 1 - p]), n) == pytest.approx(mean, abs=1e-12)


def test_the_band_holds_95_percent_and_no_narrower_one_does() -> None:
    for n, p in product((20, 1000), (0.02, 0.3, 0.97)):
        (low,), (high,) = (np.round(edge * n).astype(int) for edge in goodness.noise_band(np.array([p]), n))
        mass = binomial(n, p)
        assert mass[:low].sum() <= 0.025 < mass[: low + 1].sum()
        assert mass[high + 1 :].sum() <= 0.025 < mass[high:].sum()
    assert [edge.tolist() for edge in goodness.noise_band(np.array([0.0, 1.0]), 9)] == [[0, 1], [0, 1]]


def test_the_g_test_is_scipys_and_pools_small_cells() -> None:
    from scipy.stats import power_divergence

    counts, law = np.array([60, 30, 4, 3, 3]), np.array([0.55, 0.35, 0.04, 0.03, 0.03])
    found = goodness.g_test(counts, law)
    wanted = power_divergence([60, 30, 10], [55, 35, 10], lambda_="log-likelihood")
    assert found.p_value == pytest.approx(wanted.pvalue) and found.g == pytest.approx(wanted.statistic)
    assert (found.cells, found.pooled, found.degrees) == (3, 3, 2)


def test_the_g_test_says_when_it_can_not_tell_and_when_chance_is_no_excuse() -> None:
    assert goodness.g_test(np.array([9]), np.array([1.0])).p_value is None
    assert goodness.g_test(np.array([2, 2]), np.array([0.5, 0.5])).p_value is None
    assert not goodness.g_test(np.array([2, 2]), np.array([0.5, 0.5])).failed
    forbidden = goodness.g_test(np.array([50, 50]), np.array([0.5, 0.5]), impossible=1)
    assert forbidden.p_value == 0 and forbidden.failed


def test_p_values_of_sound_samples_are_uniform() -> None:
    """Odds of a false alarm: below 1 in 10,000, and the seed is fixed."""
    rng, law = np.random.default_rng(0), np.array([0.5, 0.2, 0.2, 0.09, 0.009, 0.001])
    values = [goodness.g_test(rng.multinomial(2000, law), law).p_value for _ in range(400)]
    assert 0.02 < np.mean([value < 0.05 for value in values if value is not None]) < 0.1
    assert 0.4 < np.mean([value for value in values if value is not None]) < 0.6


# Judging many at once.


@pytest.mark.parametrize("judge", ["eagle2", "misreading"])
def test_many_judgements_are_the_rule_draw_by_draw(judge: lossless.Judge) -> None:
    rng = np.random.default_rng(3)
    for m in (0, 1, 3, 6):
        p, q = rng.dirichlet(np.ones(6)), rng.dirichlet(np.ones(6))
        p[rng.integers(6)] = 0.0
        place = lossless.Place(p / p.sum(), rules.top_tokens(q, m), q)
        u = rng.random((500, m + 1))
        found = lossless.judge_many(place.p, place.candidates(judge), u)
        for row, token, accepted, used in zip(u, found.token, found.accepted, found.used, strict=True):
            draws = Scripted(row.tolist())
            verdict = rules.judge(place.p, place.candidates(judge), draws.random)
            assert (verdict.token, verdict.accepted is not None) == (token, accepted)
            assert draws.used == used


def test_pairs_are_the_decoders_own_judging_with_the_same_numbers(tiny: tuple[Opening, dict]) -> None:
    opening, afters = tiny
    u = np.random.default_rng(5).random((300, lossless.numbers_needed(opening, afters)))
    pairs = lossless.judge_pairs(opening, afters, "eagle2", u)
    assert lossless.same_as_decoder(opening, u, pairs) == len(u)
    inside = np.isin(pairs[:, 0], opening.first.tokens).sum()
    assert inside > 20, "the tree's second level must be reached often enough to be tested"
    wrong = pairs.copy()
    wrong[:, 1] = (wrong[:, 1] + 1) % 257
    assert lossless.same_as_decoder(opening, u, wrong) == len(u) - inside
    wrong[:, 0] += 1
    assert lossless.same_as_decoder(opening, u, wrong) == 0


def test_both_exact_laws_equal_vanillas_and_the_misreadings_do_not(tiny: tuple[Opening, dict]) -> None:
    opening, afters = tiny
    one, two = lossless.law_of_one(opening), lossless.law_of_two(opening, afters)
    assert sum(one.values()) == pytest.approx(1) and sum(two.values()) == pytest.approx(1)
    assert len(one) == 4 and len(two) == 16
    assert goodness.distance(one, lossless.outcome_of_one(opening, "eagle2")) < 1e-5
    assert goodness.distance(two, lossless.outcome_of_two(opening, afters, "eagle2")) < 1e-5
    for biased, sound in (
        (lossless.outcome_of_one(opening, "misreading"), one),
        (lossless.outcome_of_two(opening, afters, "misreading"), two),
    ):
        assert sum(biased.values()) == pytest.approx(1)
        assert goodness.distance(biased, sound) > 0.05


def test_the_law_of_two_is_the_whole_decoders(tiny: tuple[Opening, dict]) -> None:
    """Against a walk through every way that a vanilla run of the decoder can go."""
    opening, afters = tiny
    pair = opening.state.pair
    prompt = encode(pair.tokenizer, PROMPT)
    rooted = prompt.model_copy(
        update={"token": [*prompt.token, opening.root], "labels": [*prompt.labels, "root"]}
    )
    settings = SETTINGS.model_copy(update={"method": Method.VANILLA, "max_new_tokens": 2})
    assert goodness.distance(
        law_of_decoder(pair, rooted, settings), lossless.law_of_two(opening, afters)
    ) == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("seed", [1, 2])
def test_ten_thousand_samples_pass_and_the_misreading_fails(tiny: tuple[Opening, dict], seed: int) -> None:
    opening, afters = tiny
    u = np.random.default_rng(seed).random((10_000, lossless.numbers_needed(opening, afters)))
    for judge in ("eagle2", "misreading"):
        pairs = lossless.judge_pairs(opening, afters, judge, u)
        for outcomes, law, own in (
            (pairs[:, :1], lossless.law_of_one(opening), lossless.outcome_of_one(opening, judge)),
            (
                pairs,
                lossless.law_of_two(opening, afters),
                lossless.outcome_of_two(opening, afters, judge),
            ),
        ):
            found = goodness.compare(judge, outcomes, law, own)
            assert found.test.failed is (judge == "misreading")
            assert sum(found.count) + found.impossible == found.n == 10_000
            assert (found.variation < 2 * found.expected_variation) is (judge == "eagle2")
            # what was sampled is this judging's own law, bias and all
            assert (
                goodness.g_test(
                    np.array([c for c, own_p in zip(found.count, found.own, strict=True) if own_p > 0]),
                    np.array([own_p for own_p in found.own if own_p > 0]),
                ).p_value
                > 1e-4
            )  # type: ignore[operator]


def test_every_first_token_leaves_the_state_as_it_was(tiny: tuple[Opening, dict]) -> None:
    opening, afters = tiny
    for token in reversed(opening.support()):
        again, before = lossless.after(opening, token), afters[token]
        assert np.array_equal(again.law, before.law)  # type: ignore[arg-type]
        assert again.drawn is not None and before.drawn is not None
        assert again.drawn.tokens == before.drawn.tokens
    assert opening.root == opening.state.ids[-1]


def test_the_confidences_are_those_the_draft_was_made_from(tiny: tuple[Opening, dict]) -> None:
    opening, _ = tiny
    kept = opening.drafted.kept
    for node, (parent, token) in enumerate(zip(kept.parent.tolist(), kept.token.tolist(), strict=True)):
        place = opening.first if parent == ROOT else opening.below.get(int(kept.token[parent]))
        if place is None or (parent != ROOT and int(kept.parent[parent]) != ROOT):
            continue
        assert place.confidence[token] == pytest.approx(float(kept.log_confidence[node].exp()), rel=1e-4)
        assert place.confidence.sum() == pytest.approx(1)


def test_an_end_token_ends_the_pair() -> None:
    opening, _ = opened(knowing_pair())
    ends = frozenset([opening.support()[1]])
    ended, afters = opened(knowing_pair(ends))
    (end,) = ends
    assert afters[end] == After(None, None, None)
    law = lossless.law_of_two(ended, afters)
    assert law[end, ENDED] == pytest.approx(float(ended.law[end]))
    pairs = lossless.judge_pairs(
        ended,
        afters,
        "eagle2",
        np.random.default_rng(0).random((400, lossless.numbers_needed(ended, afters))),
    )
    assert (pairs[pairs[:, 0] == end, 1] == ENDED).all() and (pairs[:, 0] == end).any()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"temperature": 0.0}, "temperature must be above 0"),
        ({"top_k": 0}, "top_k must be from 2 to 20"),
        ({"top_k": 21}, "but is 21"),
        ({"method": Method.CHAIN}, "about eagle2"),
    ],
)
def test_settings_without_a_law_to_list_are_refused(change: dict, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        opened(settings=Settings(**{**SETTINGS.model_dump(), **change}))


# Greedy text.


@pytest.mark.parametrize(
    ("a", "b", "place"), [([1, 2], [1, 2], None), ([1, 2], [1, 3], 1), ([1], [1, 3], 1), ([], [], None)]
)
def test_the_first_difference_counts_a_missing_token(a: list[int], b: list[int], place: int | None) -> None:
    assert first_difference(a, b) == place


def test_greedy_texts_are_compared_token_for_token() -> None:
    pair = tiny_pair()
    prompt = encode(pair.tokenizer, PROMPT)
    found = greedy_check(pair, prompt, Settings(max_new_tokens=24, tree=SETTINGS.tree))
    assert found is not None and found.difference is None
    assert found.tokens == 24 and 0 < found.passes <= 23 and found.vanilla == found.eagle


class Wrong(Target):
    """A target whose pass over a tree adds ``error`` to the logits of one token."""

    def __init__(self, inner: Target, error: float) -> None:
        self.inner, self.error, self.tree = inner, error, False

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def new_cache(self, capacity: int):  # type: ignore[no-untyped-def]
        return self.inner.new_cache(capacity)

    def forward(self, ids, positions, block, cache):  # type: ignore[no-untyped-def]
        self.tree = block is not None
        return self.inner.forward(ids, positions, block, cache)

    def logits(self, features: torch.Tensor) -> torch.Tensor:
        out = self.inner.logits(features)
        if self.tree:
            runner_up = out.topk(2).indices[:, 1:]
            out = out.scatter_add(1, runner_up, torch.full_like(runner_up, self.error, dtype=out.dtype))
        return out

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        return self.inner.embed(ids)

    def lm_head_weight(self) -> torch.Tensor:
        return self.inner.lm_head_weight()


def test_a_real_difference_is_found_and_is_no_near_tie() -> None:
    pair = tiny_pair()
    wrong = Pair(Wrong(pair.target, 1000.0), pair.head, pair.tokenizer, pair.info)
    found = greedy_check(
        wrong, encode(pair.tokenizer, PROMPT), Settings(max_new_tokens=8, tree=SETTINGS.tree)
    )
    assert found is not None and found.difference is not None
    difference = found.difference
    assert difference.position == 1, "the first token comes from the prompt's pass, which is sound"
    assert difference.vanilla == found.vanilla[1] and difference.eagle == found.eagle[1]
    assert difference.gap > 1e-3 and not difference.near_tie


def test_a_stop_ends_the_comparison() -> None:
    class Now:
        def is_set(self) -> bool:
            return True

    pair = tiny_pair()
    assert greedy_check(pair, encode(pair.tokenizer, PROMPT), Settings(max_new_tokens=8), Now()) is None


def test_cells_beyond_the_shown_ones_stand_as_one() -> None:
    law = {(1,): 0.5, (2,): 0.3, (3,): 0.15, (4,): 0.05}
    outcomes = np.repeat([[1], [2], [3], [4]], [50, 31, 14, 5], axis=0)
    found = goodness.compare("eagle2", outcomes, law, law)
    short = goodness.shortened(found, 3)
    assert short.outcome == [(1,), (2,), ()] and short.count == [50, 31, 19] and short.merged == 2
    assert short.law[-1] == pytest.approx(0.2) and short.low[-1] < 0.2 < short.high[-1]
    assert short.test == found.test and goodness.shortened(found, 4) is found
