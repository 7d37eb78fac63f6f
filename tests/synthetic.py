"""Runs made up from a seed and judged by ``eagle.rules``: real in structure, no model needed.

The target's and the draft's distributions are drawn from a seeded generator over a small vocabulary;
trees are expanded and reranked as EAGLE-2 does. Used by the tests of figures, session and page.
"""

from __future__ import annotations

import math

import numpy as np

from eagle import rules
from eagle.settings import Settings, Tree
from eagle.trace import (
    ROOT,
    Cut,
    Distribution,
    Emitted,
    Final,
    Finish,
    ModelInfo,
    Origin,
    PairInfo,
    PromptTrace,
    RunTrace,
    Status,
    StepTrace,
    Times,
    TreeTrace,
    Trial,
    six,
)

WORDS = [
    " the",
    " a",
    " of",
    " to",
    " and",
    " sky",
    " looks",
    " blue",
    " because",
    " sunlight",
    " scatters",
    " air",
    " light",
    " is",
    " in",
    ".",
    ",",
    "\n",
    " that",
    " it",
    " molecules",
    " waves",
    " shorter",
    " more",
    " than",
    " red",
    "<0xE2><0x80>",
    " explanation",
    " approximately",
    "1e5",
]
HOSTILE = [
    "<b>",
    "</b>",
    "<br>",
    "<script>alert(1)</script>",
    '<img src=x onerror="window.hacked=1">',
    "&lt;",
    "%{x}",
    "<extra></extra>",
    "$",
    "$$",
    "$x$",
    "\n",
    "\n\n",
    "\t",
    " ",
    "  ",
    "",
    "1e5",
    "a",
    " a",
    "a",
    "x" * 60,
    '"quoted"',
    "`tick`",
    "${1+1}",
    "{{value}}",
    "<0xF0><0x9F>",
    "\u202egnp",
    "\u200b",
    "漢字",
    "😀",
    "<a href='javascript:alert(1)'>",
]
LISTED = 6


def _distribution(rng: np.random.Generator, size: int, sharpness: float) -> np.ndarray:
    logits = rng.normal(size=size) * sharpness
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def _listed(p: np.ndarray, tokens: list[int]) -> Distribution:
    values = [six(float(p[token])) for token in tokens]
    return Distribution(token=tokens, p=values, rest=six(max(0.0, 1.0 - sum(values))))


def _draft(rng: np.random.Generator, shape: Tree, size: int, target: list[np.ndarray]) -> dict[str, list]:
    """All candidates, level by level, then the best ``total`` of them renumbered in draft order."""
    rows: list[tuple[int, int, int, float, float]] = []  # parent, depth, token, confidence, value
    frontier = [(ROOT, 1.0)]
    for depth in range(1, shape.depth + 1):
        level = []
        for parent, value in frontier:
            p = _distribution(rng, size, 2.5)
            for token in np.argsort(-p)[: shape.width]:
                level.append((parent, depth, int(token), float(p[token]), value * float(p[token])))
        first = len(rows)
        rows += level
        best = sorted(range(len(level)), key=lambda i: -level[i][4])[: shape.width]
        frontier = [(first + i, level[i][4]) for i in best]
    order = sorted(range(len(rows)), key=lambda i: (-rows[i][4], i))
    kept = sorted(order[: shape.total])
    cut = sorted(order[shape.total :])
    number = {ROOT: ROOT} | {old: new for new, old in enumerate(kept + cut)}
    del target
    return {
        "kept": [(number[rows[i][0]], *rows[i][1:]) for i in kept],
        "cut": [(number[rows[i][0]], *rows[i][1:]) for i in cut],
    }


