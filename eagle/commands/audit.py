"""``python -m eagle audit``: re-derives every verdict of a recorded run."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("audit", help="re-derive every verdict of a recorded run")
    parser.add_argument("trace", type=Path, nargs="+", help="trace files (JSON)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """0 when every file holds, 1 when one has a fault, 2 when one can not be read."""
    from eagle.audit import audit_file

    return max(audit_file(path) for path in args.trace)
