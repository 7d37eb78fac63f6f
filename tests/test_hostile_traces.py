"""Trace files that are altered, hostile or none at all: shown literally, or refused in one sentence."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import api, files, session
from app.session import Source, Visit
from app.view import render
from tests.hostile import MARKUP, RUN, SECONDS, asked, examples, is_a_sentence, runs_nothing, values


def leaves(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of all values in a JSON object, the containers included."""
    if path:
        yield path
    if isinstance(data, dict):
        for key in data:
            yield from leaves(data[key], (*path, key))
    elif isinstance(data, list):
        for index in range(min(3, len(data))):
            yield from leaves(data[index], (*path, index))


TRACE = json.loads(RUN.to_json())
PLACES = list(leaves(TRACE))


def altered(place: tuple[Any, ...], value: Any, *, remove: bool) -> str:
    data = json.loads(RUN.to_json())
    holder = data
    for key in place[:-1]:
        holder = holder[key]
    if remove:
        del holder[place[-1]]
    else:
        holder[place[-1]] = value
    try:
        return json.dumps(data)
    except (ValueError, UnicodeEncodeError):
        return json.dumps(data, default=str)


def shown(path: Path, *, every_step: bool = False) -> None:
    """Imports a file as the page does; what is accepted must be drawn, and nothing in it may run."""
    try:
        run = files.import_trace(path).run
    except files.TraceFileError as error:
        is_a_sentence(str(error))
        return
    look = session.opening(run)
    looks = [session.to_step(run, look, step.index) for step in run.steps] if every_step else [look]
    for look in looks:
        for drawn in render(Visit(run, Source.IMPORTED), look).values():
            if isinstance(drawn, str):
                runs_nothing(drawn)


@examples(120)
@given(place=st.sampled_from(PLACES), value=values, remove=st.booleans())
def test_any_altered_trace_is_shown_or_refused_in_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, place: tuple[Any, ...], value: Any, remove: bool
) -> None:
    try:
        text = altered(place, value, remove=remove)
    except ValueError:  # a number with more digits than Python writes
        return
    path = tmp_path_factory.getbasetemp() / "altered.json"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    shown(path)
    asked(api.audit, text)


def test_markup_in_every_string_of_a_trace_stays_text(tmp_path: Path) -> None:
    def marked(data: Any, key: str = "") -> Any:
        if isinstance(data, dict):
            return {name: marked(item, name) for name, item in data.items()}
        if isinstance(data, list):
            return [marked(item, key) for item in data]
        free = key in (
            "text",
            "labels",
            "title",
            "name",
            "notes",
            "dtype",
            "weights",
            "device",
            "recorded_at",
        )
        inside_labels = isinstance(data, str) and (free or key.isdigit())
        return MARKUP[hash(str(data)) % len(MARKUP)] if inside_labels else data

    path = tmp_path / "marked.json"
    path.write_text(json.dumps(marked(TRACE)))
    files.import_trace(path)  # accepted
    shown(path, every_step=True)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00" * 100,
        b"\xff\xfe{}",
        b"[" * 10**6,
        b'{"a":' * 10**5,
        b'{"version": 1e999}',
        b'{"version": ' + b"9" * 5000 + b"}",
        b"\x1f\x8b\x08\x00" + b"\x00" * 1000,
        b"PK\x03\x04" + b"\x00" * 1000,
        b'{"version": 1, "version": 1}',
        json.dumps({"version": 1, "steps": [None] * 10**5}).encode(),
        b"{" + b" " * (files.MAX_BYTES + 1) + b"}",
    ],
    ids=lambda content: repr(content[:12]),
)
def test_a_file_that_is_no_trace_is_refused_soon(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(content)
    began = time.monotonic()
    with pytest.raises(files.TraceFileError) as caught:
        files.import_trace(path)
    is_a_sentence(str(caught.value))
    asked(api.audit, content.decode("latin-1")[: 10**6])
    assert time.monotonic() - began < SECONDS
