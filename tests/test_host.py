"""One copy to the host a step: counted on a pretended device, where every read is seen."""

from __future__ import annotations

import cProfile
import pstats
from dataclasses import replace

import pytest
import torch

from eagle import decoder, host
from eagle.decoder import Pair
from eagle.draft_head import RotaryTable
from eagle.settings import Method, Settings, Tree
from eagle.trace import Costs, StepTrace
from tests.pretend_device import FAR, Far, PretendDevice, move
from tests.stubs import ids_prompt, prompt_of
from tests.tiny import HEAD_DIM, tiny_head, tiny_pair

pytestmark = pytest.mark.slow

COSTS = Costs(nodes=[1, 8, 64], pass_ms=[20.2, 21.6, 32.8], level_ms=0.1, typical_confidence=[0.9, 0.3])


def far_pair(**settings: object) -> Pair:
    """The tiny pair on the pretended device, with a trimmed vocabulary; call inside of it."""
    pair = tiny_pair()
    pair = replace(pair, info=pair.info.model_copy(update={"costs": COSTS}))
    assert pair.head is not None
    head = tiny_head(pair.target, vocabulary=torch.arange(0, 257, 2))
    move(pair.target.model)  # type: ignore[attr-defined]
    pair.target.device = pair.target.input_device = FAR  # type: ignore[attr-defined]
    move(head.module)
    for linear in [head.scores, *head.module.modules()]:
        for name in ("_weight", "_bias"):
            if isinstance(vars(linear).get(name), torch.Tensor):
                setattr(linear, name, Far(getattr(linear, name)))
    head.vocabulary = torch.arange(0, 257, 2, device=FAR)
    head.rotary = RotaryTable.plain(HEAD_DIM, 10000.0, FAR)
    return replace(pair, head=head)


def far_steps(settings: Settings) -> tuple[list[StepTrace], list[int], list[int]]:
    """A run on the pretended device: its steps, and the reads and uploads of each."""
    with PretendDevice() as device:
        steps, reads, uploads = [], [], []
        for step in decoder.decode(far_pair(), ids_prompt(prompt_of(12)), settings):
            steps.append(step)
            reads.append(device.reads.total())
            uploads.append(device.uploads)
            device.reads.clear()
            device.uploads = 0
    return steps, reads, uploads


def asked(method: str, temperature: float, tree: str = "8/3/4") -> Settings:
    return Settings(
        method=method,
        temperature=temperature,
        seed=1,
        max_new_tokens=12,
        tree="auto" if tree == "auto" else Tree.parse(tree),
    )


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize("method", ["vanilla", "eagle2"])
def test_a_step_is_one_copy_to_the_host_and_one_from_it(method: str, temperature: float) -> None:
    steps, reads, uploads = far_steps(asked(method, temperature))
    assert len(steps) > 3
    assert set(reads) == {1}
    assert set(uploads[1:]) == {1}


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_an_automatic_tree_brings_each_levels_values_once(temperature: float) -> None:
    steps, reads, _ = far_steps(asked("eagle2", temperature, "auto"))
    depths = [max(step.tree.depth + _cut_depths(step)) for step in steps[1:] if step.tree]
    assert max(depths) > 1
    assert [count - 1 for count in reads[1:]] == depths


def _cut_depths(step: StepTrace) -> list[int]:
    assert step.tree is not None
    depth = list(step.tree.depth)
    for parent in step.tree.cut.parent:
        depth.append(1 if parent < 0 else depth[parent] + 1)
    return depth


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize("method", ["chain", "eagle1"])
def test_static_drafts_read_once_a_level(method: str, temperature: float) -> None:
    """What ``eagle/host.py`` says remains; the head's vocabulary comes once a run."""
    steps, reads, _ = far_steps(asked(method, temperature))
    depths = [max(step.tree.depth) for step in steps[1:] if step.tree]
    assert [count - 1 for count in reads[1:]] == [depths[0] + 1, *depths[1:]]


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize("method", list(Method)[:4])
def test_the_pretended_device_computes_what_the_cpu_does(method: Method, temperature: float) -> None:
    settings = asked(method, temperature)
    steps, _, _ = far_steps(settings)
    near = tiny_pair()
    near = replace(near, head=tiny_head(near.target, vocabulary=torch.arange(0, 257, 2)))
    expected = list(decoder.decode(near, ids_prompt(prompt_of(12)), settings))
    assert [_still(step) for step in steps] == [_still(step) for step in expected]


def _still(step: StepTrace) -> StepTrace:
    times = step.times.model_copy(update={"draft_ms": 0.0, "verify_ms": 0.0, "commit_ms": 0.0})
    return step.model_copy(update={"times": times})


def test_what_is_packed_comes_out_again() -> None:
    tensors = [
        torch.tensor([[True], [False], [True]]),
        torch.randn(2, 3).to(torch.bfloat16),
        torch.randn(5)[::2],
        torch.tensor([-1, 2**40]),
        torch.empty(0, dtype=torch.long),
        torch.randn(1, 3),
    ]
    for mine, theirs in zip(host.unpack(host.pack(tensors), tensors), tensors, strict=True):
        assert mine.dtype == theirs.dtype and torch.equal(mine, theirs)


def test_what_lies_on_the_host_is_not_copied() -> None:
    x = torch.randn(4)
    assert host.fetch([x])[0] is x


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_no_python_runs_for_each_node_until_the_verdict(temperature: float) -> None:
    """Drafting, verifying and bringing a tree of 60 nodes makes the calls of one of 4, levels being equal."""
    pair = tiny_pair()
    shapes = ("4/3/10", "4/3/10", "60/3/10")  # the first call of all fills torch's own caches
    _, few, many = (_calls_of_a_step(pair, asked("eagle2", temperature, shape)) for shape in shapes)
    assert few == many > 100


def _calls_of_a_step(pair: Pair, settings: Settings) -> int:
    state = decoder.start(pair, ids_prompt(prompt_of(12)), settings)
    decoder.prefill(state, settings)
    seen = cProfile.Profile()
    seen.enable()
    drafted = decoder.drafting(state, settings)
    logits, _ = decoder.read(state, drafted)
    host.bring(drafted, logits, settings, "here")
    seen.disable()
    return int(pstats.Stats(seen).total_calls)  # type: ignore[attr-defined]
