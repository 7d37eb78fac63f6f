"""Where the nodes of a draft tree go: columns by depth, rows so that the accepted path is straight."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from app.session import FINAL
from eagle.trace import ROOT, Status, StepTrace


@dataclass(frozen=True)
class Placed:
    """Nodes with a column (0: the root) and a row (from 0, top down); and who hangs on whom."""

    column: dict[int, int]
    row: dict[int, int]
    parent: dict[int, int]
    order: list[int]  # top to bottom, parents before children

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
    children: dict[int, list[int]] = defaultdict(list)
    for node, above in enumerate(tree.parent):
        children[above].append(node)
    if with_final and step.final is not None:
        children[step.final.node].insert(0, FINAL)
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


def _main(children: list[int], status: list[Status]) -> int:
    accepted = next((c for c in children if c >= 0 and status[c] is Status.ACCEPTED), None)
    if accepted is not None:
        return accepted
    return FINAL if FINAL in children else children[0]
