"""Second half of a parity recording: runs the published code and writes its numbers as a fixture.

``python record.py CHECKOUT COMMIT FOLDER/NAME OUT.json``, in an environment with transformers 4.53.1 and
this project's torch, none of this project's packages; CHECKOUT is SafeAILab/EAGLE at COMMIT, FOLDER/NAME
what ``tests/parity/prepare.py`` made. Some minutes on two cores for the built-in target.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch

CHECKOUT, COMMIT, FOLDER, OUT = sys.argv[1:5]
MOST_TREES = 4  # of one prompt
sys.path.insert(0, CHECKOUT)


def load(asked: dict[str, Any], tree: str) -> Any:
    """The published model with the tree's parameters as that code counts them (docs/parity.md)."""
    from eagle.model.ea_model import EaModel
    from transformers import AutoTokenizer

    original = AutoTokenizer.from_pretrained.__func__
    # it asks for the slow tokenizer, which these folders do not hold
    AutoTokenizer.from_pretrained = classmethod(
        lambda cls, *names, **options: original(cls, *names, **{**options, "use_fast": True})
    )
    try:
        total, depth, width = map(int, tree.split("/"))
        model = EaModel.from_pretrained(
            use_eagle3=False,
            base_model_path=asked["target"],
            ea_model_path=asked["head"],
            total_token=total + 1,
            depth=depth - 1,
            top_k=width,
            torch_dtype=torch.float32,
        ).eval()
    finally:
        AutoTokenizer.from_pretrained = classmethod(original)
    check_rotary(model.base_model)
    return model


def check_rotary(target: Any) -> None:
    """theta^(-2i/D) in every layer: older checkpoints carry the frequencies in the file."""
    size = target.config.hidden_size // target.config.num_attention_heads
    wanted = target.config.rope_theta ** (-torch.arange(0, size, 2).float() / size)
    for layer in target.model.layers:
        assert torch.allclose(layer.self_attn.rotary_emb.inv_freq.float(), wanted)


def watched(model: Any) -> list[dict[str, Any]]:
    """A list that receives each tree the head drafts from now on: tokens, parents, scores, in its order."""
    seen: list[dict[str, Any]] = []
    drafting, top = model.ea_layer.topK_genrate, torch.topk

    def draft(hidden: Any, input_ids: Any = None, head: Any = None, processor: Any = None, **_: Any) -> Any:
        chosen: list[tuple[Any, Any]] = []

        def spy(values: Any, *rest: Any, **options: Any) -> Any:
            chosen.append((values, top(values, *rest, **options)))
            return chosen[-1][1]

        torch.topk = spy
        try:
            made = drafting(hidden, input_ids, head, processor)
        finally:
            torch.topk = top
        tokens, _, mask, _ = made
        values, kept = chosen[-1]  # the last choice is rerank's
        sees = mask[0, 0].bool()
        seen.append(
            {
                "context": int(input_ids.shape[1]),
                "root": int(tokens[0, 0]),
                "token": tokens[0, 1:].tolist(),
                "parent": [max(j for j in range(i) if sees[i, j]) - 1 for i in range(1, len(sees))],
                "score": [float(f"{score:.6g}") for score in values[kept.indices.sort().values].tolist()],
            }
        )
        return made

    model.ea_layer.topK_genrate = draft
    return seen


def runs(asked: dict[str, Any]) -> list[dict[str, Any]]:
    """One entry a prompt and job: greedy output, and the first trees where they are wanted."""
    rows = []
    for job in asked["jobs"]:
        model = load(asked, job["tree"])
        trees = watched(model)
        for index in range(job["first"], job["last"]):
            ids = asked["prompts"][index]
            trees.clear()
            with torch.no_grad():
                output, *_ = model.eagenerate(
                    torch.tensor([ids]),
                    temperature=0.0,
                    max_new_tokens=job["tokens"],
                    max_length=2048,
                    log=True,
                )
            wanted = trees[:MOST_TREES] if index < job["trees"] else []
            rows.append(
                {
                    "tree": job["tree"],
                    "prompt": ids,
                    "output": output[0, len(ids) :].tolist(),
                    "trees": list(wanted),
                }
            )
            print(job["tree"], index, flush=True)
    return rows


if __name__ == "__main__":
    import transformers

    torch.set_num_threads(1)
    asked = json.loads((Path(FOLDER) / "jobs.json").read_text())
    source = {
        "repository": "SafeAILab/EAGLE",
        "commit": COMMIT,
        "transformers": transformers.__version__,
        "torch": torch.__version__,
    }
    text = json.dumps({"source": source, "pair": asked["pair"], "runs": runs(asked)}, separators=(",", ":"))
    Path(OUT).write_text(text.replace('{"tree"', '\n{"tree"') + "\n")
