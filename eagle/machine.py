"""The machine that figures were measured on, and the memory that a piece of work took."""

from __future__ import annotations

import contextlib
import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from eagle.recording import packages

if TYPE_CHECKING:
    from eagle.decoder import Pair

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def machine(pair: Pair) -> dict[str, Any]:
    """What the figures were measured on."""
    on_gpu = pair.target.device.type == "cuda"
    return {
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "gpu": torch.cuda.get_device_name(pair.target.device) if on_gpu else None,
        "threads": torch.get_num_threads(),
        "dtype": pair.info.target.dtype,
        "weights": pair.info.target.weights,
        "target": pair.info.target.name,
        "target_hash": pair.info.target.hash,
        "head_hash": pair.info.head.hash if pair.info.head else None,
        "costs": pair.info.costs.model_dump() if pair.info.costs else None,
        "packages": packages(),
        "peak_rss_mb": peak_rss_mb(),
    }


def cpu_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's own name where the system tells it, else its architecture."""
    try:
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def forget_peak() -> None:
    """Lets the process's peak memory begin anew, where Linux allows it; else it stays what it was."""
    with contextlib.suppress(OSError):
        CLEAR.write_text("5")


def peak_rss_mb() -> float:
    """The process's largest resident memory since the last :func:`forget_peak`, or since its start where the
    system can not forget; the present one where it tells no peak. MiB, all that is loaded included."""
    import psutil

    try:
        peak = next(line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM"))
        return round(int(peak.split()[1]) / 1024, 1)
    except (OSError, StopIteration, ValueError, IndexError):
        memory = psutil.Process().memory_info()
        return round(getattr(memory, "peak_wset", memory.rss) / 2**20, 1)
