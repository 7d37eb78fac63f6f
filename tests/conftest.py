"""What several test files share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from eagle.decoder import Pair

# Tiny models are slower on several threads than on one; the built-in pair asks for its share itself.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that are run by name take what time they need."""
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(pytest.mark.timeout(0))


@pytest.fixture(scope="session")
def loaded() -> Pair:
    """The built-in pair, loaded once; a missing model is a failure, never a skip."""
    import eagle

    return eagle.load()


@pytest.fixture
def built_in(loaded: Pair) -> Iterator[Pair]:
    """The built-in pair with this machine's threads for as long as a test runs."""
    import torch

    from eagle.threads import share

    before = torch.get_num_threads()
    torch.set_num_threads(share())
    yield loaded
    torch.set_num_threads(before)
