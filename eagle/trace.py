"""Frozen records of a run: everything that a page, a figure or an auditor needs, and no torch.

A run is a list of steps. Step 0 is the prompt's pass and has no tree; each later step drafted a
tree, had the target verify it in one pass, and emitted the accepted path plus one final token.
Records hold columns (one list a field), not an object a node.

Numbers carry six significant digits, except where re-deriving a verdict needs every bit: draws,
accept probabilities, proposal probabilities, normalisers and the final interval are exact floats.

Words (eagle/README of terms is the project README):
``confidence``  the head's probability of a token given its path;
``value``       the product of confidences along the path;
``proposal``    q, the probability with which this candidate was put forward (1 for a top-k draft);
``accept``      the number the draw is tested against, min(1, p/q);
``p``           the target's probability after temperature, top-k and top-p.
"""

from __future__ import annotations

from enum import StrEnum
from hashlib import sha256
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from eagle.settings import Settings

TRACE_VERSION = 1
ROOT = -1

# Strict: a number in quotes or a true/false in a number's place is refused, not converted.
TokenId = Annotated[int, Field(ge=0, le=2**31, strict=True)]
NodeId = Annotated[int, Field(ge=0, strict=True)]
NodeOrRoot = Annotated[int, Field(ge=ROOT, strict=True)]
Count = Annotated[int, Field(ge=0, strict=True)]
Flag = Annotated[bool, Field(strict=True)]
Probability = Annotated[float, Field(ge=0, le=1, strict=True)]
Proposal = Annotated[float, Field(gt=0, le=1, strict=True)]
Draw = Annotated[float, Field(ge=0, lt=1, strict=True)]
Milliseconds = Annotated[float, Field(ge=0, strict=True)]
LabelKey = Annotated[int, Field(ge=0, le=2**31)]  # JSON spells keys as strings


class Status(StrEnum):
    """What verification did with a drafted node. ``kept`` and ``cut`` are rerank's words, not these."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    NOT_TESTED = "not tested"


class Origin(StrEnum):
    """Where an emitted token came from."""

    DRAFT = "accepted draft"
    RESIDUAL = "residual"
    BONUS = "bonus"
    PROMPT = "prompt pass"


class Finish(StrEnum):
    """Why a run ended."""

    END_TOKEN = "end token"
    LENGTH = "length"
    CONTEXT = "context full"
    STOPPED = "stopped"


class Record(BaseModel):
    """A frozen record; unknown fields and NaN are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Distribution(Record):
    """The listed tokens of a distribution, largest first where they were chosen for size.

    ``rest`` is the mass of every token not listed, so ``sum(p) + rest`` is 1.
    """

    token: list[TokenId]
    p: list[Probability]
    rest: Probability

    @model_validator(mode="after")
    def _same_length(self) -> Self:
        if len(self.token) != len(self.p):
            raise ValueError(f"{len(self.token)} tokens but {len(self.p)} probabilities")
        return self


class SampledFrom(Record):
    """The draft distribution a candidate was really drawn from (chain and EAGLE-1 above temperature 0).

    ``q`` is aligned with the tokens of the trial's distribution; ``rest_excess`` is the unlisted
    tokens' share of max(0, p - q) before it is normalised.
    """

    q: list[Probability]
    rest_q: Probability
    rest_excess: Probability


class Trial(Record):
    """One candidate's test. Accepted when ``draw`` < ``accept``.

    ``before`` is what p had become by then: the target's distribution at the parent, with the
    siblings rejected so far taken out. ``normaliser`` is the mass of max(0, p - q) that a rejection
    leaves, so that what follows a rejection is max(0, p - q) / normaliser; with q = 1 on the
    candidate that reads "set p of the candidate to 0 and divide by 1 - accept". Where p is nowhere
    above q a rejection has probability 0; the normaliser is then what p without the candidate has.

    All trials at one parent, and the final draw there, list the same tokens in the same order, so
    that each residual can be followed entry by entry; the first of them lists the largest first.
    """

    node: NodeId
    proposal: Proposal
    accept: Probability
    draw: Draw
    accepted: Flag
    before: Distribution
    normaliser: Probability
    sampled_from: SampledFrom | None = None

    @model_validator(mode="after")
    def _same_tokens(self) -> Self:
        if self.sampled_from and len(self.sampled_from.q) != len(self.before.token):
            raise ValueError(
                f"{len(self.before.token)} tokens but {len(self.sampled_from.q)} proposal probabilities"
            )
        return self


