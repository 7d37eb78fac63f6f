"""HTTP bodies and queries that no page would send: answered, without a traceback or a file of the server."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from app.gallery import Gallery
from tests.hostile import RUN, SECONDS
from tests.serving import answer, serving

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("traces")
    (folder / "first.json").write_text(RUN.to_json())
    with serving(gallery=Gallery(folder)) as address:
        yield address


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[httpx.Client]:
    """One for all: a new one would read the machine's certificates each time."""
    limits = httpx.Limits(max_keepalive_connections=0)  # the server hangs up after some of these bodies
    with httpx.Client(base_url=url, timeout=SECONDS, verify=False, limits=limits) as made:
        yield made


BODIES = [
    b"",
    b"{",
    b"null",
    b"[]",
    b'{"data": null}',
    b'{"data": []}',
    b'{"data": [[[[[]]]]]}',
    b'{"data": ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"]}',
    b'{"data": {"prompt": "a"}}',
    b'{"data": [1e999]}',
    b'{"data": [' + b"9" * 5000 + b"]}",
    b'{"data": ' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    b'{"data": ["\\ud800"]}',
    b'{"data": ["a"], "session_hash": {"a": 1}}',
    b'{"data": [{"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}}]}',
    b"\xff\xfe",
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: repr(body[:24]))
@pytest.mark.parametrize("place", ["call/generate", "call/law", "call/v2/audit", "queue/join", "run/predict"])
def test_any_body_is_answered_without_a_traceback(client: httpx.Client, place: str, body: bytes) -> None:
    answered = client.post(f"/gradio_api/{place}", content=body, headers={"Content-Type": "application/json"})
    told = answered.text
    if answered.status_code == 200 and place.startswith("call") and "event_id" in answered.json():
        told += client.get(f"/gradio_api/{place.replace('v2/', '')}/{answered.json()['event_id']}").text
    assert "Traceback" not in told
    assert "site-packages" not in told
    assert "root:" not in told


@pytest.mark.parametrize(
    "query", ["?run=" + "a" * 5000, "?run=%00&step=%ff", "?lab.p=<script>&view=%ud800", "?__theme=x"]
)
def test_any_query_of_the_page_gets_the_page(client: httpx.Client, query: str) -> None:
    answered = client.get(f"/{query}")
    assert answered.status_code == 200
    assert "<script>&view" not in answered.text


def test_the_page_still_answers_after_all_of_this(url: str) -> None:
    assert answer(url, "law", {"target": [0.51, 0.49]})["total_variation"] == pytest.approx(0, abs=1e-12)
    made = answer(url, "generate", {"prompt": "Hi", "seed": 3, "max_new_tokens": 5, "tree": "2/2/2"})
    assert made["new_tokens"] == 5
