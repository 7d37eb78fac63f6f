"""The embedded run: read-only, with no script but this server's. And no file of the server is served."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from app.gallery import Gallery
from tests.serving import serving
from tests.synthetic import HOSTILE, synthetic_run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Gallery:
    folder = tmp_path_factory.mktemp("traces")
    for name, labels in (("first", None), ("hostile", HOSTILE)):
        run = synthetic_run(seed=3, steps=8, labels=labels) if labels else synthetic_run(seed=3, steps=8)
        (folder / f"{name}.json").write_text(run.to_json())
    return Gallery(folder)


@pytest.fixture(scope="module")
def url(gallery: Gallery) -> Iterator[str]:
    with serving(gallery=gallery) as address:
        yield address


@pytest.mark.parametrize(
    "path",
    ["app.py", "README.md", "assets/prompts.jsonl", "/etc/passwd", "../../../../etc/passwd", "%2e%2e/app.py"],
)
def test_no_file_of_the_server_is_served(url: str, path: str) -> None:
    assert httpx.get(f"{url}/gradio_api/file={path}").status_code in (403, 404)


def test_an_embedded_run_is_a_page_of_its_own_with_no_script_but_this_servers(url: str) -> None:
    page = httpx.get(f"{url}/gradio_api/embed", params={"run": "first", "step": "2"})
    assert page.status_code == 200
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "frame-ancestors *" in policy
    assert "<script>" not in page.text
    sources = {part.split('"')[0] for part in page.text.split('<script src="')[1:]}
    assert len(sources) == 2
    for source in sources:
        assert httpx.get(f"{url}/gradio_api/{source}").status_code == 200


def test_a_click_in_an_embedded_run_is_an_event_on_what_the_address_names(url: str) -> None:
    def ask(**query: str) -> Any:
        return httpx.get(f"{url}/gradio_api/embed/state", params=query).json()

    first = ask(run="first", step="2")
    assert first["query"]["step"] == "2"
    assert ask(**first["query"], act="by", by="1")["query"]["step"] == "3"
    assert ask(**first["query"], act="view", **{"on.view": "draft"})["query"]["view"] == "draft"
    assert ask(**first["query"], act="node", **{"on.node": "1"})["query"]["node"] == "1"
    told = ask(**first["query"], act="story", by="1")
    assert told["query"]["shown"] == "1"
    assert ask(**told["query"], act="story", by="1")["query"]["shown"] == "2"
    cut = ask(run="first", step="2", view="draft", act="cut")
    assert cut["query"]["cut"] == "1"
    assert cut["hidden"] == []
    assert first["hidden"] == ["candidates"]


def test_hostile_tokens_and_queries_stay_text_in_an_embedded_run(url: str) -> None:
    bad = "<script>alert(1)</script>"
    page = httpx.get(
        f"{url}/gradio_api/embed",
        params={"run": "hostile", "step": bad, "node": bad, "view": bad, "theme": bad},
    )
    assert page.status_code == 200
    assert bad not in page.text
    assert httpx.get(f"{url}/gradio_api/embed", params={"run": bad}).text.count("<script") == 3
    markup = "".join(httpx.get(f"{url}/gradio_api/embed/state?run=hostile").json()["markup"].values())
    assert "<script" not in markup
    assert "<img" not in markup
