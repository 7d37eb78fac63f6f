"""How wide should the tree be on this machine? Measured costs, and the tree they pay for.

A step costs the draft levels plus one target pass over the nodes, and brings the final token plus
every accepted node. With a node's value v as the estimate that it is accepted, a tree of the n most
valuable nodes brings 1 + v1 + .. + vn tokens for ``levels * level_ms + pass_ms(n + 1)``. The automatic
tree maximises tokens per millisecond, one decision at a time: draft another level or stop, then cut
where the next node no longer pays.

Both decisions look only at the draft's own confidences and at costs that were fixed before the run.
So which candidates are offered does not depend on the target's distribution below the root nor on
any draw, and the acceptance rule keeps the target's law for whatever list it is offered.
"""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from eagle.builtin import cache_dir
from eagle.trace import Costs

if TYPE_CHECKING:
    from eagle.decoder import Pair

PROBED_NODES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)
PROBED_TEXT = """A river begins as rain on high ground. The water gathers in small streams, finds the
lowest way through the hills, and joins other streams until it is wide and slow. On its way it
carries sand and soil, and where it meets the sea it leaves them behind as new land."""
REPEATS = 4
# A pass may be this share of a smaller one's time and still count as the noise of a quiet machine.
LEAST_SHARE = 0.8
AUTO_WIDTH = 6
AUTO_DEPTH = 8
AUTO_TOTAL = 63

Array = NDArray[np.float64]


def pass_ms(costs: Costs) -> Array:
    """Milliseconds of a target pass over 1 .. AUTO_TOTAL + 1 tokens, between the probed sizes linear."""
    sizes = np.arange(1, AUTO_TOTAL + 2)
    return np.interp(sizes, costs.nodes, np.maximum.accumulate(costs.pass_ms))


def best_size(values: Array, pass_cost: Array, spent_ms: float) -> tuple[int, float]:
    """How many of these nodes (values in descending order) to verify, and the tokens a millisecond."""
    count = min(values.size, pass_cost.size - 1)
    tokens = 1.0 + np.concatenate(([0.0], np.cumsum(values[:count])))
    rate = tokens / (spent_ms + pass_cost[: count + 1])
    best = int(np.argmax(rate[1:])) + 1 if count else 0
    return best, float(rate[best])


def another_level_pays(values: Array, frontier: Array, levels: int, costs: Costs, pass_cost: Array) -> bool:
    """Whether drafting one more level is expected to raise tokens per millisecond.

    ``values`` are all candidates' so far, ``frontier`` those that would be expanded; their children
    are expected to have the confidences that this head's candidates have on average.
    """
    _, now = best_size(np.sort(values)[::-1], pass_cost, levels * costs.level_ms)
    children = np.outer(frontier, costs.typical_confidence).ravel()
    then_values = np.sort(np.concatenate((values, children)))[::-1]
    _, then = best_size(then_values, pass_cost, (levels + 1) * costs.level_ms)
    return then > now


def probe(pair: Pair) -> Costs:
    """Measures this pair on this machine (a second or two), or recalls what was measured before.

    Recalling keeps a seed's output the same from start to start: other costs mean other trees,
    and other trees use the draws differently. A measurement that other work disturbed is used once
    and not kept.
    """
    try:
        return Costs.model_validate_json(_path(pair).read_bytes())
    except (OSError, ValueError):
        costs = measure(pair)
    keep(pair, costs)
    return costs


def keep(pair: Pair, costs: Costs) -> bool:
    """Puts costs in the place of those that were kept; whether it did: not if disturbed or unwritable."""
    if disturbed(costs):
        return False
    path = _path(pair)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(costs.model_dump_json(indent=1))
    except OSError:
        return False  # a read-only cache: measured again at the next start
    return True


def disturbed(costs: Costs) -> bool:
    """Whether some pass came out far cheaper than a smaller one, which only other work explains."""
    dearest = np.maximum.accumulate(costs.pass_ms)
    return bool((np.asarray(costs.pass_ms) < LEAST_SHARE * dearest).any())


def _path(pair: Pair) -> Path:
    """Where this pair's costs are kept, for this machine's threads and this version of torch."""
    what = [pair.info.model_dump_json(exclude={"costs", "notes"}), torch.get_num_threads(), torch.__version__]
    key = hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]
    return cache_dir() / "costs" / f"{key}.json"


@torch.inference_mode()
def measure(pair: Pair) -> Costs:
    """Best of a few repeats each: the target's pass by size, one draft level, typical confidences."""
    assert pair.head is not None
    target, head = pair.target, pair.head
    text = torch.tensor(pair.tokenizer(PROBED_TEXT)["input_ids"], device=target.device)
    length = text.shape[0]
    cache = target.new_cache(length + max(PROBED_NODES))
    features = target.forward(text, torch.arange(length, device=target.device), None, cache)
    cache.keep_first(length)
    passes = []
    for nodes in PROBED_NODES:
        ids = text[torch.arange(nodes, device=target.device) % length]
        positions = torch.full_like(ids, length)
        block = torch.eye(nodes, dtype=torch.bool, device=target.device)
        block[:, 0] = True

        def one_pass(ids=ids, positions=positions, block=block) -> torch.Tensor:  # type: ignore[no-untyped-def]
            return target.logits(target.forward(ids, positions, block, cache))

        passes.append(_best_ms(one_pass))
    head_cache = head.new_cache(length + AUTO_WIDTH)
    head.extend(text[1:], features[:-1], head_cache)
    width = min(AUTO_WIDTH, head.draft_vocabulary_size)
    seen = torch.eye(width, dtype=torch.bool, device=target.device)

    def one_level() -> torch.Tensor:
        committed = head_cache.length
        guesses = head.grow(text[:width], features[:width], seen, committed, head_cache)
        head_cache.length = committed
        return head.log_confidence(guesses).topk(width, dim=-1).values

    confidences = head.log_confidence(features).topk(width, dim=-1).values.exp().mean(0)
    return Costs(
        nodes=list(PROBED_NODES),
        pass_ms=[round(ms, 3) for ms in passes],
        level_ms=round(_best_ms(one_level), 3),
        typical_confidence=[round(value, 4) for value in confidences.tolist()],
    )


def _best_ms(work) -> float:  # type: ignore[no-untyped-def]
    """The fastest of a few runs, in milliseconds; the first is not counted."""
    best = float("inf")
    for attempt in range(REPEATS + 1):
        began = time.perf_counter()
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        if attempt:
            best = min(best, 1000 * (time.perf_counter() - began))
    return best
