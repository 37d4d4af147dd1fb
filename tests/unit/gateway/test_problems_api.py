"""What is wrong is said: which parameter, why, and what would have been right."""

from __future__ import annotations

import pytest

from support.gateways import Client

TELEMETRY = "/api/v1/telemetry"


@pytest.mark.parametrize(
    ("path", "parameter", "said"),
    [
        ("/api/v1/gpus?limt=5", "limt", "did you mean limit?"),
        ("/api/v1/gpus?hostnam=x", "hostnam", "did you mean hostname?"),
        ("/api/v1/gpus?%27%3B--=x", "';--", "it takes"),
        ("/api/v1/clusters/c1?limit=1", "limit", "it takes none"),
        ("/health?x=1", "x", "it takes none"),
        ("/api/v1/gpus?limit=0", "limit", "greater than or equal to 1"),
        ("/api/v1/gpus?limit=10001", "limit", "less than or equal to 10000"),
        ("/api/v1/gpus?limit=ten", "limit", "integer"),
        ("/api/v1/gpus?limit=1&limit=2", "limit", "given twice"),
        ("/api/v1/gpus?limit=", "limit", "integer"),
        ("/api/v1/gpus?state=sleeping", "state", "'idle-held'"),
        ("/api/v1/gpus?cursor=x", "cursor", "damaged"),
        ("/api/v1/gpus?host=a%00b", "host", "NUL"),
        (f"/api/v1/gpus?host={'x' * 257}", "host", "at most 256"),
        (f"/api/v1/gpus?host={'x,' * 101}", "host", "at most 100"),
        (f"{TELEMETRY}?start_time=yesterday", "start_time", "now-15m"),
        (f"{TELEMETRY}?end_time=2025-13-01T00:00:00Z", "end_time", "month must be in 1..12"),
        (f"{TELEMETRY}?start_time=now&end_time=now-1h", "start_time", "after end_time"),
        (f"{TELEMETRY}?resolution=7s", "resolution", "'10s'"),
        (f"{TELEMETRY}?max_points=0", "max_points", "greater than or equal to 1"),
        (f"{TELEMETRY}?order=up", "order", "'asc' or 'desc'"),
        (f"{TELEMETRY}?units=imperial", "units", "'canonical' or 'dcgm'"),
        (f"{TELEMETRY}?layout=round", "layout", "'rows' or 'columns'"),
        (f"{TELEMETRY}/summary?by=colour", "by", "expected cluster"),
        ("/api/v1/quarantine?limit=1001", "limit", "less than or equal to 1000"),
        ("/api/v1/live?interval=5", "interval", "500ms"),
    ],
)
def test_a_wrong_parameter_is_named(client: Client, path: str, parameter: str, said: str) -> None:
    found = client.problem(path)
    assert found["status"] == 400
    assert found["type"] == "urn:nexus:problem:bad-parameter"
    assert parameter in [fault["parameter"] for fault in found["errors"]]
    assert said in found["detail"]
    assert found["instance"] == path.partition("?")[0]


def test_every_wrong_parameter_is_named_at_once(client: Client) -> None:
    found = client.problem(f"{TELEMETRY}?limit=0&order=up&colour=red")
    assert {fault["parameter"] for fault in found["errors"]} == {"limit", "order", "colour"}


@pytest.mark.parametrize(
    "text",
    [
        "'; DROP TABLE readings; --",
        "' OR 1=1 --",
        "%",
        "_",
        "../../etc/passwd",
        "<script>alert(1)</script>",
        "\N{PILE OF POO}\u202e",
        "\ud7ff\r\nSet-Cookie: a=b",
        "{{7*7}}",
        "*",
    ],
)
def test_hostile_text_is_only_text(client: Client, text: str) -> None:
    for parameter in ("uuid", "host", "cluster", "model", "namespace", "pod", "gpu", "metric"):
        params = {parameter: text}
        found = client.json(TELEMETRY, start_time="0", **params)
        assert found["data"] == []
    assert client.json("/api/v1/quarantine", reason=text)["data"] == []
    for path in ("/api/v1/gpus/", "/api/v1/clusters/", "/api/v1/clusters/c1/hosts/h1/gpus/"):
        response = client.get(path + _escaped(text))
        assert response.status_code == 404
        assert "set-cookie" not in response.headers
        assert response.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(client: Client, method: str) -> None:
    for path in ("/api/v1/gpus", "/health", "/nowhere"):
        response = client.request(method, path)
        assert response.status_code == 405
        assert response.headers["allow"] == "GET, HEAD"
        assert response.headers["content-type"] == "application/problem+json"


def test_unknown_paths_are_problems_too(client: Client) -> None:
    for path in ("/api/v1/nothing", "/api/v2/gpus", "/nowhere", "/api/v1/gpus/"):
        assert client.problem(path)["status"] == 404


def test_a_form_that_there_is_not_is_refused(client: Client) -> None:
    for path in ("/api/v1/gpus", "/api/v1/queue", "/api/v1/live", "/api/v1/clusters/c1"):
        response = client.get(path, {"Accept": "application/pdf"})
        assert response.status_code == 406
        assert response.headers["content-type"] == "application/problem+json"
    assert client.get("/api/v1/clusters/c1", {"Accept": "text/csv"}).status_code == 406


def test_without_a_queue_there_is_nothing_to_say_of_it(client: Client) -> None:
    for path in ("/api/v1/queue", "/api/v1/live"):
        found = client.problem(path)
        assert (found["status"], found["detail"]) == (
            404,
            "the gateway was started without --queue",
        )


def _escaped(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())
