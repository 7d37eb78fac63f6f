"""The command line: ``python -m eagle COMMAND --help``.

Exit codes: 0 done, 1 the answer is no (an audit that found a fault), 2 bad input, named in one
sentence, 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

COMMANDS = {
    "generate": "decode one prompt and print the answer",
    "bench": "measure methods against each other on this machine",
    "profile": "draw where the milliseconds of a step go",
    "eval": "measure how good a draft head is",
    "train": "corpus, fit, export: make a draft head",
    "audit": "re-derive every verdict of a recorded run",
}


def build_parser(command: str | None = None) -> argparse.ArgumentParser:
    """The parser; only the named command's module is imported, so that help is instant."""
    parser = argparse.ArgumentParser(prog="python -m eagle", description=__doc__.split("\n", maxsplit=1)[0])
    parser.set_defaults(run=None)
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, summary in COMMANDS.items():
        if name == command:
            import_module(f"eagle.commands.{name}").add_parser(subparsers)
        else:
            subparsers.add_parser(name, help=summary)
    return parser


def main(argv: list[str] | None = None) -> int:
    """Runs one command; errors that a user can mend become one sentence and exit code 2."""
    arguments = sys.argv[1:] if argv is None else argv
    command = next((word for word in arguments if word in COMMANDS), None)
    parser = build_parser(command)
    chosen = parser.parse_args(arguments)
    if chosen.run is None:
        parser.print_help()
        return 2
    try:
        return chosen.run(chosen)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 0
    except Exception as error:
        if not is_users_error(error):
            raise
        print(f"error: {error}", file=sys.stderr)
        return 2


def is_users_error(error: Exception) -> bool:
    """Whether the message is a plain sentence about input that was wrong, not a fault of the program."""
    kinds = {
        "LoadError",
        "NumericsError",
        "PromptError",
        "PromptFileError",
        "SettingsError",
        "TrainingError",
        "UsageError",
    }
    return any(kind.__name__ in kinds for kind in type(error).__mro__)


if __name__ == "__main__":
    sys.exit(main())
