"""Spaces: the decorator with and without its package, what crosses processes, storage, front matter."""

from __future__ import annotations

import multiprocessing
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from app import cli, space
from app.runner import Runner
from eagle.decoder import generate
from eagle.settings import Settings
from eagle.trace import PairInfo, PromptTrace, StepTrace
from tests.tiny import tiny_pair

REPO = Path(__file__).parent.parent
PROMPT = PromptTrace(text="Hi", token=[72, 105], labels=["H", "i"], chat=False)
pytestmark = pytest.mark.slow

FAKE_SPACES = """
import inspect, pickle

CALLS = []
def GPU(duration=None):
    def decorate(task):
        assert inspect.isgeneratorfunction(task)
        def wrapped(*args):
            CALLS.append(duration(*args))
            for item in task(*pickle.loads(pickle.dumps(args))):
                yield pickle.loads(pickle.dumps(item))
        return wrapped
    return decorate
"""


def test_without_the_package_the_decorator_is_a_no_op(monkeypatch: pytest.MonkeyPatch) -> None:
    def function() -> None: ...

    assert space.gpu(lambda: 1.0)(function) is function
    monkeypatch.setenv("SPACES_ZERO_GPU", "true")
    monkeypatch.setattr(space.importlib.util, "find_spec", lambda name: None)
    assert space.gpu(lambda: 1.0)(function) is function
    assert not space.is_zero_gpu()
    assert space.loading_device() is None


def test_a_gpu_or_cpu_space_decodes_in_its_own_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPACE_ID", "someone/eagle")
    pair = tiny_pair()
    steps = list(space.decode(pair, PROMPT, Settings(max_new_tokens=4, seed=1)))
    assert all(isinstance(step, StepTrace) for step in steps)
    assert space.is_space()
    assert not space.is_space({})


def on_zero_gpu(tmp_path: Path, code: str) -> str:
    """What a fresh interpreter prints with ZeroGPU's switch on and a stand-in for its package."""
    (tmp_path / "spaces.py").write_text(FAKE_SPACES)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=REPO,
        env={
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": f"{tmp_path}:{REPO}",
            "SPACES_ZERO_GPU": "true",
            "OMP_NUM_THREADS": "1",
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


def test_on_zero_gpu_runs_go_through_the_decorated_function_as_plain_records(tmp_path: Path) -> None:
    said = on_zero_gpu(
        tmp_path,
        """
        import spaces
        from app import space
        from app.runner import Runner
        from eagle.settings import Settings
        from tests.tiny import tiny_pair
        from dataclasses import replace
        import torch

        pair = tiny_pair()
        elsewhere = pair.info.model_copy(update={"notes": ["decoded on the GPU"]})
        space._pair_of_this_process = lambda: replace(pair, info=elsewhere)
        runner = Runner(lambda say: pair)
        assert space.loading_device() == "cpu"
        run = runner.begin("Hi", Settings(max_new_tokens=6, seed=1), "me")
        steps = list(run)
        print(spaces.CALLS, run.trace().new_tokens, run.trace().pair.notes, torch.cuda.is_initialized())
        """,
    )
    assert said == "[15] 6 ['decoded on the GPU'] False"


def test_importing_the_page_on_zero_gpu_touches_no_gpu_and_no_torch(tmp_path: Path) -> None:
    said = on_zero_gpu(
        tmp_path,
        """
        import sys
        from app.ui import build_demo
        build_demo()
        print("torch" in sys.modules)
        """,
    )
    assert said == "False"


def test_what_crosses_to_a_gpu_process_is_small_and_can_be_pickled() -> None:
    pair = tiny_pair()
    run = generate(pair, [72, 105], Settings(max_new_tokens=8, seed=1))
    for item in (PROMPT, run.settings, run.pair, *run.steps):
        packed = pickle.dumps(item)
        assert pickle.loads(packed) == item
        assert len(packed) < 10**6
        assert b"torch" not in packed
    assert pickle.loads(pickle.dumps(space.decode_on_gpu)) is space.decode_on_gpu, "found by its name"


def _in_child(queue: Any) -> None:
    pair = tiny_pair()
    space._pair_of_this_process = lambda: pair  # type: ignore[assignment]
    for item in space._on_gpu(PROMPT, Settings(max_new_tokens=4, seed=1)):
        queue.put(item)
    queue.put(None)


def test_a_run_in_another_process_equals_the_same_run_here() -> None:
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(queue,))
    child.start()
    items = list(iter(lambda: queue.get(timeout=60), None))
    child.join(30)
    assert isinstance(items[0], PairInfo)
    here = list(space.decode(tiny_pair(), PROMPT, Settings(max_new_tokens=4, seed=1)))
    assert [step.emitted.token for step in items[1:]] == [step.emitted.token for step in here]  # type: ignore[union-attr]


