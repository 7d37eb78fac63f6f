"""Which step, node and view a visitor looks at: pure functions from (run, look, event) to a look.

Everything here is a plain frozen record; nothing is kept between calls.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from eagle.trace import ROOT, RunTrace, Status, StepTrace, TreeTrace

# The target's own token of a step is drawn as a node too; this is its number in a look.
FINAL = -2


class View(StrEnum):
    """The three ways to look at one step."""

    DRAFT = "draft"
    VERIFY = "verify"
    OUTCOME = "outcome"


class Source(StrEnum):
    """Where the run on screen comes from."""

    RECORDED = "recorded"
    LIVE = "live"
    IMPORTED = "imported"


@dataclass(frozen=True)
class Visit:
    """The run on screen. ``baseline``: plain decoding of its prompt, right after it or in turns with it."""

    run: RunTrace
    source: Source = Source.RECORDED
    running: bool = False
    baseline: RunTrace | None = None
    name: str | None = None  # of a recorded run, as links say it

    def __deepcopy__(self, memo: object) -> Visit:
        """Itself: frozen all the way down, and copied by gradio for every visitor of the page."""
        return self


@dataclass(frozen=True)
class Look:
    """What is selected. ``shown``: how much of the view's story is told (None: all of it).

    In the draft view that counts levels, in the verify view trials. ``follow`` keeps a live run's
    newest step on screen until the visitor chooses one. ``log``: distributions on a log scale;
    ``narrow``: the page is a phone's, and the tree grows downwards.
    """

    step: int = 0
    node: int | None = None
    view: View = View.VERIFY
    shown: int | None = None
    follow: bool = False
    cut: bool = False
    log: bool = False
    narrow: bool = False


def kept(before: Look, look: Look) -> Look:
    """A new look that keeps how things are shown: another run changes only what is selected."""
    return replace(look, log=before.log, narrow=before.narrow)


def step_of(run: RunTrace, look: Look) -> StepTrace:
    """The selected step."""
    return run.steps[min(max(look.step, 0), len(run.steps) - 1)]


def opening(run: RunTrace) -> Look:
    """Where a run opens: at the first node accepted after a sibling was rejected."""
    for index, step in enumerate(run.steps):
        node = _rescued(step)
        if node is not None:
            return Look(step=index, node=node)
    return to_step(run, Look(), 1 if len(run.steps) > 1 else 0)


def to_step(run: RunTrace, look: Look, index: int) -> Look:
    """Another step; the view stays, the story starts told in full, a telling node is chosen."""
    index = min(max(index, 0), len(run.steps) - 1)
    return replace(look, step=index, node=telling_node(run.steps[index]), shown=None, follow=False)


def newest(run: RunTrace, look: Look) -> Look:
    """The last step, still following."""
    return replace(to_step(run, look, len(run.steps) - 1), follow=True)


def to_node(run: RunTrace, look: Look, node: int) -> Look:
    """Another node of the selected step; a number that is no node there changes nothing."""
    tree = step_of(run, look).tree
    known = node in (ROOT, FINAL) or (tree is not None and 0 <= node < len(tree))
    return replace(look, node=node, follow=False) if known else look


def to_view(look: Look, view: View) -> Look:
    """Another way to look at the same step; the selection stays."""
    return replace(look, view=view, shown=None)


def story_length(step: StepTrace, view: View) -> int:
    """How many parts the view's story has: levels of the draft, trials of the verification."""
    if step.tree is None:
        return 0
    if view is View.DRAFT:
        return max(step.tree.depth, default=0)
    return len(step.trials) if view is View.VERIFY else 0


def tell(run: RunTrace, look: Look, by: int) -> Look:
    """Tells one part more (1) or less (-1) of the story; selects the node that a trial is about.

    From a story told in full, forward starts it anew.
    """
    step = step_of(run, look)
    length = story_length(step, look.view)
    if length == 0:
        return look
    at = look.shown
    at = (1 if by > 0 else length - 1) if at is None else at + by
    if at >= length and look.view is View.DRAFT:
        return replace(look, shown=None)
    if at > length:
        return replace(look, shown=None)
    at = max(at, 0)
    node = step.trials[at - 1].node if look.view is View.VERIFY and at > 0 else look.node
    return replace(look, shown=at, node=node, follow=False)


def tell_all(look: Look) -> Look:
    """The whole story."""
    return replace(look, shown=None)


def telling_node(step: StepTrace) -> int:
    """The node to open first: a rescued one, else a rejected, an accepted, or the target's own."""
    node = _rescued(step)
    if node is not None:
        return node
    for trial in step.trials:
        if not trial.accepted:
            return trial.node
    if step.trials:
        return step.trials[-1].node
    return FINAL if step.final else ROOT


def _rescued(step: StepTrace) -> int | None:
    """A node accepted after a sibling had been rejected."""
    if step.tree is None:
        return None
    parents = step.tree.parent
    rejected = {parents[trial.node] for trial in step.trials if not trial.accepted}
    return next((t.node for t in step.trials if t.accepted and parents[t.node] in rejected), None)


TURNED = {
    "ArrowUp": "ArrowLeft",
    "ArrowLeft": "ArrowUp",
    "ArrowDown": "ArrowRight",
    "ArrowRight": "ArrowDown",
}


