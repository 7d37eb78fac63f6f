"""Killed, full, read-only, corrupted, wrong, cut short: the next start is clean, or a sentence says why not.

The download and the conversion are stand-ins of a few bytes; what they stand for is run by the tests
marked ``real``.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from safetensors import SafetensorError

from eagle import builtin, store
from eagle.builtin import LoadError

REPO = Path(__file__).parent.parent
GOOD = b"the right file"
PIECES = {"model.safetensors": b"weights" * 100, "tokenizer.json": b"{}", "config.json": b"{}"}
Source = Callable[[Path, Any], Path | None]


class World:
    """Stand-ins for the sources and the conversion; counts conversions."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
        self.patch, self.cache = monkeypatch, cache
        self.conversions = 0
        self.during: Callable[[Path], None] = lambda folder: None
        monkeypatch.setattr(builtin, "SHA256", hashlib.sha256(GOOD).hexdigest())
        monkeypatch.setattr(builtin, "FACTS", {"sha256": hashlib.sha256(GOOD).hexdigest()})
        monkeypatch.setattr(store, "cache_dirs", lambda: [cache])
        monkeypatch.setattr(builtin, "_convert", self.convert)
        self.sources(("a source", self.gives(GOOD)))

    def sources(self, *listed: tuple[str, Source]) -> None:
        self.patch.setattr(builtin, "_sources", lambda: iter(listed))

    @staticmethod
    def gives(content: bytes) -> Source:
        def source(scratch: Path, progress: Any) -> Path:
            path = scratch / "file.gguf"
            path.write_bytes(content)
            return path

        return source

    @staticmethod
    def fails(error: BaseException) -> Source:
        def source(scratch: Path, progress: Any) -> Path:
            (scratch / "half").write_bytes(b"half")
            raise error

        return source

    def convert(self, gguf: Path, folder: Path, progress: Any) -> None:
        assert gguf.read_bytes() == GOOD
        self.conversions += 1
        for name, content in PIECES.items():
            (folder / name).write_bytes(content)
            self.during(folder)

    def load(self) -> Path:
        return builtin.target_folder(lambda sentence, fraction: None)

    def is_clean(self) -> bool:
        """Nothing lies in the cache but finished folders and locks."""
        return not [path for path in self.cache.glob("*") if path.name.startswith(store.UNFINISHED)]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[World]:
    made = World(monkeypatch, tmp_path / "cache")
    yield made


def test_made_once_then_found(world: World) -> None:
    folder = world.load()
    assert {path.name for path in folder.iterdir()} == {*PIECES, store.SEAL}
    assert world.load() == folder
    assert world.conversions == 1
    assert world.is_clean()


# Sources


def test_a_wrong_or_half_file_means_the_next_source(world: World) -> None:
    world.sources(
        ("one", world.gives(GOOD[:5])),
        ("two", world.fails(ConnectionError("no network"))),
        ("three", lambda scratch, progress: None),
        ("four", world.gives(GOOD)),
    )
    world.load()
    assert world.conversions == 1


def test_without_any_source_one_sentence_names_each(world: World) -> None:
    world.sources(
        ("one", world.gives(b"something else")),
        ("two", world.fails(ConnectionError("no network\nat /home/someone"))),
    )
    with pytest.raises(LoadError) as caught:
        world.load()
    said = str(caught.value)
    assert "one: the file's sha256 is" in said
    assert "two: no network" in said
    assert "someone" not in said
    assert "pip install" in said
    assert "\n" not in said
    assert world.is_clean()


def test_a_copy_in_the_hub_cache_that_is_wrong_is_fetched_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    asked: list[Any] = []
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", lambda *a, **k: asked.append(k) or "x")
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *a: "/some/file")
    builtin._from_hub(Path(), lambda *a: None)
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *a: None)
    builtin._from_hub(Path(), lambda *a: None)
    assert [one["force_download"] for one in asked] == [True, False]