class Final(Record):
    """The token a step ends with: the target's own.

    ``draw`` fell into [low, high) of the cumulative distribution in token-id order. ``node`` is the
    node it hangs on (-1: the root). Origin ``bonus``: nothing was drafted below that node;
    ``residual``: everything drafted there was rejected, and this was drawn from what was left.
    """

    token: TokenId
    origin: Origin
    node: NodeOrRoot
    draw: Draw
    low: Probability
    high: Probability
    drawn_from: Distribution


class Cut(Record):
    """Candidates that were drafted but that rerank did not keep.

    Candidate ids go on where the nodes end: the i-th entry here is candidate ``len(nodes) + i``.
    ``parent`` is a candidate id, or -1 for the root; parents come before children.
    """

    parent: list[NodeOrRoot] = []
    token: list[TokenId] = []
    confidence: list[Probability] = []

    @model_validator(mode="after")
    def _same_length(self) -> Self:
        if not len(self.parent) == len(self.token) == len(self.confidence):
            raise ValueError("the columns of cut candidates differ in length")
        return self


class TreeTrace(Record):
    """The tree that one target pass verified. Nodes are numbered in draft order, level by level.

    The root (the last emitted token, id -1 in ``parent``) is not a node. ``p`` is the target's own
    probability of the token at its parent, before any rejection. ``draft_draw`` holds the uniform
    numbers with which a sampled draft chose its candidates.
    """

    root: TokenId
    parent: list[NodeOrRoot]
    depth: list[Annotated[int, Field(ge=1, strict=True)]]
    token: list[TokenId]
    confidence: list[Probability]
    value: list[Probability]
    p: list[Probability]
    status: list[Status]
    cut: Cut = Cut()
    draft_draw: list[Draw] | None = None

    @model_validator(mode="after")
    def _columns_and_parents(self) -> Self:
        columns = (self.parent, self.depth, self.token, self.confidence, self.value, self.p, self.status)
        if len({len(column) for column in columns}) != 1:
            raise ValueError("the columns of the tree differ in length")
        if any(parent >= node for node, parent in enumerate(self.parent)):
            raise ValueError("a node's parent must come before it")
        if any(parent >= len(self) + i for i, parent in enumerate(self.cut.parent)):
            raise ValueError("a cut candidate's parent must come before it")
        # Readers walk a tree level by level: a depth that no tree of this size has must not keep them busy.
        if max(self.depth, default=0) > len(self):
            raise ValueError(f"a node at depth {max(self.depth)}, but the tree has {len(self)} nodes")
        return self

    def __len__(self) -> int:
        return len(self.token)

    def children(self, node: int) -> list[int]:
        """Children of a node (or of the root, -1) in the order they are offered."""
        return [child for child, parent in enumerate(self.parent) if parent == node]

    def path(self, node: int) -> list[int]:
        """Nodes from the first level down to ``node``, that node included."""
        nodes = []
        while node != ROOT:
            nodes.append(node)
            node = self.parent[node]
        return nodes[::-1]


class Emitted(Record):
    """The tokens a step added to the answer; ``node`` is -1 for a final token."""

    token: list[TokenId]
    origin: list[Origin]
    node: list[NodeOrRoot]
    text: list[str]

    @model_validator(mode="after")
    def _same_length(self) -> Self:
        if not len(self.token) == len(self.origin) == len(self.node) == len(self.text):
            raise ValueError("the columns of emitted tokens differ in length")
        return self

    def __len__(self) -> int:
        return len(self.token)


class Times(Record):
    """Wall time of a step's parts. Step 0 has only ``verify_ms``, the prompt's pass."""

    draft_ms: Milliseconds = 0.0
    verify_ms: Milliseconds = 0.0
    commit_ms: Milliseconds = 0.0

    @property
    def total_ms(self) -> float:
        return self.draft_ms + self.verify_ms + self.commit_ms


class StepTrace(Record):
    """One step. ``context`` is the number of tokens before it, the root included.

    ``labels`` gives the text of every token id that appears in this step for the first time in the
    run; bytes that are only part of a character read like ``<0xE2>``.
    """

    index: Count
    context: Count
    tree: TreeTrace | None = None
    trials: list[Trial] = []
    final: Final | None = None
    emitted: Emitted
    times: Times
    finish: Finish | None = None
    labels: dict[LabelKey, str] = {}

    @model_validator(mode="after")
    def _nodes_exist(self) -> Self:
        nodes = len(self.tree) if self.tree else 0
        named = [*self.emitted.node, *(trial.node for trial in self.trials)]
        named += [self.final.node] if self.final else []
        if any(node >= nodes for node in named):
            raise ValueError(f"step {self.index} names node {max(named)}, but its tree has {nodes} nodes")
        return self


