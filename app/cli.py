"""``python app.py --help``: how the demo is served. Each option has a variable, for Spaces and containers."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app import policy

DEFAULT_PORT = 7860
VARIABLES = """\
environment variables:
  GRADIO_SERVER_PORT, PORT   the port, where --port is left out
  GRADIO_SERVER_NAME         the address to listen on, where --host is left out
  EAGLE_MCP                  1 is --mcp
  EAGLE_CACHE                where the converted model is kept (1.3 GB while it is made, 0.6 GB after)
  EAGLE_THREADS              torch's threads; left out, this process's share of the machine
  EAGLE_MOST_WAITING         visitors who may wait for the model (16)
  EAGLE_RUNS_PER_MINUTE      live runs a minute and browser session (20)
  EAGLE_MOST_NEW_TOKENS      the longest run (512)
  EAGLE_REMEMBERED_MB        memory for finished runs that may be asked for again (32)
  EAGLE_LEASE_S              a run that nobody has asked a step of for so long is given up (10)
  EAGLE_TARGET, EAGLE_HEAD, EAGLE_WEIGHTS, EAGLE_DEVICE   as --target, --head, --weights, --device
  EAGLE_ALLOWED_MODELS       what --models says, where it is left out
"""


@dataclass(frozen=True)
class Serving:
    """How the demo is served."""

    port: int = DEFAULT_PORT
    host: str | None = None
    mcp: bool = False
    target: str | None = None
    head: str | None = None
    weights: str | None = None
    device: str | None = None
    models: str | None = None

    def variables(self) -> dict[str, str]:
        """What the rest of the page reads from the environment, as far as it was chosen here."""
        chosen = {
            "EAGLE_TARGET": self.target,
            "EAGLE_HEAD": self.head,
            "EAGLE_WEIGHTS": self.weights,
            "EAGLE_DEVICE": self.device,
            policy.VARIABLE: self.models,
        }
        return {name: value for name, value in chosen.items() if value is not None}

    def launch_options(self) -> dict[str, object]:
        """The same as arguments of ``demo.launch``."""
        options: dict[str, object] = {"server_port": self.port}
        if self.host:
            options["server_name"] = self.host
        if self.mcp:
            options["mcp_server"] = True
        return options


def parse(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> Serving:
    """The options, completed from the environment. Exits with one sentence for a bad one."""
    parser = argparse.ArgumentParser(
        prog="python app.py",
        description="Serves the demo: EAGLE-2 speculative decoding, step by step.",
        epilog=VARIABLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--port", help=f"the port to listen on (default {DEFAULT_PORT})")
    parser.add_argument("--host", help="the address to listen on (default 127.0.0.1; 0.0.0.0 is everywhere)")
    parser.add_argument("--target", help="folder or hub id of the target (default: the built-in one)")
    parser.add_argument("--head", help="folder or hub id of its draft head")
    parser.add_argument(
        "--weights", choices=["fp32", "int8"], help="8-bit weights on a CPU are another target"
    )
    parser.add_argument("--device", help="cpu, cuda, cuda:N, or auto: spread over all there is")
    parser.add_argument(
        "--models",
        metavar="IDS",
        help="pairs that visitors may load instead: hub ids with commas between, known-pairs or "
        "any-hub-model (default: known-pairs where only this machine reaches the page, else none)",
    )
    parser.add_argument(
        "--mcp",
        action="store_true",
        help="also serve the endpoints as MCP tools (needs the package 'mcp')",
    )
    chosen = parser.parse_args(arguments)
    port = (
        chosen.port or environment.get("GRADIO_SERVER_PORT") or environment.get("PORT") or str(DEFAULT_PORT)
    )
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        parser.error(f"the port must be a whole number from 1 to 65535, but is {port!r:.40}")
    mcp = chosen.mcp or environment.get("EAGLE_MCP", "").lower() in ("1", "true", "yes")
    if mcp and not has_mcp():
        parser.error("--mcp needs one more package: pip install 'mcp>=1.21,<2'")
    models = chosen.models
    if models is None and policy.VARIABLE not in environment and _is_local(chosen.host, environment):
        models = policy.KNOWN
    return Serving(
        int(port), chosen.host, mcp, chosen.target, chosen.head, chosen.weights, chosen.device, models
    )


def _is_local(host: str | None, environment: Mapping[str, str]) -> bool:
    """Whether only this machine reaches the page, so that visitor and operator are one."""
    address = host or environment.get("GRADIO_SERVER_NAME") or "127.0.0.1"
    return address in ("127.0.0.1", "localhost", "::1") and not environment.get("SPACE_ID")


def has_mcp() -> bool:
    """Whether the package that serves MCP is there."""
    import importlib.util

    return importlib.util.find_spec("mcp") is not None