# Disk


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
        SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
    ],
)
def test_a_disk_that_fills_up_in_the_conversion_means_the_next_place(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    roomy = tmp_path / "roomy"
    monkeypatch.setattr(store, "cache_dirs", lambda: [world.cache, roomy])

    def fill(folder: Path) -> None:
        if world.cache in folder.parents:
            raise error

    world.during = fill
    assert roomy in world.load().parents
    assert world.is_clean()


def test_a_disk_that_is_full_everywhere_says_what_to_do(world: World) -> None:
    def fill(folder: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    world.during = fill
    with pytest.raises(LoadError, match=r"No space left on device.*free 1.3 GB there, or point EAGLE_CACHE"):
        world.load()
    assert world.is_clean()
    world.during = lambda folder: None
    world.load()


def test_a_full_disk_in_the_download_is_no_failure_of_the_source(world: World) -> None:
    pip_says = LoadError("ERROR: Could not install: [Errno 28] No space left on device")
    world.sources(("wheel", world.fails(pip_says)), ("hub", world.gives(GOOD)))
    with pytest.raises(LoadError, match=r"free 1\.3 GB there"):
        world.load()


def test_a_place_that_can_not_be_written_is_passed_over(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the folder should be")
    monkeypatch.setattr(store, "cache_dirs", lambda: [blocked / "cache", world.cache])
    assert world.cache in world.load().parents
    assert store.cache_dir() == world.cache


def test_a_read_only_cache_that_holds_the_model_is_enough(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = world.load()

    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "mkdir", refuse)
    monkeypatch.setattr(store, "FileLock", refuse)
    assert world.load() == folder


def test_a_cache_named_by_the_operator_is_the_only_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(store.CACHE_VARIABLE, str(tmp_path))
    assert store.cache_dirs() == [tmp_path]
    monkeypatch.delenv(store.CACHE_VARIABLE)
    assert len(store.cache_dirs()) == 2


# Corruption


@pytest.mark.parametrize("name", [*PIECES, store.SEAL])
@pytest.mark.parametrize("how", ["flipped", "short", "empty", "gone"])
def test_a_corrupted_cache_is_made_anew(world: World, name: str, how: str) -> None:
    path = world.load() / name
    content = path.read_bytes()
    if how == "gone":
        path.unlink()
    else:
        broken = {"flipped": bytes([content[0] ^ 1]) + content[1:], "short": content[:-1], "empty": b""}
        path.write_bytes(broken[how])
    folder = world.load()
    assert world.conversions == 2
    assert {one.name: one.read_bytes() for one in folder.iterdir() if one.name in PIECES} == PIECES


@pytest.mark.parametrize(
    "seal", ["null", "[]", '{"files": {}}', '{"files": {"../../etc/passwd": [1, "x"]}}', "{"]
)
def test_a_seal_that_makes_no_sense_holds_nothing(tmp_path: Path, seal: str) -> None:
    (tmp_path / store.SEAL).write_text(seal)
    assert not store.is_sealed(tmp_path, {})


# Killed


KILLED = """
import hashlib, os, signal, sys
from pathlib import Path
from eagle import builtin, store
GOOD = b"the right file"
builtin.SHA256 = hashlib.sha256(GOOD).hexdigest()
builtin.FACTS = {"sha256": builtin.SHA256}
def die():
    os.kill(os.getpid(), signal.SIGKILL)
def source(scratch, progress):
    (scratch / "file.gguf").write_bytes(GOOD[:5])
    if WHERE == "download": die()
    (scratch / "file.gguf").write_bytes(GOOD)
    return scratch / "file.gguf"
def convert(gguf, folder, progress):
    (folder / "model.safetensors").write_bytes(b"half")
    if WHERE == "conversion": die()
builtin._sources = lambda: iter([("a", source)])
builtin._convert = convert
whole = store.write_whole
def seal_and_die(path, text):
    if WHERE == "seal": die()
    whole(path, text)
store.write_whole = seal_and_die
print(builtin.target_folder(lambda *a: None))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize("where", ["download", "conversion", "seal"])
def test_killed_in_the_middle_the_next_start_is_clean(world: World, where: str) -> None:
    environment = {**os.environ, store.CACHE_VARIABLE: str(world.cache)}
    done = subprocess.run(
        [sys.executable, "-c", f"WHERE = {where!r}\n{KILLED}"],
        cwd=REPO,
        env=environment,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not world.is_clean(), "the kill should have left something behind, or this test tests nothing"
    folder = world.load()
    assert world.conversions == 1
    assert store.is_sealed(folder, builtin.FACTS)
    assert world.is_clean()


def test_two_starts_at_once_convert_once(world: World) -> None:
    inside, go = threading.Event(), threading.Event()

    def wait(folder: Path) -> None:
        inside.set()
        assert go.wait(20)

    world.during = wait
    folders: list[Path] = []
    threads = [threading.Thread(target=lambda: folders.append(world.load())) for _ in range(2)]
    threads[0].start()
    assert inside.wait(20)
    threads[1].start()
    go.set()
    for thread in threads:
        thread.join(20)
    assert len(folders) == 2
    assert world.conversions == 1


# A trace that is being written


def test_a_trace_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "trace.json"
    store.write_whole(path, "the old one")

    def full(*_: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        store.write_whole(path, "the new one")
    assert path.read_text() == "the old one"
    assert [one.name for one in tmp_path.iterdir()] == ["trace.json"]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_killed_while_it_is_written_the_old_trace_is_still_there(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    store.write_whole(path, json.dumps({"version": 1}))
    code = f"""
    import os, signal
    from pathlib import Path
    from eagle import store
    Path.replace = lambda *a: os.kill(os.getpid(), signal.SIGKILL)
    store.write_whole(Path({str(path)!r}), "x" * 10_000)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], cwd=REPO, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == -signal.SIGKILL
    assert json.loads(path.read_text()) == {"version": 1}


def test_the_page_tells_why_loading_failed_without_a_folder(world: World) -> None:
    from app.pair_holder import State
    from app.runner import Runner

    def fill(folder: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    world.during = fill
    runner = Runner(lambda say: world.load())  # type: ignore[arg-type, return-value]
    with pytest.raises(RuntimeError, match="No space left on device") as caught:
        runner.pair()
    assert runner.status().state is State.FAILED
    assert str(world.cache.parent) not in str(caught.value)
    assert "…/" in str(caught.value)
