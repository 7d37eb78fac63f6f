"""Whether a pair fits, asked before it is loaded."""

from __future__ import annotations

import gc
from pathlib import Path

import psutil
import torch

from eagle.builtin import LoadError

# Beside the weights: activations, caches of a few thousand tokens, the library itself.
ROOM_BESIDE_WEIGHTS = 0.4e9
CGROUP_FILES = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


class TooLargeError(LoadError):
    """A pair that does not fit into what is free now."""


def needed(stored: int, stored_entry: int, dtype: torch.dtype) -> float:
    """Bytes that weights of ``stored`` bytes, ``stored_entry`` an entry, take once they are ``dtype``."""
    return stored / stored_entry * dtype.itemsize


def free(device: str) -> float:
    """Bytes that are free: of one GPU, of this machine or its container, or of all of them (``auto``)."""
    if device == "auto":
        gpus = range(torch.cuda.device_count())
        return free("cpu") + sum(torch.cuda.mem_get_info(gpu)[0] for gpu in gpus)
    if device.startswith("cuda"):
        return torch.cuda.mem_get_info(torch.device(device))[0]
    return min([float(psutil.virtual_memory().available), *_container_limits()])


def _container_limits() -> list[float]:
    left = []
    for limit, used in CGROUP_FILES:
        try:
            left.append(float(Path(limit).read_text()) - float(Path(used).read_text()))
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return left


def give_back() -> None:
    """Returns what nothing refers to any more, cycles included, to the machine and its GPUs."""
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def refuse_what_does_not_fit(name: str, weights: float, device: str) -> None:
    """LoadError with both numbers where ``weights`` bytes and some room do not fit on ``device``."""
    asked, there = weights + ROOM_BESIDE_WEIGHTS, free(device)
    if asked > there:
        place = "this machine and its GPUs together" if device == "auto" else device
        raise TooLargeError(
            f"{name} needs about {asked / 1e9:.1f} GB of memory, but {place} has {there / 1e9:.1f} GB free; "
            f"choose a smaller pair or a smaller number type."
        )
