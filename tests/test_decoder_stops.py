"""Where a run ends and what it counts, and numbers or questions that it refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from eagle.decoder import Pair, generate
from eagle.sampling import NumericsError
from eagle.settings import Method, Settings, SettingsError, Tree
from eagle.text import PromptError
from eagle.trace import Finish, Origin, Status
from tests.stubs import audited, markov_pair, prompt_of, with_oracle
from tests.tiny import tiny_pair

DRAFTING = (Method.CHAIN, Method.EAGLE1, Method.EAGLE2)


@pytest.fixture(scope="module")
def pair() -> Pair:
    return tiny_pair()


def counting_pair(end: int, size: int = 8) -> Pair:
    """Both models say token + 1, so every draft is accepted; ``end`` is an end token."""
    table = 20.0 * torch.roll(torch.eye(size), 1, dims=1)
    return markov_pair(table, table, frozenset({end}))


@pytest.mark.parametrize("method", [Method.VANILLA, *DRAFTING])
@pytest.mark.parametrize("cap", [4, 5, 100])
def test_nothing_after_an_end_token(method: Method, cap: int) -> None:
    """Greedy path 1 2 3 END 5 6 with a draft that runs past the end and past the cap."""
    done = audited(counting_pair(end=4), [0], method=method, max_new_tokens=cap, tree=Tree.parse("5/5/1"))
    assert done.token_ids == [1, 2, 3, 4]
    assert done.finish is Finish.END_TOKEN and done.new_tokens == 4
    last = done.steps[-1]
    if last.tree:
        assert last.final is None
        accepted = [t for t, s in zip(last.tree.token, last.tree.status, strict=True) if s is Status.ACCEPTED]
        assert accepted == [2, 3, 4]


@pytest.mark.parametrize("method", [Method.VANILLA, *DRAFTING])
@pytest.mark.parametrize("cap", [1, 2, 3, 6])
def test_exactly_as_many_tokens_as_asked(method: Method, cap: int) -> None:
    done = audited(
        counting_pair(end=7, size=64), [10], method=method, max_new_tokens=cap, tree=Tree.parse("5/5/1")
    )
    assert done.token_ids == list(range(11, 11 + cap))
    assert done.finish is Finish.LENGTH
    assert done.target_passes == len(done.steps) - 1


def test_an_answer_of_one_end_token_has_no_rates() -> None:
    done = audited(counting_pair(end=1), [0])
    assert done.token_ids == [1] and done.finish is Finish.END_TOKEN
    assert done.tau is None and done.tokens_per_s is None and done.target_passes == 0


@pytest.mark.parametrize("method", [Method.VANILLA, *DRAFTING])
@pytest.mark.parametrize("end", [3, 4, 5])
def test_any_of_several_end_tokens_stops(method: Method, end: int) -> None:
    pair = counting_pair(end=3)
    pair.target.end_tokens = frozenset({end, 7})
    done = audited(pair, [0], method=method, tree=Tree.parse("5/5/1"))
    assert done.token_ids == list(range(1, end + 1)) and done.finish is Finish.END_TOKEN


def test_the_context_is_filled_and_no_more(pair: Pair) -> None:
    short = tiny_pair(max_position_embeddings=40)
    plain = audited(short, prompt_of(30), method="vanilla")
    drafted = audited(short, prompt_of(30))
    assert plain.token_ids == drafted.token_ids == audited(pair, prompt_of(30), max_new_tokens=10).token_ids
    assert plain.finish is drafted.finish is Finish.CONTEXT
    with pytest.raises(PromptError, match=r"41 tokens.*holds 40"):
        generate(short, prompt_of(41), Settings())


def test_tau_is_emitted_tokens_over_steps(pair: Pair) -> None:
    prompt = prompt_of(9)
    done = audited(with_oracle(pair, prompt, 10.0), prompt, tree=Tree.parse("12/4/3"))
    per_step = [len(step.emitted) for step in done.steps]
    assert per_step[0] == 1
    assert done.tau == sum(per_step[1:]) / (len(per_step) - 1)
    assert done.new_tokens == len(done.token_ids) == 48
    origins = [origin for step in done.steps for origin in step.emitted.origin]
    assert origins.count(Origin.PROMPT) == 1
    assert origins.count(Origin.DRAFT) == sum(
        status is Status.ACCEPTED for step in done.steps if step.tree for status in step.tree.status
    )
    assert audited(pair, prompt, method="vanilla").tau == 1.0


# Bad numbers and bad questions.


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("method", [Method.VANILLA, *DRAFTING])
def test_bad_logits_stop_the_run_and_name_the_step(method: Method, bad: float) -> None:
    pair = counting_pair(end=7)
    pair.target.table[0, 3] = bad  # type: ignore[attr-defined]
    with pytest.raises(NumericsError, match="after the prompt"):
        generate(pair, [0], Settings(method=method))
    pair = counting_pair(end=7)
    pair.target.table[1, 3] = bad  # type: ignore[attr-defined]
    with pytest.raises(NumericsError, match=r"in step 1\..*float32"):
        generate(pair, [0], Settings(method=method))


def test_minus_infinity_is_a_token_that_never_comes(pair: Pair) -> None:
    table = torch.full((8, 8), -torch.inf)
    table[:, 2:4] = 0.0
    stub = markov_pair(table, torch.zeros(8, 8))
    done = audited(stub, [0], temperature=1.0, tree=Tree.parse("8/2/8"))
    assert set(done.token_ids) == {2, 3}


def test_methods_that_draft_need_a_head(pair: Pair) -> None:
    alone = replace(pair, head=None)
    assert audited(alone, prompt_of(3), method="vanilla").new_tokens == 48
    with pytest.raises(SettingsError, match="needs a draft head"):
        generate(alone, prompt_of(3), Settings(method="eagle2"))


def test_an_empty_list_of_ids_is_refused(pair: Pair) -> None:
    with pytest.raises(PromptError):
        generate(pair, [], Settings())
    with pytest.raises(PromptError, match="outside the vocabulary"):
        generate(pair, [1, 99999], Settings())
