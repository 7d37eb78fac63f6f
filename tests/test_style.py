"""The formatter, the linter and the type checker find nothing; an ignored rule has its reason beside it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).parent.parent


def run(*command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=REPO, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


def test_the_linter_finds_nothing() -> None:
    run("ruff", "check", ".")


def test_every_file_is_formatted() -> None:
    run("ruff", "format", "--check", ".")


@pytest.mark.slow
def test_the_types_hold() -> None:
    run("mypy")


def test_every_globally_ignored_rule_has_its_reason() -> None:
    text = (REPO / "pyproject.toml").read_text()
    ignored = re.search(r"\nignore = \[\n(.*?)\n\]", text, re.DOTALL)
    assert ignored is not None
    reason = ""
    for line in ignored[1].splitlines():
        rule, _, comment = line.partition("#")
        reason = comment.strip() or reason  # a reason covers the rules listed right below it
        assert not rule.strip() or reason, line
