"""Our drafts and greedy text against numbers recorded with the published code (docs/parity.md)."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from eagle import decoder
from eagle.builtin import sha256_of
from eagle.decoder import Pair
from eagle.drafts import Draft
from eagle.host import bring
from eagle.settings import Settings, Tree
from tests.parity_pairs import beside, builtin_head, checksum, tiny_parity_pair, tiny_parts
from tests.stubs import ids_prompt

FIXTURES = Path(__file__).parent / "parity"
HEAD = Path(__file__).parent.parent / "assets" / "head" / "model.safetensors"


@dataclass(frozen=True)
class Fixture:
    """One file of recorded numbers."""

    source: dict[str, str]
    pair: dict[str, str]
    runs: list[dict[str, Any]]

    @classmethod
    def read(cls, name: str) -> Fixture:
        return cls(**json.loads((FIXTURES / f"{name}.json").read_text()))


def settings_for(run: dict[str, Any], tokens: int) -> Settings:
    return Settings(seed=0, max_new_tokens=tokens, tree=Tree.parse(run["tree"]))


def our_trees(pair: Pair, run: dict[str, Any]) -> dict[int, tuple[int, Draft]]:
    """Our root and draft by context length, along our own greedy text, as far as trees were recorded."""
    wanted = {tree["context"] for tree in run["trees"]}
    settings = settings_for(run, 64)  # far enough that no tree is cut short by the end of the run
    state = decoder.start(pair, ids_prompt(run["prompt"]), settings)
    decoder.prefill(state, settings)
    found = {}
    while state.finish is None and wanted - found.keys():
        drafted = decoder.drafting(state, settings)
        assert drafted is not None
        found[len(state.ids)] = (state.ids[-1], drafted)
        logits, features = decoder.read(state, drafted)
        decoder.commit(state, decoder.judge(state, *bring(drafted, logits, settings, "here")), features)
    return found


def assert_same_trees(pair: Pair, run: dict[str, Any]) -> int:
    """Node for node: tokens, parents, order, and scores to 1e-4. Returns how many trees were compared."""
    ours = our_trees(pair, run)
    ended = [
        len(run["prompt"]) + i for i, token in enumerate(run["output"]) if token in pair.target.end_tokens
    ]
    compared = 0
    for tree in run["trees"]:
        if ended and tree["context"] > ended[0]:
            continue  # the published loop drafts once more behind an end token; ours has stopped
        root, drafted = ours[tree["context"]]
        assert root == tree["root"]
        assert drafted.kept.token.tolist() == tree["token"]
        assert drafted.kept.parent.tolist() == tree["parent"]
        assert drafted.kept.log_value.tolist() == pytest.approx(tree["score"], abs=1e-4)
        compared += 1
    return compared


def assert_same_text(pair: Pair, run: dict[str, Any]) -> None:
    """Greedy text, up to the end token that ours stops at."""
    output = run["output"]
    ends = [index for index, token in enumerate(output) if token in pair.target.end_tokens]
    expected = output[: ends[0] + 1] if ends else output
    done = decoder.generate(pair, run["prompt"], settings_for(run, len(expected)))
    assert done.token_ids == expected


@pytest.fixture(scope="module")
def tiny() -> Pair:
    """The pair whose numbers were recorded; another torch could make other random weights."""
    pair = tiny_parity_pair()
    pair.target.end_tokens = frozenset({256})
    model, head, _ = tiny_parts()
    recorded = Fixture.read("tiny").pair
    assert recorded == {"target": checksum(model.state_dict()), "head": checksum(head)}
    return pair


TINY = Fixture.read("tiny")
SEEDED = Fixture.read("builtin_seeded_head")
TRAINED = Fixture.read("builtin_trained_head")


@pytest.mark.parametrize("shape", ["60/6/10", "8/4/4", "30/3/5"])
def test_tiny_trees_are_the_published_ones(tiny: Pair, shape: str) -> None:
    compared = [assert_same_trees(tiny, run) for run in TINY.runs if run["tree"] == shape]
    assert sum(compared) >= 20


@pytest.mark.slow
def test_tiny_greedy_text_is_the_published_one(tiny: Pair) -> None:
    runs = [run for run in TINY.runs if run["tree"] == "60/6/10"]
    assert len(runs) == 12
    for run in runs:
        assert_same_text(tiny, run)


def untrimmed(pair: Pair) -> Pair:
    """The pair with its head scoring the whole vocabulary, as the published code does."""
    assert pair.head is not None
    head = type(pair.head)(pair.head.module, pair.target, pair.head.rotary)
    return replace(pair, head=head)


@pytest.mark.real
def test_built_in_trees_of_a_seeded_head_are_the_published_ones(built_in: Pair) -> None:
    module = builtin_head(built_in.target)
    assert SEEDED.pair["head"] == checksum(dict(module.state_dict()))
    pair = replace(built_in, head=beside(module, built_in.target, 100000.0))
    assert {run["tree"] for run in SEEDED.runs} == {"60/6/10", "8/4/4", "30/3/5"}
    for run in SEEDED.runs:
        assert assert_same_trees(pair, run) == len(run["trees"]) > 0


@pytest.mark.real
def test_built_in_trees_and_text_of_the_trained_head_are_the_published_ones(built_in: Pair) -> None:
    assert TRAINED.pair["head_sha256"] == sha256_of(HEAD), (
        "these are of another head than the one in assets/head; docs/parity.md tells how to record it anew"
    )
    pair = untrimmed(built_in)
    for run in TRAINED.runs:
        if run["trees"]:
            assert assert_same_trees(pair, run) == len(run["trees"])
        else:
            assert_same_text(pair, run)


def test_published_parameters_are_mapped() -> None:
    assert Tree.from_published(total_token=61, depth=5, top_k=10) == Tree.parse("60/6/10")
    assert Tree.from_published(total_token=60, depth=7, top_k=10) == Tree(total=59, depth=8, width=10)
