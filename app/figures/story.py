"""What of a step is told yet, and the words at and behind its nodes."""

from __future__ import annotations

from dataclasses import dataclass

from app import theme
from app.labels import name_of, plotly_text, plotly_token, shorten, visible
from app.session import FINAL, Look, View
from app.theme import told_apart
from eagle.trace import ROOT, Status, StepTrace, Trial


@dataclass(frozen=True)
class Story:
    """Which trials and levels are told."""

    step: StepTrace
    view: View
    trials: dict[int, Trial]
    order: dict[int, int]
    levels: int | None
    final: bool

    @classmethod
    def of(cls, step: StepTrace, look: Look) -> Story:
        told = step.trials
        if look.view is View.VERIFY and look.shown is not None:
            told = told[: look.shown]
        if look.view is View.DRAFT:
            told = []
        return cls(
            step=step,
            view=look.view,
            trials={trial.node: trial for trial in told},
            order={trial.node: index for index, trial in enumerate(step.trials)},
            levels=look.shown if look.view is View.DRAFT else None,
            final=step.final is not None and look.view is not View.DRAFT and look.shown is None,
        )

    def visible(self, node: int) -> bool:
        if node == FINAL:
            return self.final
        if node == ROOT or self.levels is None or self.step.tree is None:
            return True
        return self.step.tree.depth[node] <= self.levels

    def status(self, node: int) -> Status | None:
        """What is known of a node by now; None in the draft view, where nothing is judged."""
        if self.view is View.DRAFT:
            return None
        trial = self.trials.get(node)
        if trial is None:
            return Status.NOT_TESTED
        return Status.ACCEPTED if trial.accepted else Status.REJECTED

    def has_caption(self, node: int) -> bool:
        """Whether words stand under the node's box, now or later in the story."""
        if node == FINAL:
            return self.view is not View.DRAFT
        return self.view is View.VERIFY and node in self.order


def style(story: Story, node: int) -> str:
    """Which of the boxes' styles a guess has by now."""
    status = story.status(node)
    if story.view is View.OUTCOME:
        return "emitted" if status is Status.ACCEPTED else "passed_over"
    return "draft" if status is None else status.value.replace(" ", "_")


def alt(story: Story) -> str:
    """The tree in one sentence, for those who do not see it."""
    tree, told = story.step.tree, list(story.trials.values())
    assert tree is not None
    accepted = sum(trial.accepted for trial in told)
    return (
        f"Draft tree of step {story.step.index}, {story.view} view: {len(tree)} guesses in "
        f"{max(tree.depth, default=0)} levels, {accepted} accepted, {len(told) - accepted} rejected. "
        "Arrow keys walk from node to node."
    )


def caption(story: Story, node: int) -> str:
    """The test under a box: the draw against the accept probability."""
    trial = story.trials.get(node)
    if trial is None or story.view is not View.VERIFY:
        return ""
    sign = "<" if trial.accepted else "≥"
    draw, accept = told_apart(trial.draw, trial.accept)
    return plotly_text(f"draw {draw} {sign} {accept}")


def hover(story: Story, labels: dict[int, str], node: int) -> str:
    """Everything about a node with all recorded digits."""
    step, tree = story.step, story.step.tree
    assert tree is not None
    if node == ROOT:
        return f"<b>{plotly_token(name_of(labels, tree.root))}</b><br>the last token before this step"
    if node == FINAL:
        assert step.final is not None
        return (
            f"<b>{plotly_token(name_of(labels, step.final.token))}</b><br>the target's own token: "
            f"{step.final.origin.value}<br>draw {step.final.draw:.6g}"
        )
    lines = [
        f"<b>{plotly_text(shorten(visible(name_of(labels, tree.token[node])), 80))}</b>",
        f"confidence {tree.confidence[node]:.6g}",
        f"value {tree.value[node]:.6g}",
    ]
    status = story.status(node)
    if status is not None:
        lines.insert(1, f"{theme.STATUS_LOOKS[status].mark} {theme.STATUS_LOOKS[status].word}")
        lines.append(f"target's probability {tree.p[node]:.6g}")
    trial = story.trials.get(node)
    if trial is not None:
        lines.append(f"accept probability {trial.accept:.6g}, draw {trial.draw:.6g}")
    return "<br>".join(lines)
