"""What several test files share."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def built_in():  # type: ignore[no-untyped-def]
    """The built-in pair, loaded once; a missing model is a failure, never a skip."""
    import eagle

    return eagle.load()
