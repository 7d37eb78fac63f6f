"""Many visitors at once, on loopback, for a bounded time: ``python -m tests.load --help``."""
