"""Recorded real runs that the page can show without a model: ``assets/traces/*.json``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from eagle.trace import RunTrace

TRACES = Path(__file__).resolve().parent.parent / "assets" / "traces"
PLAIN = "plain"  # folder in it: plain decoding of the same prompts, timed in turns with them
FIRST = "first"  # the run of the first paint, where there is one of this name


@dataclass(frozen=True)
class Recorded:
    """One recorded run: its name in links, and what the menu says."""

    name: str
    title: str
    path: Path


class Gallery:
    """The recorded runs of a folder, read when asked for."""

    def __init__(self, folder: Path = TRACES) -> None:
        self._entries = {path.stem: path for path in sorted(folder.glob("*.json"))}
        self._titles: dict[str, str] = {}
        self._plain = {path.stem: path for path in (folder / PLAIN).glob("*.json")}
        self._baselines: dict[str, RunTrace] = {}
        self._runs: dict[str, RunTrace] = {}  # frozen, so every visitor may be shown the same

    def names(self) -> list[str]:
        """Names in menu order, the first paint's run first."""
        return sorted(self._entries, key=lambda name: (name != FIRST, name))

    def read(self, name: str) -> RunTrace | None:
        """The run, or None where no recorded run has this name."""
        path = self._entries.get(name)
        if path is not None and name not in self._runs:
            self._runs[name] = RunTrace.from_json(path.read_bytes())
        return self._runs.get(name)

    def baseline(self, name: str) -> RunTrace | None:
        """Plain decoding of the same prompt, recorded in turns with the run; None where there is none."""
        path = self._plain.get(name)
        if path is not None and name not in self._baselines:
            self._baselines[name] = RunTrace.from_json(path.read_bytes())
        return self._baselines.get(name)

    def menu(self) -> list[Recorded]:
        """What there is, with titles."""
        return [Recorded(name, self._title(name), self._entries[name]) for name in self.names()]

    def _title(self, name: str) -> str:
        if name not in self._titles:
            run = self.read(name)
            self._titles[name] = (run.title if run else None) or name
        return self._titles[name]