def test_the_duration_follows_the_settings_within_its_bounds() -> None:
    def seconds(tokens: int, method: str = "eagle2", prompt: int = 10) -> int:
        trace = PromptTrace(text="", token=[1] * prompt, labels=["a"] * prompt, chat=False)
        return space.seconds_for(trace, Settings(method=method, max_new_tokens=tokens))

    assert seconds(16) == space.SHORTEST_S
    assert seconds(64) < seconds(128) < seconds(512)
    assert seconds(128, "vanilla") < seconds(128)
    assert seconds(4096) == space.LONGEST_S
    assert all(isinstance(seconds(n), int) for n in (1, 100))


def test_a_space_with_storage_keeps_its_models_there(tmp_path: Path) -> None:
    with_storage = {"SPACE_ID": "a/b"}
    space.prepare(with_storage, tmp_path)
    assert with_storage["EAGLE_CACHE"] == str(tmp_path / "eagle-step-by-step")
    for environment, storage in (
        ({"SPACE_ID": "a/b"}, tmp_path / "missing"),
        ({}, tmp_path),
        ({"SPACE_ID": "a/b", "EAGLE_CACHE": "/elsewhere"}, tmp_path),
    ):
        before = dict(environment)
        space.prepare(environment, storage)
        assert {k: v for k, v in environment.items() if not k.startswith("GRADIO")} == before


@pytest.fixture(scope="module")
def front_matter() -> Iterator[dict[str, Any]]:
    import yaml

    path = REPO / "README.md"
    if not path.exists():
        pytest.fail("there is no README.md")
    text = path.read_text(encoding="utf-8")
    assert text.startswith("---\n")
    yield yaml.safe_load(text.split("---\n")[1])


def test_the_front_matter_of_the_readme_fits_the_requirements(front_matter: dict[str, Any]) -> None:
    pins = dict(
        line.split(" ")[0].split("==")
        for line in (REPO / "requirements.txt").read_text().splitlines()
        if "==" in line
    )
    assert front_matter["sdk"] == "gradio"
    assert front_matter["sdk_version"] == pins["gradio"] == metadata.version("gradio")
    assert (REPO / front_matter["app_file"]).is_file()
    assert front_matter["license"] == "apache-2.0"
    assert len(front_matter["short_description"]) <= 60
    assert front_matter["python_version"] == "3.12.12"  # the newest that ZeroGPU's page lists
    from eagle.builtin import FILE, HUB_REPO

    assert front_matter["preload_from_hub"] == [f"{HUB_REPO} {FILE}"]
    assert front_matter["models"] == [HUB_REPO]


def test_no_tracked_file_is_over_ten_megabytes() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPO, capture_output=True, check=False).stdout
    if not listed:
        pytest.skip("not a git checkout")
    big = [name for name in listed.decode().split("\0") if name and (REPO / name).stat().st_size > 10 * 2**20]
    assert big == []


# How it is served


def test_the_port_comes_from_the_option_then_the_environment() -> None:
    assert cli.parse(["--port", "1"], {"PORT": "2"}).port == 1
    assert cli.parse([], {"PORT": "2", "GRADIO_SERVER_PORT": "3"}).port == 3
    assert cli.parse([], {"PORT": "2"}).port == 2
    assert cli.parse([], {}).port == 7860
    assert cli.parse(["--host", "0.0.0.0"], {}).launch_options() == {
        "server_port": 7860,
        "server_name": "0.0.0.0",
    }


@pytest.mark.parametrize("port", ["0", "70000", "x", "-1", "७"])
def test_a_bad_port_is_refused_in_one_sentence(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.parse([], {"PORT": port})
    assert caught.value.code == 2
    assert "the port must be a whole number" in capsys.readouterr().err


def test_mcp_is_a_flag_and_says_what_it_needs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "has_mcp", lambda: True)
    assert cli.parse(["--mcp"], {}).launch_options()["mcp_server"] is True
    assert cli.parse([], {"EAGLE_MCP": "1"}).mcp
    assert not cli.parse([], {}).mcp
    monkeypatch.setattr(cli, "has_mcp", lambda: False)
    with pytest.raises(SystemExit):
        cli.parse(["--mcp"], {})
    assert "mcp>=1.21,<2" in capsys.readouterr().err


def test_help_names_every_variable_and_waits_for_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "app.py", "--help"],
        cwd=REPO,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    from app.limits import PREFIX, Limits

    for name in ("EAGLE_CACHE", "EAGLE_THREADS", "EAGLE_ALLOWED_MODELS", "PORT"):
        assert name in done.stdout
    for field in Limits.__dataclass_fields__.values():
        line = next(line for line in done.stdout.splitlines() if PREFIX + field.name.upper() in line)
        assert f"({field.default})" in line
    assert "gradio" not in done.stderr.replace("app.gradio", "")


def test_the_runner_loads_on_the_cpu_on_zero_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    import eagle

    asked: list[Any] = []

    def load(*names: Any, **options: Any) -> Any:
        asked.append(options["device"])
        return tiny_pair()

    monkeypatch.setattr(eagle, "load", load, raising=False)
    monkeypatch.setattr(space, "is_zero_gpu", lambda: True)
    monkeypatch.setattr(space, "decode_on_gpu", lambda *_: pytest.fail("the warm-up went to the GPU"))
    Runner().pair()
    assert asked == ["cpu"]
