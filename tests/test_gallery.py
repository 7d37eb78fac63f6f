"""Recorded runs and the plain decoding beside them: read, shown as a ratio, recorded in turns."""

from __future__ import annotations

from pathlib import Path

import pytest

from app import record
from app.gallery import PLAIN, Gallery
from app.library import first_visit, recorded_visit
from app.session import opening
from app.view import values
from eagle.settings import Method
from eagle.trace import RunTrace
from tests.synthetic import synthetic_run
from tests.tiny import tiny_pair


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / PLAIN).mkdir()
    for name in ("first", "other"):
        (tmp_path / f"{name}.json").write_text(synthetic_run(seed=3, steps=6).to_json())
    (tmp_path / PLAIN / "first.json").write_text(synthetic_run(seed=4, steps=9, tree="1/1/1").to_json())
    return tmp_path


def test_a_recorded_run_has_its_measured_ratio(folder: Path) -> None:
    gallery = Gallery(folder)
    assert gallery.names() == ["first", "other"]  # plain decoding is no run of the menu
    visit = first_visit(gallery)
    assert visit.baseline is not None
    ratio = (visit.run.tokens_per_s or 0) / (visit.baseline.tokens_per_s or 1)
    meters = values(visit, opening(visit.run))["meters"]
    assert f"{ratio:.3g}".lstrip("0") in meters
    other = recorded_visit(gallery, "other")
    assert other is not None
    assert "no vanilla run here" in values(other, opening(other.run))["meters"]
    assert recorded_visit(gallery, "nowhere") is recorded_visit(gallery, None) is None


def test_a_run_is_recorded_in_turns_with_plain_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    from eagle import decoder

    made: list[RunTrace] = []
    generate = decoder.generate

    def watched(*given: object) -> RunTrace:
        made.append(generate(*given))  # type: ignore[arg-type]
        return made[-1]

    monkeypatch.setattr(decoder, "generate", watched)
    recording = record._run("x", "A title", "Hi", temperature=0.7, seed=3, max_new_tokens=6, tree="8/3/3")
    run, plain = record.in_turns(tiny_pair(), recording, 3)
    assert [one.settings.method for one in made] == [Method.EAGLE2, Method.VANILLA] * 3
    assert run.title == plain.title == "A title"
    for kept, method in ((run, Method.EAGLE2), (plain, Method.VANILLA)):
        times = sorted(one.decode_ms for one in made if one.settings.method is method)
        assert kept.decode_ms == times[1]
    assert plain.new_tokens == run.new_tokens


def test_every_shipped_run_has_its_plain_decoding() -> None:
    gallery = Gallery()
    for name in gallery.names():
        run, plain = gallery.read(name), gallery.baseline(name)
        assert run is not None and plain is not None, name
        assert plain.settings.method is Method.VANILLA
        assert (plain.prompt.token, plain.seed) == (run.prompt.token, run.seed)
        assert plain.tokens_per_s and run.tokens_per_s
        assert plain.pair.target == run.pair.target