def _step(
    rng: np.random.Generator, index: int, context: int, root: int, shape: Tree, labels: list[str], mix: float
) -> StepTrace:
    size = len(labels)
    rows = _draft(rng, shape, size, [])
    kept = rows["kept"]
    p_at: dict[int, np.ndarray] = {}
    for node in [ROOT, *range(len(kept))]:
        p = _distribution(rng, size, 2.0)
        for row in kept:  # the draft knows something: mix its confidences in
            if row[0] == node:
                p[row[2]] += mix * row[3]
        p_at[node] = p / p.sum()
    status = [Status.NOT_TESTED] * len(kept)
    trials: list[Trial] = []
    path: list[int] = []
    at = ROOT
    while True:
        children = [child for child, row in enumerate(kept) if row[0] == at]
        verdict = rules.eagle2(p_at[at], [kept[child][2] for child in children], rng.random)
        here = [kept[child][2] for child in children][: len(verdict.trials)]
        tail = [verdict.final.token] if verdict.final else []
        top = [int(t) for t in np.argsort(-p_at[at])[:LISTED]]
        tokens = sorted(dict.fromkeys(here + tail + top), key=lambda t: -p_at[at][t])
        for child, trial in zip(children, verdict.trials, strict=False):
            status[child] = Status.ACCEPTED if trial.accepted else Status.REJECTED
            trials.append(
                Trial(
                    node=child,
                    proposal=1.0,
                    accept=trial.accept,
                    draw=trial.draw,
                    accepted=trial.accepted,
                    before=_listed(trial.before, tokens),
                    normaliser=min(1.0, trial.normaliser),
                )
            )
        if verdict.final is not None:
            drawn = verdict.final
            break
        assert verdict.accepted is not None
        at = children[verdict.accepted]
        path.append(at)
    origin = Origin.RESIDUAL if children else Origin.BONUS
    final = Final(
        token=drawn.token,
        origin=origin,
        node=at,
        draw=drawn.draw,
        low=drawn.low,
        high=drawn.high,
        drawn_from=_listed(drawn.drawn_from, tokens),
    )
    emitted = [kept[node][2] for node in path] + [drawn.token]
    tree = TreeTrace(
        root=root,
        parent=[row[0] for row in kept],
        depth=[row[1] for row in kept],
        token=[row[2] for row in kept],
        confidence=[six(row[3]) for row in kept],
        value=[six(row[4]) for row in kept],
        p=[six(float(p_at[row[0]][row[2]])) for row in kept],
        status=status,
        cut=Cut(
            parent=[row[0] for row in rows["cut"]],
            token=[row[2] for row in rows["cut"]],
            confidence=[six(row[3]) for row in rows["cut"]],
        ),
    )
    return StepTrace(
        index=index,
        context=context,
        tree=tree,
        trials=trials,
        final=final,
        emitted=Emitted(
            token=emitted,
            origin=[Origin.DRAFT] * len(path) + [origin],
            node=[*path, ROOT],
            text=[labels[token] for token in emitted],
        ),
        times=Times(
            draft_ms=round(18 + 4 * rng.random(), 4),
            verify_ms=round(70 + 9 * rng.random(), 4),
            commit_ms=round(1 + rng.random(), 4),
        ),
    )


def synthetic_run(
    seed: int = 0,
    steps: int = 12,
    tree: Tree | str = "12/4/4",
    labels: list[str] | None = None,
    temperature: float = 0.7,
    mix: float = 1.5,
    prompt: str = "Why is the sky blue?",
) -> RunTrace:
    """A run of ``steps`` steps after the prompt's pass; ``mix``: how much the target heeds the draft."""
    rng = np.random.default_rng(seed)
    shape = Tree.parse(tree) if isinstance(tree, str) else tree
    names = labels or WORDS
    p = _distribution(rng, len(names), 2.0)
    drawn = rules.inverse_cdf(p, rng.random())
    top = [int(t) for t in np.argsort(-p)[:LISTED]]
    tokens = list(dict.fromkeys([drawn.token, *top]))
    first = StepTrace(
        index=0,
        context=5,
        tree=None,
        trials=[],
        final=Final(
            token=drawn.token,
            origin=Origin.PROMPT,
            node=ROOT,
            draw=drawn.draw,
            low=drawn.low,
            high=drawn.high,
            drawn_from=_listed(p, tokens),
        ),
        emitted=Emitted(token=[drawn.token], origin=[Origin.PROMPT], node=[ROOT], text=[names[drawn.token]]),
        times=Times(verify_ms=120.5),
        labels=dict(enumerate(names)),
    )
    made = [first]
    for index in range(1, steps + 1):
        context = 5 + sum(len(step.emitted) for step in made)
        made.append(_step(rng, index, context, made[-1].emitted.token[-1], shape, names, mix))
    made[-1] = made[-1].model_copy(update={"finish": Finish.LENGTH})
    emitted = sum(len(step.emitted) for step in made)
    return RunTrace(
        pair=PairInfo(
            target=ModelInfo(
                name="made-up target",
                hash=None,
                dtype="float32",
                weights="fp32",
                device="cpu",
                parameters=135_000_000,
            ),
            head=ModelInfo(
                name="made-up head",
                hash=None,
                dtype="float32",
                weights="fp32",
                device="cpu",
                parameters=4_000_000,
            ),
        ),
        settings=Settings(temperature=temperature, seed=seed, max_new_tokens=min(4096, emitted), tree=shape),
        seed=seed,
        prompt=PromptTrace(text=prompt, token=[0, 1, 2], labels=names[:3], chat=True),
        steps=made,
        finish=Finish.LENGTH,
        text="".join(t for step in made for t in step.emitted.text),
        new_tokens=emitted,
        target_passes=steps,
        packages={"python": f"{math.pi:.2f}"},
    )
