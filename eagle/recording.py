"""From what happened in a step to the record of it. Nothing here decides anything."""

from __future__ import annotations

import platform
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eagle import rules
from eagle.sampling import listed, rest_of, top_entries
from eagle.settings import Settings
from eagle.text import label
from eagle.trace import (
    ROOT,
    Cut,
    Emitted,
    Final,
    Finish,
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

if TYPE_CHECKING:
    from eagle.decoder import State
    from eagle.drafts import Draft
    from eagle.host import Rows

# Entries of a recorded distribution besides the tokens that the verdict is about.
TOP_ENTRIES = 8


@dataclass
class Walk:
    """Where judging went: accepted nodes and tokens, the trials, the final draw and its node."""

    nodes: list[int]
    trials: list[tuple[int, rules.Trial]]
    final: rules.FinalDraw | None
    at: int
    tokens: list[int] = field(default_factory=list)


def times(began: float, drafted: float, verified: float, ended: float) -> Times:
    """Seconds of the clock -> milliseconds of the parts."""
    return Times(
        draft_ms=round(1000 * (drafted - began), 4),
        verify_ms=round(1000 * (verified - drafted), 4),
        commit_ms=round(1000 * (ended - verified), 4),
    )


def prompt_step(state: State, walk: Walk, spent: Times) -> StepTrace:
    """The record of step 0."""
    emitted = _emitted(state, walk, Origin.PROMPT)
    final = _final(
        walk, Origin.PROMPT, _listing(walk.final.drawn_from, [walk.final.token]) if walk.final else None
    )
    return _step(state, None, [], final, emitted, spent)


def step(state: State, drafted: Draft | None, rows: Rows, walk: Walk, spent: Times) -> StepTrace:
    """The record of a step that has just been committed; draft and rows are the host's."""
    state.index += 1
    rejected_here = any(
        not trial.accepted and _parent(drafted, node) == walk.at for node, trial in walk.trials
    )
    origin = Origin.RESIDUAL if rejected_here else Origin.BONUS
    trials, listing = _trials(drafted, walk)
    tree = _tree(state, drafted, rows, walk) if drafted else None
    return _step(state, tree, trials, _final(walk, origin, listing), _emitted(state, walk, origin), spent)


def _step(
    state: State,
    tree: TreeTrace | None,
    trials: list[Trial],
    final: Final | None,
    emitted: Emitted,
    spent: Times,
) -> StepTrace:
    return StepTrace(
        index=state.index,
        context=len(state.ids) - len(emitted),
        tree=tree,
        trials=trials,
        final=final,
        emitted=emitted,
        times=spent,
        finish=state.finish,
        labels=_new_labels(state, tree, trials, final),
    )


def _parent(drafted: Draft | None, node: int) -> int:
    assert drafted is not None
    return drafted.parents[node]


def _listing(p: rules.Array, tokens: list[int]) -> NDArray[np.int64]:
    """The tokens a record of p names: those given, then the most likely others."""
    named = list(dict.fromkeys(tokens))
    top = top_entries(p, TOP_ENTRIES + len(named))
    others = [token for token in top.tolist() if token not in set(named)][:TOP_ENTRIES]
    return np.array(sorted(named + others, key=lambda token: (-p[token], token)), dtype=np.int64)


def _trials(drafted: Draft | None, walk: Walk) -> tuple[list[Trial], NDArray[np.int64] | None]:
    """Records of all trials, and the tokens that the final distribution's record should name."""
    records: list[Trial] = []
    listing: NDArray[np.int64] | None = None
    listed_for: int | None = None
    last_token = [walk.final.token] if walk.final else []
    for node, trial in walk.trials:
        parent = _parent(drafted, node)
        if parent != listed_for or listing is None:
            siblings = [t.candidate.token for n, t in walk.trials if _parent(drafted, n) == parent]
            ends_here = parent == walk.at
            listing = _listing(trial.before, siblings + (last_token if ends_here else []))
            listed_for = parent
        records.append(_trial(node, trial, listing))
    if walk.final and listed_for != walk.at:
        listing = _listing(walk.final.drawn_from, last_token)
    return records, listing


def _trial(node: int, trial: rules.Trial, tokens: NDArray[np.int64]) -> Trial:
    q = trial.candidate.q
    return Trial(
        node=node,
        proposal=trial.candidate.proposal,
        accept=trial.accept,
        draw=trial.draw,
        accepted=trial.accepted,
        before=listed(trial.before, tokens),
        normaliser=min(1.0, trial.normaliser),
        sampled_from=None if q is None else _sampled_from(trial.before, q, tokens),
    )


def _sampled_from(p: rules.Array, q: rules.Array, tokens: NDArray[np.int64]) -> SampledFrom:
    excess = np.maximum(0.0, p - q)
    return SampledFrom(
        q=[six(value) for value in q[tokens].tolist()],
        rest_q=rest_of(q, tokens),
        rest_excess=rest_of(excess, tokens),
    )


def _final(walk: Walk, origin: Origin, listing: NDArray[np.int64] | None) -> Final | None:
    if walk.final is None or listing is None:
        return None
    final = walk.final
    return Final(
        token=final.token,
        origin=origin,
        node=walk.at,
        draw=final.draw,
        low=final.low,
        high=final.high,
        drawn_from=listed(final.drawn_from, listing),
    )


@torch.inference_mode()
def _tree(state: State, drafted: Draft, rows: Rows, walk: Walk) -> TreeTrace:
    kept, cut = drafted.kept, drafted.cut
    status = [Status.NOT_TESTED] * len(drafted.tokens)
    p = rows.p_of([parent + 1 for parent in drafted.parents], drafted.tokens)
    first_of: set[int] = set()
    for node, trial in walk.trials:
        status[node] = Status.ACCEPTED if trial.accepted else Status.REJECTED
        parent = _parent(drafted, node)
        if parent not in first_of:  # the first trial below a node sees p as the target gave it
            first_of.add(parent)
            for sibling in drafted.children[parent]:
                p[sibling] = float(trial.before[drafted.tokens[sibling]])
    return TreeTrace(
        root=state.ids[-1 - _count(walk)],
        parent=drafted.parents,
        depth=kept.depth.tolist(),
        token=drafted.tokens,
        confidence=_six_each_exp(kept.log_confidence),
        value=_six_each_exp(kept.log_value),
        p=[six(min(1.0, value)) for value in p],
        status=status,
        cut=Cut(
            parent=cut.parent.tolist(),
            token=cut.token.tolist(),
            confidence=_six_each_exp(cut.log_confidence),
        ),
        draft_draw=drafted.draws if drafted.sampled is not None else None,
    )


def _count(walk: Walk) -> int:
    return len(walk.tokens) + (walk.final is not None)


def _six_each_exp(logs: Tensor) -> list[float]:
    """Logs -> probabilities; in float64, where the value of a deep path does not underflow."""
    return [six(value) for value in logs.double().exp().clamp(max=1.0).tolist()]


def _emitted(state: State, walk: Walk, final_origin: Origin) -> Emitted:
    tokens, nodes = list(walk.tokens), list(walk.nodes)
    origins = [Origin.DRAFT] * len(tokens)
    if walk.final:
        tokens.append(walk.final.token)
        nodes.append(ROOT)
        origins.append(final_origin)
    text = [state.text.push(token) for token in tokens]
    if state.finish is not None:
        text[-1] += state.text.flush()
    return Emitted(token=tokens, origin=origins, node=nodes, text=text)


def _new_labels(
    state: State, tree: TreeTrace | None, trials: list[Trial], final: Final | None
) -> dict[int, str]:
    mentioned: set[int] = set()
    if tree:
        mentioned.update(tree.token, tree.cut.token)
    for trial in trials:
        mentioned.update(trial.before.token)
    if final:
        mentioned.update(final.drawn_from.token)
    fresh = sorted(mentioned - state.labelled)
    state.labelled.update(fresh)
    return {token: label(state.pair.tokenizer, token) for token in fresh}


def run(
    info: PairInfo,
    prompt: PromptTrace,
    settings: Settings,
    steps: list[StepTrace],
    finish: Finish | None = None,
) -> RunTrace:
    """The record of a whole run; ``finish`` is given for one that was stopped from outside."""
    return RunTrace(
        pair=info,
        settings=settings,
        seed=settings.seed or 0,
        prompt=prompt,
        steps=steps,
        finish=(steps[-1].finish if steps else None) or finish or Finish.STOPPED,
        text="".join(piece for one in steps for piece in one.emitted.text),
        new_tokens=sum(len(one.emitted) for one in steps),
        target_passes=sum(one.index > 0 for one in steps),
        packages=packages(),
    )


@cache
def _versions() -> tuple[tuple[str, str], ...]:
    names = ("torch", "transformers", "numpy", "tokenizers")
    return (("python", platform.python_version()), *((name, metadata.version(name)) for name in names))


def packages() -> dict[str, Any]:
    """Versions of what can change a run's numbers."""
    return dict(_versions())