def walk(run: RunTrace, look: Look, key: str) -> Look:
    """Arrow keys in the tree: right to the first child, left to the parent, up and down in the column.

    Where the tree grows downwards, the same turned: down to the first child, left and right in the level.
    """
    step = step_of(run, look)
    if step.tree is None:
        return look
    at = look.node if look.node is not None else ROOT
    key = TURNED.get(key, key) if look.narrow else key
    target = {
        "ArrowLeft": lambda: _parent(step, at),
        "ArrowRight": lambda: _best_child(step, at),
        "ArrowUp": lambda: _beside(step, at, -1),
        "ArrowDown": lambda: _beside(step, at, 1),
        "Home": lambda: ROOT,
        "End": lambda: FINAL if step.final else at,
    }.get(key)
    return to_node(run, look, target()) if target else look


def _parent(step: StepTrace, at: int) -> int:
    assert step.tree is not None
    if at == FINAL and step.final:
        return step.final.node
    return step.tree.parent[at] if at >= 0 else ROOT


def _best_child(step: StepTrace, at: int) -> int:
    """The accepted child, else the target's own token where it hangs here, else the first child."""
    assert step.tree is not None
    if at == FINAL:
        return at
    children = step.tree.children(at)
    accepted = [child for child in children if step.tree.status[child] is Status.ACCEPTED]
    if accepted:
        return accepted[0]
    if step.final and step.final.node == at:
        return FINAL
    return children[0] if children else at


def _beside(step: StepTrace, at: int, by: int) -> int:
    """The next node of the same column, in the order they are drawn."""
    assert step.tree is not None
    if at == ROOT:
        return at
    column = drawn_order(step.tree, step)
    depth = _depth(step, at)
    column = [node for node in column if _depth(step, node) == depth]
    place = column.index(at) + by
    return column[min(max(place, 0), len(column) - 1)]


def _depth(step: StepTrace, node: int) -> int:
    assert step.tree is not None
    if node == FINAL:
        assert step.final is not None
        return _depth(step, step.final.node) + 1
    return step.tree.depth[node] if node >= 0 else 0


def drawn_order(tree: TreeTrace, step: StepTrace) -> list[int]:
    """All nodes, the target's own token included, from top to bottom as the tree is drawn."""
    order: list[int] = []

    def visit(node: int) -> None:
        for child in children_drawn(tree, step, node):
            order.append(child)
            visit(child)

    visit(ROOT)
    return order


def children_drawn(tree: TreeTrace, step: StepTrace, node: int) -> list[int]:
    """A node's children from top to bottom: the target's own token, then the guesses as they are offered."""
    if node == FINAL:
        return []
    children = tree.children(node)
    return [FINAL, *children] if step.final and step.final.node == node else children


def act(run: RunTrace, look: Look, event: dict[str, object]) -> Look:
    """The look after an event of the page. What is not understood changes nothing: events are untrusted.

    Events: ``{"act": "step", "step": 3, "node"?: 5}``, ``{"act": "by", "by": 1}``, ``{"act": "node",
    "node": 5}``, ``{"act": "view", "view": "draft"}``, ``{"act": "story", "by": 1}`` (0: all of it),
    ``{"act": "key", "key": "ArrowUp"}``, ``{"act": "cut"}``, ``{"act": "log"}``, ``{"act": "screen",
    "narrow": true}``.
    """
    kind = event.get("act")
    if kind in ("step", "by"):
        return _moved(run, look, event)
    if kind == "story":
        by = _whole(event.get("by"), 0)
        return tell(run, look, max(-1, min(1, by))) if by else tell_all(look)
    if kind == "node":
        return to_node(run, look, _whole(event.get("node"), look.node))
    if kind == "key":
        return walk(run, look, str(event.get("key")))
    return _shown_otherwise(look, event)


def _shown_otherwise(look: Look, event: dict[str, object]) -> Look:
    """The same selection, shown in another way."""
    kind = event.get("act")
    if kind == "view" and event.get("view") in set(View):
        return to_view(look, View(str(event["view"])))
    if kind == "screen":
        return replace(look, narrow=event.get("narrow") is True or event.get("narrow") == "true")
    if kind == "log":
        return replace(look, log=not look.log)
    return replace(look, cut=not look.cut) if kind == "cut" else look


def _moved(run: RunTrace, look: Look, event: dict[str, object]) -> Look:
    """To a step by its number, with or without a node, or by so many steps."""
    if event.get("act") == "by":
        return to_step(run, look, look.step + _whole(event.get("by"), 0))
    moved = to_step(run, look, _whole(event.get("step"), look.step))
    return to_node(run, moved, _whole(event.get("node"), moved.node)) if "node" in event else moved


def _whole(value: object, otherwise: int | None) -> int:
    """A whole number out of untrusted data."""
    if isinstance(value, str) and value.lstrip("-").isdigit() and len(value) < 8:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**7:
        return value
    return otherwise if otherwise is not None else ROOT


def from_query(run: RunTrace, asked: dict[str, str]) -> Look:
    """The look that a link asks for; what it names wrongly falls back to the default."""
    look = opening(run)
    if "step" in asked:
        look = to_step(run, look, _whole(asked["step"], look.step))
    if asked.get("view") in set(View):
        look = to_view(look, View(asked["view"]))
    return to_node(run, look, _whole(asked["node"], look.node)) if "node" in asked else look
