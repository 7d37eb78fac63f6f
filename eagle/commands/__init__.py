"""One module a command: ``add_parser(subparsers)`` declares it, ``run(args) -> int`` does it."""
