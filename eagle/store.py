"""Folders of converted models in the user's cache: made once, whole or not at all, checked when used.

A folder is built beside its place and renamed into it, under a lock. Its seal, ``source.json``, is
written last and names every file with its size and sha256; a folder without a seal that holds is made
anew. What a killed start left behind is cleared away by the next one.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from filelock import FileLock
from platformdirs import user_cache_dir

CACHE_VARIABLE = "EAGLE_CACHE"
APPLICATION = "eagle-step-by-step"
SEAL = "source.json"
UNFINISHED = "unfinished-"


def cache_dirs() -> list[Path]:
    """Where converted models may live, best first: $EAGLE_CACHE alone, or the user's cache, then a
    temporary folder for machines whose home can not be written."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return [Path(chosen).expanduser()]
    return [
        Path(user_cache_dir(APPLICATION, False)),
        Path(tempfile.gettempdir()) / f"{APPLICATION}-{_user()}",
    ]


def cache_dir() -> Path:
    """The first of :func:`cache_dirs` that can be written; the first at all where none can."""
    return next((folder for folder in cache_dirs() if can_be_made(folder)), cache_dirs()[0])


def can_be_made(folder: Path) -> bool:
    """Whether the folder exists or can be made, and takes a file."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def seal(folder: Path, facts: dict[str, Any]) -> None:
    """Writes the seal: the facts, and every file's size and sha256."""
    files = {path.name: [path.stat().st_size, sha256_of(path)] for path in sorted(folder.iterdir())}
    write_whole(folder / SEAL, json.dumps({**facts, "files": files}, indent=1))


def is_sealed(folder: Path, facts: dict[str, Any]) -> bool:
    """Whether the folder is sealed with these facts and each of its files is still what it was."""
    try:
        found = json.loads((folder / SEAL).read_text(encoding="utf-8"))
        files = found.pop("files")
        return (
            found == facts
            and bool(files)
            and all((folder / name).stat().st_size == size for name, (size, _) in files.items())
            and all(sha256_of(folder / name) == digest for name, (_, digest) in files.items())
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def made(folder: Path, facts: dict[str, Any], build: Callable[[Path, Path], None]) -> Path:
    """The sealed folder, built first if need be by ``build(scratch, new folder)``.

    Raises OSError where the place can not be written, and whatever ``build`` raises; either leaves
    nothing behind.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):
        if is_sealed(folder, facts):
            return folder
        _clear_unfinished(folder.parent)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=UNFINISHED) as scratch:
            new = Path(scratch) / "new"
            new.mkdir()
            build(Path(scratch), new)
            seal(new, facts)
            shutil.rmtree(folder, ignore_errors=True)
            new.rename(folder)
    return folder


def write_whole(path: Path, text: str) -> None:
    """Writes a file so that it is there whole or, if this is interrupted, as it was before."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _clear_unfinished(parent: Path) -> None:
    """Removes what killed starts left; called under the lock, so nobody is working on any of it."""
    for left in parent.glob(f"{UNFINISHED}*"):
        shutil.rmtree(left, ignore_errors=True)


def _user() -> str:
    """A name for this user's temporary folder, which other users of the machine can not have taken."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = "user"
    return re.sub(r"[^\w-]", "_", name)
