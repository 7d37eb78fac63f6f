"""Whole runs without a model: a target and a head that are two small tables, decoded in plain numpy.

The auditor, the traces and the pictures are tested on these. The acceptance rules are the real ones;
drafting and recording are written again here, so that a fault of the decoder's is not copied.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from eagle import rules
from eagle.settings import Method, Settings, Tree
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
    SampledFrom,
    Status,
    StepTrace,
    Times,
    TreeTrace,
    Trial,
    six,
)

VOCABULARY = 40
END = 0
PROMPT = [3, 7, 3]
TOP = 5
STATIC = "0 1 2 3 00 01 02 10 11 20 21 30 000 001 002 010 011 020 021 100 0000 0001 0002 00000 00001"


@cache
def tables(seed: int = 0) -> tuple[rules.Array, rules.Array]:
    """Logits of the next token given the last one [V, V]: the target's, and the head's, which are alike."""
    rng = np.random.default_rng(seed)
    target = 2.5 * rng.standard_normal((VOCABULARY, VOCABULARY))
    target[:, END] -= 1.0
    return target, target + 1.2 * rng.standard_normal((VOCABULARY, VOCABULARY))


def softmax(logits: rules.Array, temperature: float) -> rules.Array:
    if temperature == 0:
        return np.eye(VOCABULARY)[int(np.argmax(logits))]
    weights = np.exp((logits - logits.max()) / temperature)
    return weights / weights.sum()


@dataclass
class Node:
    """A drafted candidate; ``parent`` is an index among all candidates."""

    token: int
    parent: int
    depth: int
    confidence: float
    value: float
    sampled: rules.Candidate | None = None


@dataclass
class Stub:
    """One run in the making."""

    settings: Settings
    tables: tuple[rules.Array, rules.Array]
    rng: np.random.Generator
    ids: list[int] = field(default_factory=lambda: list(PROMPT))
    steps: list[StepTrace] = field(default_factory=list)
    left: int = 0
    labelled: set[int] = field(default_factory=lambda: set(PROMPT))
    finish: Finish | None = None

    def p(self, token: int) -> rules.Array:
        return softmax(self.tables[0][token], self.settings.temperature)

    def confidences(self, token: int) -> rules.Array:
        return softmax(self.tables[1][token], 1.0)

    def q(self, token: int) -> rules.Array:
        return softmax(self.tables[1][token], self.settings.temperature)


def stub_run(table_seed: int = 0, **settings: object) -> RunTrace:
    """A valid run; ``settings`` are those of Settings (a seed must be given)."""
    chosen = Settings(**settings)
    assert chosen.seed is not None
    stub = Stub(chosen, tables(table_seed), np.random.Generator(np.random.PCG64(chosen.seed)))
    stub.left = chosen.max_new_tokens
    first = rules.inverse_cdf(stub.p(stub.ids[-1]), stub.rng.random())
    listing = listed_tokens(first.drawn_from, [first.token])
    record(stub, None, [], final_record(first, Origin.PROMPT, ROOT, listing), [])
    while stub.finish is None:
        one_step(stub)
    return RunTrace(
        pair=PairInfo(
            target=ModelInfo(name="stub", dtype="float64", weights="fp64", device="cpu", parameters=0)
        ),
        settings=chosen,
        seed=chosen.seed,
        prompt=PromptTrace(text="a stub", token=PROMPT, labels=[label(t) for t in PROMPT], chat=False),
        steps=stub.steps,
        finish=stub.finish,
        text="".join(piece for step in stub.steps for piece in step.emitted.text),
        new_tokens=len(stub.ids) - len(PROMPT),
        target_passes=len(stub.steps) - 1,
        packages={},
    )


def label(token: int) -> str:
    return f" t{token}"


# Drafting.


def expand_and_rerank(stub: Stub) -> tuple[list[Node], list[Node]]:
    """EAGLE-2's tree: kept and cut, parents numbered among kept, then cut."""
    tree = stub.settings.tree
    assert isinstance(tree, Tree)
    every: list[Node] = []
    frontier = [ROOT]
    for depth in range(1, min(tree.depth, stub.left) + 1):
        level = []
        for parent in frontier:
            last = stub.ids[-1] if parent == ROOT else every[parent].token
            value = 1.0 if parent == ROOT else every[parent].value
            confidences = stub.confidences(last)
            for token in rules.top_tokens(confidences, tree.width):
                c = float(confidences[token])
                level.append(len(every))
                every.append(Node(token, parent, depth, c, value * c))
        frontier = sorted(level, key=lambda i: (-every[i].value, i))[: tree.width]
    best = sorted(range(len(every)), key=lambda i: (-every[i].value, i))
    kept, cut = sorted(best[: tree.total]), sorted(best[tree.total :])
    new = {ROOT: ROOT} | {old: i for i, old in enumerate(kept + cut)}
    for node in every:
        node.parent = new[node.parent]
    return [every[i] for i in kept], [every[i] for i in cut]


