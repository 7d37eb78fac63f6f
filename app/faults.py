"""What a visitor is told when something fails: one plain sentence, with no path, token or traceback in it."""

from __future__ import annotations

import gc
import logging
import re
import sys

LOG = logging.getLogger(__name__)
UNFORESEEN = "The run failed for a reason this page did not foresee; the server's log has the details."
NO_MEMORY = (
    "The server ran out of memory in this run, so it ended. Ask for fewer tokens, a shorter prompt or a "
    "smaller tree, or open a recorded run."
)
NO_QUOTA = (
    "The GPU time that this visit may use today is spent or too short for this run. Ask for fewer tokens, "
    "sign in to get more, or open a recorded run."
)
MOST_CHARACTERS = 400
OURS = ("eagle", "app")

_PATH = re.compile(r"(?<![\w/.:<])(?:~|[A-Za-z]:)?[\\/](?:[^\s'\"\\/,;)]+[\\/])+[^\s'\",;)]*")
_TOKEN = re.compile(r"\b(hf|sk|ghp|gho)_?-?[A-Za-z0-9_]{16,}")
_CREDENTIALS = re.compile(r"(?<=://)[^/\s@]+@")


def sentence(error: BaseException) -> str:
    """An error in one plain sentence; what nobody foresaw goes to the log, not to the visitor."""
    if is_out_of_memory(error):
        return NO_MEMORY
    if "quota" in str(getattr(error, "title", "")).lower():  # what the spaces package raises on ZeroGPU
        return NO_QUOTA
    text = str(error).strip()
    if text and is_ours(error):
        return public(text)
    LOG.error("a run failed", exc_info=error)
    return UNFORESEEN


def is_ours(error: BaseException) -> bool:
    """Whether this program wrote the message; another library's may hold anything."""
    return type(error).__module__.split(".")[0] in OURS


def public(text: str) -> str:
    """The first line of a message, without folders of this machine, tokens and credentials."""
    line = next(iter(text.strip().splitlines()), "")
    line = _CREDENTIALS.sub("", line)
    line = _TOKEN.sub("(a token)", line)
    return _PATH.sub(_last_part, line)[:MOST_CHARACTERS]


def _last_part(found: re.Match[str]) -> str:
    """A path shown by its last part alone."""
    return "…/" + re.split(r"[\\/]", found[0].rstrip("\\/."))[-1]


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, on the machine or on its GPU, by whatever name."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and ("out of memory" in text or "DefaultCPUAllocator" in text)


def give_memory_back(error: BaseException) -> None:
    """Lets go of what the failed run held: its frames keep every tensor alive as long as the error lives."""
    error.__traceback__ = error.__context__ = error.__cause__ = None
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.empty_cache()
