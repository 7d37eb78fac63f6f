"""How many threads torch should use: this process's real share of the machine.

In a container the host's core count is not ours; pools sized from it run many times slower.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

THREADS_VARIABLE = "EAGLE_THREADS"
CGROUP = Path("/sys/fs/cgroup")


def share(cgroup: Path = CGROUP) -> int:
    """Cores this process may really use: its affinity, cut to the container's quota where there is one."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return max(1, min(cores, math.ceil(quota(cgroup) or cores)))


def quota(cgroup: Path) -> float | None:
    """Cores that the control group grants (version 2, then 1); None where nothing limits them."""
    try:
        granted, period = (cgroup / "cpu.max").read_text().split()
        return None if granted == "max" else int(granted) / int(period)
    except (OSError, ValueError):
        pass
    try:
        granted_us = int((cgroup / "cpu" / "cpu.cfs_quota_us").read_text())
        period_us = int((cgroup / "cpu" / "cpu.cfs_period_us").read_text())
    except (OSError, ValueError):
        return None
    return granted_us / period_us if granted_us > 0 else None


def set_threads(wanted: int | None = None) -> int:
    """Sets torch's threads once: the argument, else $EAGLE_THREADS, else the share."""
    import torch

    named = os.environ.get(THREADS_VARIABLE, "")
    count = wanted or (int(named) if named.isdigit() and int(named) > 0 else share())
    torch.set_num_threads(count)
    return count
