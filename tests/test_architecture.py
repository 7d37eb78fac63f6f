"""Who may import whom: dependencies run one way, and importing loads nothing heavy.

``app.py -> app.ui -> {runner, session, figures, lessons, theme} -> eagle``; the auditor shares no code
with what it checks.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

REPO = Path(__file__).parent.parent
HEAVY = {"torch", "transformers", "tokenizers", "accelerate", "safetensors"}
# Pure numpy or plain Python: what runs in a page, a figure or an auditor without a model.
WITHOUT_TORCH = ("eagle.trace", "eagle.settings", "eagle.rules", "eagle.laws", "eagle.audit")
RECORDS = ("eagle.trace", "eagle.settings")
RULE_LAB = ("eagle.rules", "eagle.laws")  # the rule lab draws laws, not recorded runs
WIRING = ("app.ui", "app.explore", "app.runner", "app.live")
CURVES = "eagle.training.curves"  # writes the loss curve of a training run as a Plotly page of its own


@dataclass(frozen=True)
class Import:
    """One imported module; ``typing_only`` where it stands under ``if TYPE_CHECKING``."""

    module: str
    typing_only: bool


def modules() -> dict[str, Path]:
    """Every module of both packages by its dotted name."""
    found = {}
    for package in ("eagle", "app"):
        for path in sorted((REPO / package).rglob("*.py")):
            parts = path.relative_to(REPO).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imports(name: str) -> list[Import]:
    """All imports of a module, those inside functions too; ``from a import b`` counts a.b if it is one."""
    tree = ast.parse(MODULES[name].read_text())
    return list(_walk(tree.body, name, typing_only=False))


def _walk(body: list[ast.stmt], name: str, *, typing_only: bool) -> Iterator[Import]:
    for node in body:
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, typing_only) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} has a relative import; absolute ones are the style here"
            module = node.module or ""
            inner = [f"{module}.{alias.name}" for alias in node.names if f"{module}.{alias.name}" in MODULES]
            outer = [module] if len(inner) < len(node.names) else []
            yield from (Import(found, typing_only) for found in (*inner, *outer))
        elif isinstance(node, ast.If):
            guarded = typing_only or "TYPE_CHECKING" in ast.unparse(node.test)
            yield from _walk(node.body, name, typing_only=guarded)
            yield from _walk(node.orelse, name, typing_only=typing_only)
        else:
            for field in ("body", "orelse", "finalbody", "handlers"):
                for inner_node in getattr(node, field, []) or []:
                    yield from _walk([inner_node], name, typing_only=typing_only)


def within(module: str, *packages: str) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def under(*packages: str) -> list[str]:
    return [name for name in MODULES if within(name, *packages)]


def reached(name: str) -> dict[str, str]:
    """Every module that running ``name`` can import, through this repository's own; with who imports it.

    ``eagle/__init__.py`` is not followed: importing any module runs it, and it loads lazily (tested below).
    """
    found: dict[str, str] = {}
    waiting = [name]
    while waiting:
        current = waiting.pop()
        for one in imports(current):
            if not one.typing_only and one.module not in found:
                found[one.module] = current
                if one.module in MODULES and one.module not in ("eagle", "app"):
                    waiting.append(one.module)
    return found


def test_the_walk_sees_what_it_should() -> None:
    """Else every test here would pass on nothing."""
    assert Import("torch", False) in imports("eagle.sampling")
    assert Import("eagle.rules", False) in imports("eagle.sampling")
    assert Import("eagle.decoder", True) in imports("eagle.recording")
    assert "torch" in reached("eagle.decoder")
    assert Import("eagle.rules", False) in imports("eagle.decoder"), "from eagle import rules"
    assert Import("eagle.audit", False) in imports("eagle.commands.audit"), "inside a function"


@pytest.mark.parametrize("name", under("eagle"))
def test_the_library_knows_no_page(name: str) -> None:
    page = ("app", "gradio") if name == CURVES else ("app", "gradio", "plotly")
    bad = [one.module for one in imports(name) if within(one.module, *page)]
    assert not bad, f"{name} imports {bad}"


@pytest.mark.parametrize("name", under(*WITHOUT_TORCH))
def test_records_rules_and_auditor_need_no_torch(name: str) -> None:
    bad = {module: by for module, by in reached(name).items() if module.split(".")[0] in HEAVY}
    assert not bad, f"{name} reaches {bad}"


@pytest.mark.parametrize("name", under("eagle.trace", "eagle.settings"))
def test_traces_and_settings_stand_alone(name: str) -> None:
    assert {m for m in reached(name) if within(m, "eagle")} <= {"eagle.settings"}


@pytest.mark.parametrize("name", under("eagle.rules"))
def test_the_rules_depend_on_numpy_alone(name: str) -> None:
    assert not [m for m in reached(name) if within(m, "eagle")]


@pytest.mark.parametrize("name", under("eagle.audit"))
def test_the_auditor_shares_no_code_with_what_it_checks(name: str) -> None:
    own = [one.module for one in imports(name) if within(one.module, "eagle", "app")]
    assert all(within(module, "eagle.audit", "eagle.trace", "eagle.settings") for module in own), own


@pytest.mark.parametrize("name", under("app.figures", "app.session"))
def test_figures_and_session_see_only_records_and_looks(name: str) -> None:
    """Whatever they reach, of this repository, is records, looks or counts over records: no decoder."""
    lab = name.startswith("app.figures.lab_")
    allowed = (*RECORDS, *(RULE_LAB if lab else ()))
    found = reached(name)
    bad = {m: by for m, by in found.items() if within(m, "eagle") and not within(m, *allowed)}
    assert not bad, f"{name} reaches {bad}"
    wiring = {m: by for m, by in found.items() if within(m, *WIRING)}
    assert not wiring, f"{name} reaches {wiring}"


def test_nothing_in_the_package_imports_the_whole_page() -> None:
    assert not [
        name for name in under("app", "eagle") if any(one.module == "app.ui" for one in imports(name))
    ]


@pytest.mark.parametrize("name", under("app"))
def test_no_page_module_imports_torch_itself(name: str) -> None:
    assert not [
        one.module for one in imports(name) if one.module.split(".")[0] in HEAVY and not one.typing_only
    ]


def loaded_by(statement: str) -> set[str]:
    """Top-level packages in memory after a statement, in a fresh interpreter."""
    code = (
        f"{statement}\nimport json, sys\nprint(json.dumps(sorted({{n.split('.')[0] for n in sys.modules}})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True, check=True, timeout=120
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "statement",
    [
        "import eagle, app",
        "import eagle.trace, eagle.rules, eagle.audit, eagle.laws",
        "import eagle.__main__",
    ],
)
def test_importing_loads_no_model_library_and_no_page(statement: str) -> None:
    assert not loaded_by(statement) & (HEAVY | {"gradio", "plotly"})


@pytest.mark.slow
def test_building_the_page_loads_no_torch() -> None:
    assert not loaded_by("import app.ui") & {"torch", "transformers"}


def test_app_is_the_package_not_the_entry_script() -> None:
    assert loaded_by("import app; assert hasattr(app, '__path__')")
