"""What can go wrong in training that its user can mend."""

from __future__ import annotations


class TrainingError(ValueError):
    """A corpus, a run folder or a setting that can not be used; the message is one plain sentence."""
