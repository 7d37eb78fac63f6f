"""What a hosted Space asks for: GPU work in decorated functions, storage, and models a visitor may name.

Without the ``spaces`` package, or on a Space with a GPU or CPU of its own, :func:`gpu` changes nothing
and a run is decoded in this process. On ZeroGPU a GPU exists only inside a decorated function, which
runs in a process of its own: arguments and yields are pickled, and that process loads the pair onto
its GPU when it first needs it. This process keeps a pair on the CPU and never touches CUDA.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from eagle.settings import Method, Settings
from eagle.trace import PairInfo, PromptTrace, StepTrace

if TYPE_CHECKING:
    from eagle.decoder import Pair

PERSISTENT = Path("/data")  # where a storage bucket is usually attached to a Space
CACHE_VARIABLE = "EAGLE_CACHE"
SHORTEST_S, LONGEST_S = 15, 120
LOADING_S = 12.0  # what a fresh GPU process spends before its first step
TOKEN_S = 0.03  # a token of plain decoding on a GPU; a step of a tree costs about two
PROMPT_TOKEN_S = 0.0005

Function = TypeVar("Function", bound=Callable[..., Any])


def is_space(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this runs on a Space."""
    return bool(environment.get("SPACE_ID"))


def is_zero_gpu(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this Space's GPU exists only inside decorated functions."""
    wanted = environment.get("SPACES_ZERO_GPU", "").lower() in ("1", "t", "true")
    return wanted and importlib.util.find_spec("spaces") is not None


def gpu(duration: Callable[..., float]) -> Callable[[Function], Function]:
    """``spaces.GPU`` with a duration worked out from the arguments; without ZeroGPU the function itself."""

    def decorate(function: Function) -> Function:
        if not is_zero_gpu():
            return function
        import spaces

        return spaces.GPU(duration=duration)(function)

    return decorate


def seconds_for(prompt: PromptTrace, settings: Settings) -> int:
    """The GPU seconds to ask for: enough for the run if every token takes a step, shorter queues sooner."""
    per_token = TOKEN_S if settings.method is Method.VANILLA else 2 * TOKEN_S
    wanted = LOADING_S + PROMPT_TOKEN_S * len(prompt.token) + per_token * settings.max_new_tokens
    return int(min(max(wanted, SHORTEST_S), LONGEST_S))


@cache
def _pair_of_this_process() -> Pair:
    """This server's own pair on this process's GPU; only a GPU process of ZeroGPU calls it."""
    import eagle
    from app import pair_choice

    own = pair_choice.first()
    return eagle.load(own.target, own.head, device="cuda")


def _on_gpu(prompt: PromptTrace, settings: Settings) -> Iterator[PairInfo | StepTrace]:
    """The pair that decodes here, then the steps of a run. Everything that crosses is a plain record."""
    from eagle.decoder import decode as steps

    pair = _pair_of_this_process()
    yield pair.info
    yield from steps(pair, prompt, settings)


decode_on_gpu = gpu(seconds_for)(_on_gpu)


def decode(pair: Pair, prompt: PromptTrace, settings: Settings) -> Iterator[PairInfo | StepTrace]:
    """The steps of a run, here or on ZeroGPU; there the pair that decodes comes first."""
    if is_zero_gpu():
        yield from decode_on_gpu(prompt, settings)
        return
    from eagle.decoder import decode as steps

    yield from steps(pair, prompt, settings)


def loading_device() -> str | None:
    """The device for this process's own pair: left to the loader, but never ZeroGPU's, which is not here."""
    return "cpu" if is_zero_gpu() else None


def prepare(environment: MutableMapping[str, str] = os.environ, storage: Path = PERSISTENT) -> None:
    """Settles what must be in the environment before the page's packages are imported.

    On a Space with storage attached, models are converted into it once and not at every restart. And
    gradio's summary of all events, which nobody here reads, is not worked out anew after each of them.
    """
    if is_space(environment) and CACHE_VARIABLE not in environment and is_writable(storage):
        environment[CACHE_VARIABLE] = str(storage / "eagle-step-by-step")
    environment.setdefault("GRADIO_ANALYTICS_MAX_EVENTS", "100")
    environment.setdefault("GRADIO_ANALYTICS_CACHE_FREQUENCY", "1000")


def is_writable(folder: Path) -> bool:
    """Whether files can be made in an existing folder."""
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