class ModelInfo(Record):
    """Which weights ran. ``hash`` is the sha256 of the file the weights came from."""

    name: str
    hash: str | None = None
    dtype: str
    weights: str
    device: str
    parameters: Count


class Costs(Record):
    """What this pair's work costs on this machine: ``pass_ms[i]`` a target pass over ``nodes[i]`` tokens,
    ``level_ms`` one draft level; ``typical_confidence`` is the mean of the i-th best candidate's.

    The automatic tree is chosen from these and from the draft's own confidences.
    """

    nodes: list[Annotated[int, Field(ge=1)]]
    pass_ms: list[Milliseconds]
    level_ms: Milliseconds
    typical_confidence: list[Probability]


class PairInfo(Record):
    """The two models of a run, and notes about them that a reader should see."""

    target: ModelInfo
    head: ModelInfo | None = None
    draft_vocabulary: Count | None = None
    costs: Costs | None = None
    notes: list[str] = []


class PromptTrace(Record):
    """The prompt as typed and as the target saw it."""

    text: str
    token: list[TokenId]
    labels: list[str]
    chat: Flag

    @model_validator(mode="after")
    def _same_length(self) -> Self:
        if len(self.token) != len(self.labels):
            raise ValueError(f"the prompt has {len(self.token)} tokens but {len(self.labels)} labels")
        return self


class RunTrace(Record):
    """A whole run. ``prompt``, ``settings`` and ``pair`` are enough to repeat it.

    ``checksum`` seals a written run (see :meth:`content_checksum`); a run in memory has none.
    """

    version: Annotated[int, Field(strict=True)] = TRACE_VERSION
    pair: PairInfo
    settings: Settings
    seed: Count
    prompt: PromptTrace
    steps: list[StepTrace]
    finish: Finish
    text: str
    new_tokens: Count
    target_passes: Count
    packages: dict[str, str]
    recorded_at: str | None = None
    title: str | None = None
    checksum: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _known_version(cls, data: Any) -> Any:
        version = data.get("version", TRACE_VERSION) if isinstance(data, dict) else TRACE_VERSION
        if version != TRACE_VERSION:
            raise ValueError(f"this trace has version {version!r:.20}; version {TRACE_VERSION} can be read")
        return data

    @property
    def tau(self) -> float | None:
        """Mean accepted length: tokens emitted in steps >= 1 over those steps; None without a step."""
        emitted = sum(len(step.emitted) for step in self.steps if step.index > 0)
        return emitted / self.target_passes if self.target_passes else None

    @property
    def decode_ms(self) -> float:
        """Wall time of steps >= 1; the prompt's pass is apart."""
        return sum(step.times.total_ms for step in self.steps if step.index > 0)

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens of steps >= 1 over their time; None when there was no such step."""
        emitted = sum(len(step.emitted) for step in self.steps if step.index > 0)
        return 1000 * emitted / self.decode_ms if self.decode_ms else None

    @property
    def token_ids(self) -> list[int]:
        return [token for step in self.steps for token in step.emitted.token]

    def labels(self) -> dict[int, str]:
        """Text of every token id that the run mentions."""
        found: dict[int, str] = dict(zip(self.prompt.token, self.prompt.labels, strict=True))
        for step in self.steps:
            found.update(step.labels)
        return found

    def content_checksum(self) -> str:
        """sha256 over everything but times, versions, weight hashes, date and title.

        Most numbers of a run can be derived from others, and the audit does so. This finds an edit
        of those that nothing else depends on, such as the confidence of a candidate that was cut.
        """
        content = self.model_dump_json(exclude_none=True, exclude=_UNSEALED)
        return sha256(content.encode()).hexdigest()

    def to_json(self) -> str:
        """Strict JSON. A run that carries no checksum yet is given one."""
        sealed = self.checksum or self.content_checksum()
        return self.model_copy(update={"checksum": sealed}).model_dump_json(exclude_none=True)

    @classmethod
    def from_json(cls, text: str | bytes) -> RunTrace:
        """Reads what ``to_json`` wrote; raises pydantic's ValidationError otherwise."""
        return cls.model_validate_json(text)


_UNSEALED: dict[str, Any] = {
    "steps": {"__all__": {"times"}},
    "pair": {"target": {"hash"}, "head": {"hash"}},
    **dict.fromkeys(("version", "packages", "recorded_at", "title", "checksum"), True),
}


def six(number: float) -> float:
    """Rounded to six significant digits, the precision of most recorded numbers."""
    return float(f"{number:.6g}")
