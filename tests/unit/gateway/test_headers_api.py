"""What goes with an answer: caching, compression, security, HEAD."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.gateways import Client, asking, store_readings
from support.readings import NOON_US, readings

FIXED = "/api/v1/telemetry?start_time=2025-07-18T11:00:00Z&end_time=2025-07-18T12:00:00Z"
TAGGED = [
    "/api/v1/gpus",
    "/api/v1/gpus/GPU-00000000-aaaa",
    "/api/v1/clusters",
    "/api/v1/metrics",
    "/api/v1/telemetry/latest",
    FIXED,
]


@pytest.mark.parametrize("path", TAGGED)
def test_what_the_client_has_is_not_sent_again(client: Client, path: str) -> None:
    first = client.get(path)
    assert first.headers["cache-control"] == "private, no-cache"
    again = client.get(path, {"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]
    other = client.get(path, {"If-None-Match": '"something else"'})
    assert other.status_code == 200
    assert client.get(path, {"If-None-Match": first.headers["etag"], "Accept": "text/csv"})


def test_each_form_has_a_tag_of_its_own(client: Client) -> None:
    json, csv = (client.get(FIXED, {"Accept": a}) for a in ("application/json", "text/csv"))
    assert json.headers["etag"] != csv.headers["etag"]
    assert json.headers["vary"] == "Accept, Accept-Encoding"


def test_a_tag_changes_when_readings_arrive(tmp_path: Path) -> None:
    row = {"uuid": "GPU-1", "timestamp": NOON_US}
    store_readings(tmp_path, readings(row))
    path = "/api/v1/telemetry/latest"
    with asking(tmp_path, NOON_US / 1e6) as client:
        tag = client.get(path).headers["etag"]
        store_readings(tmp_path, readings({**row, "timestamp": NOON_US + 1}))
        answer = client.get(path, {"If-None-Match": tag})
        while answer.status_code == 304:  # the store looks four times a second
            answer = client.get(path, {"If-None-Match": tag})
        assert answer.json()["data"][0]["timestamp"] == "2025-07-18T12:00:00.000001Z"


@pytest.mark.parametrize(
    "path",
    ["/health", "/ready", "/metrics", "/api/v1/pipeline", "/api/v1/telemetry", "/api/v1/nothing"],
)
def test_what_is_of_this_moment_is_not_kept(client: Client, path: str) -> None:
    response = client.get(path)
    assert response.headers["cache-control"] == "no-store"
    assert "etag" not in response.headers


def test_large_answers_are_compressed_when_asked(client: Client) -> None:
    plain = client.get(FIXED, {"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    for said in ("gzip", "br, gzip;q=0.5", "*"):
        packed = client.get(FIXED, {"Accept-Encoding": said})
        assert packed.headers["content-encoding"] == "gzip"
        assert packed.json() == plain.json()
        assert int(packed.headers["content-length"]) < len(plain.content) / 4
    for said in ("gzip;q=0", "br", ""):
        assert "content-encoding" not in client.get(FIXED, {"Accept-Encoding": said}).headers
    small = client.get("/api/v1/clusters/c1", {"Accept-Encoding": "gzip"})
    assert "content-encoding" not in small.headers


@pytest.mark.parametrize("path", ["/", "/health", "/api/v1/gpus", "/api/v1/gpus?x=1", "/nowhere"])
def test_every_answer_has_security_headers(client: Client, path: str) -> None:
    headers = client.get(path).headers
    assert headers["content-security-policy"] == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
        " connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none';"
        " frame-ancestors 'none'"
    )
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "server" not in headers


@pytest.mark.parametrize("path", ["/", "/health", "/api/v1/gpus", FIXED, "/api/v1/gpus/nobody"])
def test_head_is_get_without_a_body(client: Client, path: str) -> None:
    get, head = client.get(path), client.request("HEAD", path)
    assert head.status_code == get.status_code
    assert head.content == b""
    same = ("content-type", "etag", "cache-control", "content-length")
    assert {n: head.headers.get(n) for n in same} == {n: get.headers.get(n) for n in same}


def test_requests_are_counted_by_route(client: Client) -> None:
    client.get("/api/v1/gpus/GPU-00000000-aaaa")
    client.request("HEAD", "/api/v1/gpus/GPU-00000000-aaaa")
    text = client.get("/metrics").text
    assert 'nexus_gateway_requests_total{route="/api/v1/gpus/{uuid}",status="200"}' in text
    assert 'nexus_gateway_request_seconds_bucket{le="0.1",route="/api/v1/gpus"}' in text
    assert "GPU-00000000" not in text
    assert 'nexus_gateway_questions{state="waiting"} 0.0' in text


def test_every_metric_is_on_the_apis_page(client: Client) -> None:
    page = (Path(__file__).parents[3] / "docs" / "api.md").read_text()
    names = re.findall(r"# TYPE (nexus_\w+) ", client.get("/metrics").text)
    assert len(names) >= 4
    assert [name for name in names if f"`{name.removesuffix('_total')}`" not in page] == []


# The dashboard


@pytest.fixture(scope="module")
def built(tables: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("built")
    static = folder / "static"
    (static / "assets").mkdir(parents=True)
    (static / "index.html").write_text("<!doctype html><title>built</title>")
    (static / "assets" / "index-a1b2c3.js").write_text("x" * 5000)
    (static / ".secret").write_text("no")
    (folder / "outside.txt").write_text("no")
    with asking(tables, NOON_US / 1e6, static=static) as client:
        yield client


@pytest.mark.parametrize("path", ["/", "/fleet", "/host/h1", "/gpu/GPU-1?a=b", "/pipeline"])
def test_the_page_answers_for_the_views_it_makes(built: Client, path: str) -> None:
    response = built.get(path)
    assert (response.status_code, response.text) == (200, "<!doctype html><title>built</title>")
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert response.headers["cache-control"] == "private, no-cache"
    assert built.get(path, {"If-None-Match": response.headers["etag"]}).status_code == 304


def test_hashed_files_may_be_kept_for_ever(built: Client) -> None:
    response = built.get("/assets/index-a1b2c3.js", {"Accept-Encoding": "gzip"})
    assert response.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert response.headers["content-type"] == "text/javascript; charset=utf-8"
    assert response.headers["content-encoding"] == "gzip"
    assert response.text == "x" * 5000


@pytest.mark.parametrize(
    "path",
    [
        "/../outside.txt",
        "/%2e%2e/outside.txt",
        "/assets/../../outside.txt",
        "/assets/%2e%2e%2f%2e%2e%2foutside.txt",
        "//etc/passwd",
        "/.secret",
        "/assets",
        "/assets/index-zzzzzz.js",
    ],
)
def test_nothing_else_is_ever_sent(built: Client, path: str) -> None:
    assert built.get(path).status_code == 404


def test_a_dashboard_that_is_not_built_says_how(tables: Path, tmp_path: Path) -> None:
    with asking(tables, NOON_US / 1e6, static=tmp_path / "none") as client:
        response = client.get("/")
        assert response.status_code == 200
        assert "make web" in response.text
        assert client.get("/openapi.json").json()["info"]["title"] == "Nexus"
        (tmp_path / "none").mkdir()
        (tmp_path / "none" / "index.html").write_text("built at last")
        assert client.get("/").text == "built at last"


def test_compression_is_gzip_indeed(client: Client) -> None:
    from nexus.gateway.replies import gzipped

    assert gzip.decompress(gzipped(b"abc" * 1000)) == b"abc" * 1000
