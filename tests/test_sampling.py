"""From logits to p: against a slow implementation, at the extremes, and on rows that are no logits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from eagle import sampling
from eagle.sampling import NumericsError, check_logits, distribution, listed, token_probabilities, top_entries
from eagle.settings import Settings

Row = NDArray[np.float32]


def slow(logits: Row, temperature: float, top_k: int, top_p: float) -> list[float]:
    """Temperature, top-k, top-p, one token at a time, in plain Python; ties at an edge are all kept."""
    row = [float(x) for x in logits]
    if temperature == 0:
        best = row.index(max(row))
        return [float(i == best) for i in range(len(row))]
    scaled = [(x - max(row)) / temperature for x in row]
    if 0 < top_k < len(row):
        edge = sorted(row, reverse=True)[top_k - 1]
        scaled = [s if x >= edge else -math.inf for s, x in zip(scaled, row, strict=True)]
    weights = [math.exp(s) for s in scaled]
    p = [w / math.fsum(weights) for w in weights]
    if top_p < 1:
        mass, edge = 0.0, 1.0
        for value in sorted(p, reverse=True):
            mass, edge = mass + value, value
            if mass >= top_p:
                break
        p = [value if value >= edge else 0.0 for value in p]
    return [value / math.fsum(p) for value in p]


def rows(seed: int, size: int, kind: str) -> Row:
    rng = np.random.default_rng(seed)
    logits = 3 * rng.standard_normal(size)
    if kind == "ties":
        logits = np.round(logits)
    elif kind == "masked":
        logits[rng.random(size) < 0.3] = -np.inf
        logits[rng.integers(size)] = 0.0
    elif kind == "large":
        logits = logits * 1e4
    return logits.astype(np.float32)


KINDS = st.sampled_from(["plain", "ties", "masked", "large"])
SHAPED = {
    "temperature": st.sampled_from([0.0, 1e-4, 0.01, 0.3, 0.7, 1.0, 2.0]),
    "top_k": st.sampled_from([0, 1, 2, 5, 50, 10**6]),
    "top_p": st.sampled_from([1.0, 0.999, 0.9, 0.5, 0.05, 1e-4]),
}


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 60), KINDS, st.fixed_dictionaries(SHAPED))
def test_distribution_is_the_slow_one(seed: int, size: int, kind: str, shape: dict[str, Any]) -> None:
    logits = rows(seed, size, kind)
    p = distribution(logits, Settings(**shape))
    expected = np.array(slow(logits, **shape))
    if shape["top_p"] < 1 and near_an_edge(logits, shape):
        return  # rounding may put a token on either side
    np.testing.assert_allclose(p, expected, rtol=1e-12, atol=1e-15)
    assert p.sum() == pytest.approx(1, abs=1e-12)


def near_an_edge(logits: Row, shape: dict[str, Any]) -> bool:
    """Whether some cumulative mass equals top_p to rounding, so that either side is right."""
    p = sorted(slow(logits, shape["temperature"], shape["top_k"], 1.0), reverse=True)
    return bool((np.abs(np.cumsum(p) - shape["top_p"]) < 1e-6).any())


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 60), KINDS, st.fixed_dictionaries(SHAPED))
def test_token_probabilities_are_those_of_distribution(
    seed: int, size: int, kind: str, shape: dict[str, Any]
) -> None:
    """For every token of three rows at once; nodes in any order, rows repeated or left out."""
    logits = np.stack([rows(seed + i, size, kind) for i in range(4)])
    if shape["top_p"] < 1 and any(near_an_edge(row, shape) for row in logits):
        return
    row = torch.tensor([3, 0, 2]).repeat_interleave(size)
    token = torch.arange(size).repeat(3)
    found = token_probabilities(torch.from_numpy(logits), row, token, Settings(**shape))
    expected = np.concatenate([distribution(logits[i], Settings(**shape)) for i in (3, 0, 2)])
    np.testing.assert_allclose(found.double().numpy(), expected, rtol=2e-7, atol=1e-30)


def test_a_nucleus_wider_than_the_first_guess_is_the_same_in_both() -> None:
    """More tokens than NUCLEUS_GUESS are needed; the row is then looked at whole."""
    size = 4 * sampling.NUCLEUS_GUESS
    logits = (0.01 * np.random.default_rng(0).standard_normal(size)).astype(np.float32)
    chosen = Settings(temperature=1.0, top_p=0.9)
    p = distribution(logits, chosen)
    assert sampling.NUCLEUS_GUESS < np.count_nonzero(p) < size
    np.testing.assert_allclose(p, slow(logits, 1.0, 0, 0.9), atol=1e-14)
    token = torch.arange(size)
    found = token_probabilities(torch.from_numpy(logits)[None], torch.zeros_like(token), token, chosen)
    assert np.count_nonzero(found.numpy()) == pytest.approx(np.count_nonzero(p), abs=1)


# The extremes.


@pytest.mark.parametrize("temperature", [0, 5e-324, 1e-320, 1e-40, 1e-30, 1e-4])
def test_tiny_temperatures_give_the_greedy_token_and_no_nan(temperature: float) -> None:
    logits = np.array([1.0, 3.0, 2.0, -np.inf], dtype=np.float32)
    chosen = Settings(temperature=temperature)
    assert distribution(logits, chosen).tolist() == [0, 1, 0, 0]
    token = torch.arange(4)
    found = token_probabilities(torch.from_numpy(logits)[None], torch.zeros_like(token), token, chosen)
    assert found.tolist() == [0, 1, 0, 0]


def test_equal_logits_share_at_a_tiny_temperature_and_the_lowest_id_wins_at_zero() -> None:
    logits = np.array([1.0, 3.0, 3.0], dtype=np.float32)
    assert distribution(logits, Settings(temperature=1e-4)).tolist() == [0, 0.5, 0.5]
    assert distribution(logits, Settings(temperature=0)).tolist() == [0, 1, 0]
    found = token_probabilities(
        torch.from_numpy(logits)[None], torch.zeros(3, dtype=torch.long), torch.arange(3), Settings()
    )
    assert found.tolist() == [0, 1, 0]


def test_tiny_top_p_and_top_k_1_keep_exactly_the_best_token() -> None:
    logits = rows(1, 50, "plain")
    greedy = np.eye(50)[int(np.argmax(logits))]
    for shape in ({"top_p": 1e-4}, {"top_p": 5e-324}, {"top_k": 1}, {"top_p": 1e-4, "top_k": 7}):
        np.testing.assert_array_equal(distribution(logits, Settings(temperature=2, **shape)), greedy)


def test_top_k_above_the_vocabulary_and_top_p_1_change_nothing() -> None:
    logits = rows(1, 50, "plain")
    plain = distribution(logits, Settings(temperature=1))
    for shape in ({"top_k": 50}, {"top_k": 10**9}, {"top_p": 1.0}, {"top_k": 0}):
        np.testing.assert_array_equal(distribution(logits, Settings(temperature=1, **shape)), plain)


def test_ties_at_an_edge_are_all_kept() -> None:
    logits = np.array([0, 2, 1, 1, 1, 0], dtype=np.float32)
    assert np.flatnonzero(distribution(logits, Settings(temperature=1, top_k=2))).tolist() == [1, 2, 3, 4]
    assert np.flatnonzero(distribution(logits, Settings(temperature=1, top_p=0.5))).tolist() == [1, 2, 3, 4]
    flat = np.zeros(2000, dtype=np.float32)
    assert np.count_nonzero(distribution(flat, Settings(temperature=1, top_p=0.5))) == 2000


def test_large_logits_do_not_overflow() -> None:
    logits = np.array([3e38, -3e38, 2.9e38], dtype=np.float32)
    assert distribution(logits, Settings(temperature=1)).tolist() == [1, 0, 0]
    assert distribution(logits, Settings(temperature=1e-300)).tolist() == [1, 0, 0]


# Rows that are no logits.


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("temperature", [0, 1])
def test_nan_and_inf_are_errors_that_name_the_place(bad: float, temperature: float) -> None:
    logits = np.zeros((3, 5), dtype=np.float32)
    logits[1, 2] = bad
    with pytest.raises(NumericsError, match=r"in step 7.*float32"):
        check_logits(torch.from_numpy(logits), "in step 7")
    with pytest.raises(NumericsError, match="not finite"):
        distribution(logits[1], Settings(temperature=temperature))


def test_a_row_of_nothing_but_minus_inf_is_an_error() -> None:
    logits = np.full(4, -np.inf, dtype=np.float32)
    with pytest.raises(NumericsError):
        check_logits(torch.from_numpy(logits)[None], "after the prompt")
    with pytest.raises(NumericsError):
        distribution(logits, Settings(temperature=1))


def test_masked_entries_are_fine() -> None:
    logits = np.array([-np.inf, 0.0, 0.0], dtype=np.float32)
    check_logits(torch.from_numpy(logits)[None], "after the prompt")
    assert distribution(logits, Settings(temperature=1)).tolist() == [0, 0.5, 0.5]


# What is recorded of p.


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=40), st.integers(0, 45))
def test_top_entries_are_the_largest_with_ties_by_id(weights: list[int], count: int) -> None:
    p = np.array(weights, dtype=float) / max(1, sum(weights))
    order = sorted((i for i in range(len(p)) if p[i] > 0), key=lambda i: (-p[i], i))
    assert top_entries(p, count).tolist() == order[:count]


def test_the_rest_keeps_its_digits_and_is_zero_when_all_is_listed() -> None:
    p = np.array([1.0, 3e-20, 1.23456789e-20])
    assert listed(p, np.array([0])).rest == 4.23457e-20
    assert listed(p, np.array([1, 0])).rest == 1.23457e-20
    even = np.full(7, 1 / 7)
    assert listed(even, np.arange(7)).rest == 0
    assert listed(even, np.array([], dtype=np.int64)).rest == 1


def test_listed_keeps_the_order_it_is_given_and_six_digits() -> None:
    p = np.array([0.123456789, 0.876543211])
    record = listed(p, np.array([1, 0]))
    assert (record.token, record.p, record.rest) == ([1, 0], [0.876543, 0.123457], 0)
