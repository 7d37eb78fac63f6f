"""Where the nodes of a draft tree go: columns by depth, rows so that the accepted path is straight."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import zip_longest

from app.session import FINAL
from eagle.trace import ROOT, Status, StepTrace


@dataclass(frozen=True)
class Placed:
    """Nodes with a column (0: the root) and a row (from 0, top down); and who hangs on whom."""

    column: dict[int, int]
    row: dict[int, int]
    parent: dict[int, int]
    order: list[int]  # parents before children, siblings as they are drawn

    @property
    def rows(self) -> int:
        return max(self.row.values()) + 1

    @property
    def columns(self) -> int:
        return max(self.column.values()) + 1


def place(step: StepTrace, with_final: bool = True) -> Placed:
    """Each node on the row of its main child: the accepted one, or the target's own token, or the first.

    Siblings keep their order from top to bottom, so what was rejected first stands above the path; the
    target's own token stands first, straight on.
    Needs a step with a tree.
    """
    tree = step.tree
    assert tree is not None
    children = _children(step, with_final)
    column: dict[int, int] = {ROOT: 0}
    row: dict[int, int] = {}
    parent: dict[int, int] = {}
    order: list[int] = []
    next_row = 0

    def visit(node: int) -> None:
        nonlocal next_row
        order.append(node)
        below = children.get(node, [])
        for child in below:
            column[child] = column[node] + 1
            parent[child] = node
            visit(child)
        if below:
            row[node] = row[_main(below, tree.status)]
        else:
            row[node] = next_row
            next_row += 1

    visit(ROOT)
    return Placed(column, row, parent, order)


def place_packed(step: StepTrace) -> Placed:
    """The same tree for a narrow page, as few rows wide as it can be: subtrees move together until two
    boxes of a level would meet. Siblings keep their order and the accepted path is straight here too.

    Needs a step with a tree.
    """
    tree = step.tree
    assert tree is not None
    children = _children(step, with_final=True)
    offset: dict[int, int] = {ROOT: 0}  # rows from the parent's

    def pack(node: int) -> list[tuple[int, int]]:
        """Least and greatest row of each level of the subtree, the node's own row being 0."""
        merged: list[tuple[int, int]] = []
        below = children.get(node, [])
        for child in below:
            own = pack(child)
            shift = max(
                (last - first + 1 for (_, last), (first, _) in zip(merged, own, strict=False)), default=0
            )
            offset[child] = shift
            moved = [(first + shift, last + shift) for first, last in own]
            merged = [
                (min(one[0], two[0]), max(one[1], two[1])) if one and two else one or two
                for one, two in zip_longest(merged, moved)
            ]
        straight = offset[_main(below, tree.status)] if below else 0
        for child in below:
            offset[child] -= straight
        return [(0, 0), *((first - straight, last - straight) for first, last in merged)]

    least = min(first for first, _ in pack(ROOT))
    column, row, parent, order = {ROOT: 0}, {ROOT: -least}, {}, [ROOT]
    waiting = [ROOT]
    while waiting:
        node = waiting.pop(0)
        for child in children.get(node, []):
            column[child], row[child], parent[child] = column[node] + 1, row[node] + offset[child], node
            order.append(child)
            waiting.append(child)
    return Placed(column, row, parent, order)


def _children(step: StepTrace, with_final: bool) -> dict[int, list[int]]:
    """Children of each node in the order they are drawn; the target's own token before its siblings."""
    assert step.tree is not None
    children: dict[int, list[int]] = defaultdict(list)
    for node, above in enumerate(step.tree.parent):
        children[above].append(node)
    if with_final and step.final is not None:
        children[step.final.node].insert(0, FINAL)
    return children


def _main(children: list[int], status: list[Status]) -> int:
    accepted = next((c for c in children if c >= 0 and status[c] is Status.ACCEPTED), None)
    if accepted is not None:
        return accepted
    return FINAL if FINAL in children else children[0]
