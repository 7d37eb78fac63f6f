"""What the terminal is told while something long runs."""

from __future__ import annotations

import sys

from tqdm import tqdm


def say(sentence: str) -> None:
    """A line on standard error that does not break a progress bar."""
    tqdm.write(sentence, file=sys.stderr)


def peak_memory_mb() -> float:
    """The most memory this process ever held, in MB (10^6 bytes)."""
    try:
        import resource
    except ImportError:  # Windows
        import psutil

        return psutil.Process().memory_info().peak_wset / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6


def spent() -> str:
    """Peak memory in words."""
    return f"peak memory {peak_memory_mb() / 1000:.2f} GB"