def fixed_shape(stub: Stub) -> tuple[list[Node], list[float] | None]:
    """A chain, or EAGLE-1's static tree: sampled without replacement, or top-k at temperature 0."""
    depth = stub.settings.tree.depth if isinstance(stub.settings.tree, Tree) else 5
    chain = stub.settings.method is Method.CHAIN
    paths = ["0" * (i + 1) for i in range(depth)] if chain else STATIC.split()
    paths = [path for path in paths if len(path) <= stub.left]
    index: dict[str, int] = {}
    nodes: list[Node] = []
    draws: list[float] = []

    def draw() -> float:
        draws.append(stub.rng.random())
        return draws[-1]

    for above in dict.fromkeys(path[:-1] for path in paths):
        if above and above not in index:
            continue
        k = sum(path[:-1] == above for path in paths)
        parent = index.get(above, ROOT)
        last = nodes[parent].token if above else stub.ids[-1]
        confidences, value = stub.confidences(last), nodes[parent].value if above else 1.0
        if stub.settings.temperature:
            chosen = rules.draw_without_replacement(stub.q(last), k, draw)
        else:
            chosen = [rules.Candidate(token) for token in rules.top_tokens(confidences, k)]
        for rank, candidate in enumerate(chosen):
            c = float(confidences[candidate.token])
            index[f"{above}{rank}"] = len(nodes)
            sampled = candidate if candidate.q is not None else None
            nodes.append(Node(candidate.token, parent, len(above) + 1, c, value * c, sampled))
    return nodes, draws if stub.settings.temperature else None


# Verifying and recording.


def one_step(stub: Stub) -> None:
    method = stub.settings.method
    kept, cut, draws = [], [], None
    if method in (Method.EAGLE2, Method.EAGLE3):
        kept, cut = expand_and_rerank(stub)
    elif method is not Method.VANILLA:
        kept, draws = fixed_shape(stub)
    at, path, trials, final = ROOT, [], [], None
    status = [Status.NOT_TESTED] * len(kept)
    while True:
        children = [i for i, node in enumerate(kept) if node.parent == at]
        p = stub.p(stub.ids[-1] if at == ROOT else kept[at].token)
        offered = [kept[i].sampled or rules.Candidate(kept[i].token) for i in children]
        verdict = rules.judge(p, offered, stub.rng.random)
        named = [t.candidate.token for t in verdict.trials] + ([verdict.final.token] if verdict.final else [])
        listing = listed_tokens(p, named)
        for i, trial in zip(children, verdict.trials, strict=False):
            status[i] = Status.ACCEPTED if trial.accepted else Status.REJECTED
            trials.append(trial_record(i, trial, listing))
        if verdict.final:
            origin = Origin.RESIDUAL if children else Origin.BONUS
            final = final_record(verdict.final, origin, at, listing)
            break
        assert verdict.accepted is not None
        at = children[verdict.accepted]
        path.append(at)
        if kept[at].token == END or len(path) == stub.left:
            break
    tree = tree_record(stub, kept, cut, draws, status) if method is not Method.VANILLA else None
    record(stub, tree, trials, final, [(kept[i].token, i) for i in path])


