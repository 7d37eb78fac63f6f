"""The table of known pairs."""

from __future__ import annotations

from eagle.hub import HUB_ID
from eagle.pairs import known_pairs


def test_every_row_is_complete_and_loadable_by_name() -> None:
    pairs = known_pairs()
    assert len({pair.name for pair in pairs}) == len(pairs) >= 13
    for pair in pairs:
        assert HUB_ID.fullmatch(pair.target) and HUB_ID.fullmatch(pair.head)
        assert pair.method in ("eagle2", "eagle3")
        assert pair.target_licence and pair.head_licence
        assert pair.gated == pair.target.startswith("meta-llama/")


def test_memory_is_that_of_both_in_bfloat16() -> None:
    sizes = {pair.head: pair.memory_gb for pair in known_pairs()}
    assert sizes["yuhuili/EAGLE-LLaMA3-Instruct-8B"] == 17.1
    assert sizes["yuhuili/EAGLE-Vicuna-7B-v1.3"] == 14.5
    assert "17.1 GB" in next(p.label for p in known_pairs() if p.head.endswith("LLaMA3-Instruct-8B"))
