"""The small draft tree of lesson 4, left to right: confidence on the arrows, value in the nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.figures.lab_svg import figure, line, rect, text
from app.theme import three_digits
from eagle.trace import ROOT

if TYPE_CHECKING:
    from app.lab_tree import SmallTree

ROW = 3.5
COLUMN = (2.0, 24.0, 51.0, 78.0)  # left edge of each level, percent
WIDE = 20.0


def tree_figure(
    tree: SmallTree, tokens: Sequence[str], parents: Sequence[int], confidences: Sequence[float]
) -> str:
    """Kept nodes solid, cut ones dotted and pale; a star where expand went on."""
    y = _rows(parents)
    root = (min(y) + max(y)) / 2
    body = ""
    for node, parent in enumerate(parents):
        level = tree.depth[node]
        x1 = (COLUMN[0] + 11) if parent == ROOT else COLUMN[level - 1] + WIDE
        y1 = root if parent == ROOT else y[parent]
        css = "edge kept-edge" if tree.kept[node] else "edge cut-edge"
        body += line(x1, y1, COLUMN[level], y[node], css)
        side = -0.45 if y[node] <= y1 else 1.15  # on the outer side of the arrow
        body += text(
            COLUMN[level] - 1, y[node] + side, three_digits(confidences[node]), "confidence-text", "end"
        )
    body += rect(COLUMN[0], root - 1.0, 11, 2.0, "tree-node root-node")
    body += text(COLUMN[0] + 5.5, root + 0.32, "I", "node-name")
    for node, name in enumerate(tokens):
        body += _node(tree, node, name, COLUMN[tree.depth[node]], y[node])
    said = "; ".join(
        f"{name} value {three_digits(tree.value[i])} {'kept' if tree.kept[i] else 'cut'}"
        for i, name in enumerate(tokens)
    )
    return figure("draft tree", max(y) + 1.8, f"A draft tree after “I”: {said}.", body, "tree")


def _node(tree: SmallTree, node: int, name: str, x: float, y: float) -> str:
    css = "kept-node" if tree.kept[node] else "cut-node"
    star = " ★" if tree.expanded[node] else ""
    body = rect(x, y - 1.35, WIDE, 2.7, f"tree-node {css}", f"n{node}")
    body += text(x + WIDE / 2, y - 0.2, f"{name}{star}", f"node-name {css}-text")
    word = f"{tree.rank[node]}. value {three_digits(tree.value[node])}"
    return body + text(x + WIDE / 2, y + 0.95, word, f"node-value {css}-text")


def _rows(parents: Sequence[int]) -> list[float]:
    """The centre of each node in em: leaves one under the other, parents in the middle of their children."""
    y = [0.0] * len(parents)
    row = 0

    def place(node: int) -> float:
        nonlocal row
        children = [child for child, parent in enumerate(parents) if parent == node]
        if children:
            centres = [place(child) for child in children]
            centre = (centres[0] + centres[-1]) / 2
        else:
            centre = 1.6 + ROW * row
            row += 1
        if node != ROOT:
            y[node] = centre
        return centre

    place(ROOT)
    return y