def listed_tokens(p: rules.Array, named: list[int]) -> list[int]:
    others = [t for t in rules.top_tokens(p, TOP + len(named)) if t not in named][:TOP]
    return sorted({*named, *others}, key=lambda t: (-p[t], t))


def listed(p: rules.Array, tokens: list[int]) -> Distribution:
    rest = float(np.delete(p, tokens).sum())
    return Distribution(token=tokens, p=[six(float(p[t])) for t in tokens], rest=six(rest))


def trial_record(node: int, trial: rules.Trial, tokens: list[int]) -> Trial:
    q, sampled = trial.candidate.q, None
    if q is not None:
        excess = np.maximum(0.0, trial.before - q)
        sampled = SampledFrom(
            q=[six(float(q[t])) for t in tokens],
            rest_q=six(float(np.delete(q, tokens).sum())),
            rest_excess=six(float(np.delete(excess, tokens).sum())),
        )
    return Trial(
        node=node,
        proposal=trial.candidate.proposal,
        accept=trial.accept,
        draw=trial.draw,
        accepted=trial.accepted,
        before=listed(trial.before, tokens),
        normaliser=min(1.0, trial.normaliser),
        sampled_from=sampled,
    )


def final_record(final: rules.FinalDraw, origin: Origin, node: int, tokens: list[int]) -> Final:
    return Final(
        token=final.token,
        origin=origin,
        node=node,
        draw=final.draw,
        low=final.low,
        high=final.high,
        drawn_from=listed(final.drawn_from, tokens),
    )


def tree_record(
    stub: Stub, kept: list[Node], cut: list[Node], draws: list[float] | None, status: list[Status]
) -> TreeTrace:
    p_at: Callable[[Node], rules.Array] = lambda node: stub.p(  # noqa: E731
        stub.ids[-1] if node.parent == ROOT else kept[node.parent].token
    )
    return TreeTrace(
        root=stub.ids[-1],
        parent=[node.parent for node in kept],
        depth=[node.depth for node in kept],
        token=[node.token for node in kept],
        confidence=[six(node.confidence) for node in kept],
        value=[six(node.value) for node in kept],
        p=[six(float(p_at(node)[node.token])) for node in kept],
        status=status,
        cut=Cut(
            parent=[node.parent for node in cut],
            token=[node.token for node in cut],
            confidence=[six(node.confidence) for node in cut],
        ),
        draft_draw=draws,
    )


def record(
    stub: Stub, tree: TreeTrace | None, trials: list[Trial], final: Final | None, path: list[tuple[int, int]]
) -> None:
    tokens = [token for token, _ in path] + ([final.token] if final else [])
    context = len(stub.ids)
    mentioned = {*tokens, *(t for trial in trials for t in trial.before.token)}
    mentioned |= set(final.drawn_from.token) if final else set()
    mentioned |= {*tree.token, *tree.cut.token} if tree else set()
    stub.ids += tokens
    stub.left -= len(tokens)
    if tokens[-1] == END:
        stub.finish = Finish.END_TOKEN
    elif stub.left == 0:
        stub.finish = Finish.LENGTH
    stub.steps.append(
        StepTrace(
            index=len(stub.steps),
            context=context,
            tree=tree,
            trials=trials,
            final=final,
            emitted=Emitted(
                token=tokens,
                origin=[Origin.DRAFT] * len(path) + ([final.origin] if final else []),
                node=[node for _, node in path] + ([ROOT] if final else []),
                text=[label(token) for token in tokens],
            ),
            times=Times(draft_ms=1.0, verify_ms=2.0, commit_ms=0.5) if tree else Times(verify_ms=2.0),
            finish=stub.finish,
            labels={token: label(token) for token in sorted(mentioned - stub.labelled)},
        )
    )
    stub.labelled |= mentioned
