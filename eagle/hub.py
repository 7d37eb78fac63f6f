"""From a name that somebody typed to a folder on this machine, or one sentence on why not.

A name is a folder or a hub id such as ``owner/name``. From the hub only what a model needs is taken:
configs, tokenizer, weights; never code. A token is read by the hub's own client from the environment
and is never shown.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from eagle.builtin import LoadError, Progress

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?")
SMALL_FILES = ("*.json", "*.jinja", "*.model", "*.txt", "*.tiktoken")
INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
SINGLE = ("model.safetensors", "pytorch_model.bin")
LFS_POINTER = b"version https://git-lfs"
HOW_TO_SIGN_IN = "set HF_TOKEN to a token that may read it (on a Space: a secret of that name)"


def folder_of(name: str, what: str, say: Progress) -> Path:
    """The folder of small files (config, tokenizer, index) of a named target or head.

    A folder is taken as it is; of a hub repository everything but the weights is fetched first, so
    that a pair that can not work is refused before gigabytes are. Raises LoadError.
    """
    path = Path(name).expanduser()
    if ".." in path.parts:
        raise LoadError(
            f"The {what} {name[:80]!r} leads out of its folder with '..'; name the folder itself."
        )
    if name.strip() and path.is_dir():
        return path
    if not HUB_ID.fullmatch(name):
        raise LoadError(
            f"The {what} {name[:80]!r} is neither a folder on this machine nor a hub id such as owner/name."
        )
    return _from_hub(name, what, say, list(SMALL_FILES))


def with_weights(name: str, folder: Path, what: str, say: Progress) -> Path:
    """The same folder with its weights in it, fetched if it came from the hub; checked by name and size."""
    if not Path(name).expanduser().is_dir():
        files = ["*.safetensors"] if _has_safetensors(name) else ["*.bin"]
        folder = _from_hub(name, what, say, [*SMALL_FILES, *files])
    weight_files(folder, what)
    return folder


def weight_files(folder: Path, what: str) -> list[Path]:
    """The files that hold a model's weights: one, or the shards that an index names. Raises LoadError."""
    for index in INDEXES:
        if (folder / index).is_file():
            return [_checked(folder, name, what) for name in _shards(folder / index, what)]
    for name in SINGLE:
        if (folder / name).exists():
            return [_checked(folder, name, what)]
    raise LoadError(f"The {what} folder {folder.name} has neither {SINGLE[0]} nor {SINGLE[1]}.")


def stored_size(folder: Path) -> int | None:
    """Bytes of a model's weights, by its files or by its index's word; None where neither tells."""
    there = [path for path in folder.iterdir() if path.suffix in (".safetensors", ".bin")]
    for index in INDEXES:
        try:
            total = json.loads((folder / index).read_text())["metadata"]["total_size"]
            return int(total)
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return sum(path.stat().st_size for path in there if path.name in SINGLE) or None


def _shards(index: Path, what: str) -> list[str]:
    try:
        names = sorted(set(json.loads(index.read_text())["weight_map"].values()))
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        raise LoadError(f"The {index.name} of {what} {index.parent.name} is not a valid index.") from None
    for name in names:
        if not isinstance(name, str) or Path(name).name != name:
            raise LoadError(
                f"{index.name} of {what} {index.parent.name} names {str(name)[:60]!r}, outside its folder."
            )
    return names


def _checked(folder: Path, name: str, what: str) -> Path:
    path = folder / name
    if not path.is_file():
        raise LoadError(f"The {what} folder {folder.name} lacks {name}, which its index names.")
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(len(LFS_POINTER))
    if start == LFS_POINTER:
        raise LoadError(f"{name} of {what} {folder.name} is a Git LFS pointer; download the file itself.")
    if size < 16:
        raise LoadError(f"{name} of {what} {folder.name} is empty or cut short: it has {size} bytes.")
    return path


def _has_safetensors(name: str) -> bool:
    from huggingface_hub import HfApi

    try:
        listed = HfApi().list_repo_files(name)
    except Exception:  # no network: whatever the cache holds
        return True
    return any(file.endswith(".safetensors") for file in listed)


def _from_hub(name: str, what: str, say: Progress, patterns: list[str]) -> Path:
    from huggingface_hub import errors, snapshot_download

    say(f"looking for {what} {name} on the hub", None)
    try:
        return Path(snapshot_download(name, allow_patterns=patterns))
    except errors.GatedRepoError:
        reason = f"is gated: accept its terms on its hub page, then {HOW_TO_SIGN_IN}"
    except errors.RepositoryNotFoundError:
        reason = (
            f"was not found on the hub: the name may be misspelt, or it is private; then {HOW_TO_SIGN_IN}"
        )
    except (errors.HFValidationError, errors.RevisionNotFoundError):
        reason = "is no valid hub id"
    except errors.HfHubHTTPError as error:
        status = error.response.status_code if error.response is not None else "no"
        reason = f"could not be fetched: the hub answered with status {status}"
    except (errors.LocalEntryNotFoundError, OSError):
        reason = "is not in this machine's hub cache and the hub can not be reached; connect or name a folder"
    raise LoadError(f"The {what} {name[:80]!r} {reason}.")
