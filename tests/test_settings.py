"""Settings are checked once; each error names the field, the range and the value."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from eagle.settings import MAX_SEED, PAPER, Method, Settings, SettingsError, Tree

BAD: list[tuple[str, Any, str]] = [
    ("temperature", -0.1, "from 0 to 2"),
    ("temperature", 2.1, "from 0 to 2"),
    ("temperature", float("nan"), "from 0 to 2"),
    ("temperature", float("inf"), "from 0 to 2"),
    ("temperature", "1", "from 0 to 2"),
    ("temperature", True, "from 0 to 2"),
    ("temperature", None, "from 0 to 2"),
    ("temperature", 10**400, "from 0 to 2"),
    ("top_p", 0, "above 0 and at most 1"),
    ("top_p", 1.01, "above 0 and at most 1"),
    ("top_p", "0.9", "above 0 and at most 1"),
    ("top_k", -1, "0 for off"),
    ("top_k", 1.5, "0 for off"),
    ("top_k", False, "0 for off"),
    ("seed", -1, "from 0 to 4294967295"),
    ("seed", MAX_SEED + 1, "from 0 to 4294967295"),
    ("seed", 1.0, "from 0 to 4294967295"),
    ("seed", "1", "from 0 to 4294967295"),
    ("max_new_tokens", 0, "from 1 to 4096"),
    ("max_new_tokens", 4097, "from 1 to 4096"),
    ("max_new_tokens", 2.5, "from 1 to 4096"),
    ("method", "eagle9", "vanilla, chain, eagle1, eagle2, eagle3"),
    ("method", None, "vanilla, chain, eagle1, eagle2, eagle3"),
    ("tree", "60/6", "TOTAL/DEPTH/WIDTH"),
    ("tree", "a/b/c", "TOTAL/DEPTH/WIDTH"),
    ("tree", "-1/2/3", "TOTAL/DEPTH/WIDTH"),
    ("tree", "²/2/3", "TOTAL/DEPTH/WIDTH"),
    ("tree", "", "TOTAL/DEPTH/WIDTH"),
    ("tree", "9" * 5000 + "/1/1", "TOTAL/DEPTH/WIDTH"),
    ("tree", 5, "TOTAL/DEPTH/WIDTH"),
    ("tree", None, "TOTAL/DEPTH/WIDTH"),
]


@pytest.mark.parametrize(("name", "value", "words"), BAD, ids=lambda x: str(x)[:20])
def test_errors_name_the_field_the_range_and_the_value(name: str, value: Any, words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings(**{name: value})
    message = str(caught.value)
    assert message.startswith(f"{name} must be ")
    assert words in message
    assert repr(value)[:30] in message
    assert message.count("\n") == 0
    assert len(message) < 250
    assert message.endswith(".")


@pytest.mark.parametrize(
    ("name", "value", "limit"),
    [
        ("total", 0, 256),
        ("total", 257, 256),
        ("depth", 0, 16),
        ("depth", 17, 16),
        ("width", 0, 32),
        ("width", 33, 32),
    ],
)
def test_a_trees_errors_are_the_same_however_it_is_given(name: str, value: int, limit: int) -> None:
    sizes = {"total": 8, "depth": 4, "width": 4, name: value}
    wanted = f"{name} must be a whole number from 1 to {limit}, but is {value}."
    for make in (
        lambda: Tree(**sizes),
        lambda: Settings(tree=sizes),
        lambda: Settings(tree="/".join(map(str, sizes.values()))),
        lambda: Tree.parse("/".join(map(str, sizes.values()))),
    ):
        with pytest.raises(SettingsError) as caught:
            make()
        assert str(caught.value) == wanted


def test_missing_and_unknown_names_are_named() -> None:
    with pytest.raises(SettingsError, match="depth is missing: it must be a whole number from 1 to 16"):
        Tree(total=1, width=1)
    with pytest.raises(SettingsError, match="heat is not a setting; the settings are method, temperature"):
        Settings(heat=1)
    with pytest.raises(SettingsError, match="size is not a setting; the settings are total, depth, width"):
        Settings(tree={"total": 1, "depth": 1, "width": 1, "size": 2})


def test_a_true_or_a_fraction_is_no_tree_size() -> None:
    for value in (True, 2.0, "2"):
        with pytest.raises(SettingsError, match="total must be a whole number"):
            Tree(total=value, depth=1, width=1)


def test_the_ends_of_every_range_are_allowed() -> None:
    Settings(temperature=0, top_p=5e-324, top_k=0, seed=0, max_new_tokens=1, tree="1/1/1")
    Settings(temperature=2, top_p=1, top_k=10**9, seed=MAX_SEED, max_new_tokens=4096, tree="256/16/32")


def test_trees_by_name() -> None:
    assert Settings(tree=" Paper ").tree == PAPER == Tree(total=60, depth=6, width=10)
    assert Settings(tree="AUTO").tree == "auto"
    assert Settings(tree=" 8 / 4/ 4").tree == Tree.parse("8/4/4")
    assert str(PAPER) == "60/6/10"


@given(st.integers(1, 256), st.integers(1, 16), st.integers(1, 32))
def test_a_tree_is_read_as_it_is_written(total: int, depth: int, width: int) -> None:
    tree = Tree(total=total, depth=depth, width=width)
    assert Tree.parse(str(tree)) == tree


def test_minus_zero_is_zero() -> None:
    assert str(Settings(temperature=-0.0).temperature) == "0.0"


def test_settings_are_frozen_copied_pickled_and_written() -> None:
    chosen = Settings(method="eagle1", temperature=0.7, seed=3, tree="8/4/4")
    assert chosen.method is Method.EAGLE1
    with pytest.raises(ValidationError):
        chosen.temperature = 1.0  # type: ignore[misc]
    for same in (copy.deepcopy(chosen), pickle.loads(pickle.dumps(chosen))):
        assert same == chosen
    assert Settings.model_validate_json(chosen.model_dump_json()) == chosen
