"""The profile of a step: operators put into kinds and phases, and the picture of it."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from eagle import __main__ as command_line
from eagle.commands import profile as command
from eagle.decoder import decode
from eagle.settings import Settings, SettingsError
from eagle.step_picture import picture
from eagle.step_profile import GROUPS, PHASES, PRODUCTS, PYTHON, StepProfile, group_of, profile_step
from tests.stubs import ids_prompt, prompt_of
from tests.tiny import tiny_pair

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("operator", "group"),
    [
        ("mkldnn::_linear_pointwise", "products with weights"),
        ("aten::addmm", "products with weights"),
        ("aten::bmm", "attention"),
        ("aten::_softmax", "attention"),
        ("aten::_log_softmax", "log-softmax, top-k, sort"),
        ("aten::topk", "log-softmax, top-k, sort"),
        ("aten::index_select", "indexing and copies"),
        ("aten::copy_", "indexing and copies"),
        ("aten::mul", "entry by entry"),
        ("aten::silu", "entry by entry"),
    ],
)
def test_operators_have_a_kind(operator: str, group: str) -> None:
    assert group_of(operator) == group


@pytest.fixture(scope="module")
def found() -> StepProfile:
    settings = Settings(seed=0, max_new_tokens=12, tree="8/3/4")
    return profile_step(tiny_pair(), ids_prompt(prompt_of(10)), settings, "tiny & <quick>")


def test_a_profile_has_all_kinds_in_their_phases(found: StepProfile) -> None:
    settings = Settings(seed=0, max_new_tokens=12, tree="8/3/4")
    steps = list(decode(tiny_pair(), ids_prompt(prompt_of(10)), settings))
    assert found.steps == len(steps) - 1 - 2  # without the prompt's pass and two warm ones
    assert tuple(found.ms) == GROUPS and all(tuple(pieces) == PHASES for pieces in found.ms.values())
    assert found.ms[PRODUCTS]["draft"] > 0 and found.ms[PRODUCTS]["verify"] > 0
    assert found.ms[PRODUCTS]["judge"] == 0, "judging multiplies with no weights"
    assert found.nodes == pytest.approx(8, abs=0.5)


def test_operators_and_python_make_up_the_clocked_time(found: StepProfile) -> None:
    for phase in PHASES:
        total = sum(found.ms[group][phase] for group in GROUPS)
        assert total >= found.clocked[phase] - 1e-9
        if found.ms[PYTHON][phase] > 0:
            assert total == pytest.approx(found.clocked[phase])
    assert found.python_ms[0] >= 0 and found.python_ms[1] > 0


def test_the_picture_is_a_file_of_its_own(found: StepProfile) -> None:
    root = ElementTree.fromstring(picture(found))
    words = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert any("tiny & <quick>" in (text or "") for text in words)
    for group, pieces in found.ms.items():
        if sum(pieces.values()):
            assert group in words and f"{sum(pieces.values()):.2f} ms" in words
    widths = [float(bar.get("width", 0)) for bar in root.iter("{http://www.w3.org/2000/svg}rect")]
    assert all(width > 0 for width in widths)


def test_the_command_writes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "load_pair", lambda _: tiny_pair())
    out = tmp_path / "new" / "profile.svg"
    asked = ["profile", "--out", str(out), "--tree", "4/2/2", "--max-new-tokens", "8"]
    assert command_line.main(asked) == 0
    assert out.read_text().startswith("<svg")
    line = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert line["what"].startswith("eagle2 4/2/2, T=0, tiny") and line["steps"] >= 1


def test_too_short_an_answer_is_said() -> None:
    with pytest.raises(SettingsError, match="ended within 2 steps"):
        profile_step(
            tiny_pair(), ids_prompt(prompt_of(10)), Settings(method="vanilla", max_new_tokens=3, seed=0), "x"
        )
