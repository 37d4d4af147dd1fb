"""The API's description: current, complete, and in our own words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nexus.gateway.app import api
from nexus.gateway.description import describe
from nexus.gateway.openapi_file import description_text
from support.gateways import Client

FILE = Path(__file__).parents[3] / "docs" / "openapi.json"
ENDPOINTS = {
    "/health",
    "/ready",
    "/metrics",
    "/api/v1/gpus",
    "/api/v1/gpus/{uuid}",
    "/api/v1/gpus/{uuid}/telemetry",
    "/api/v1/telemetry",
    "/api/v1/telemetry/latest",
    "/api/v1/telemetry/summary",
    "/api/v1/clusters",
    "/api/v1/clusters/{cluster}",
    "/api/v1/clusters/{cluster}/stats",
    "/api/v1/clusters/{cluster}/metrics",
    "/api/v1/clusters/{cluster}/hosts",
    "/api/v1/clusters/{cluster}/hosts/{host}",
    "/api/v1/clusters/{cluster}/hosts/{host}/gpus",
    "/api/v1/clusters/{cluster}/hosts/{host}/gpus/{id}",
    "/api/v1/metrics",
    "/api/v1/quarantine",
    "/api/v1/pipeline",
    "/api/v1/queue",
    "/api/v1/live",
}


def operations() -> list[dict[str, Any]]:
    return [one for path in describe(api())["paths"].values() for one in path.values()]


def test_the_file_in_docs_is_current() -> None:
    assert FILE.read_bytes() == description_text(), "run `make openapi`"


def test_every_endpoint_is_described() -> None:
    assert set(describe(api())["paths"]) == ENDPOINTS


def test_every_parameter_says_what_it_is() -> None:
    silent = [
        (operation["operationId"], parameter["name"])
        for operation in operations()
        for parameter in operation.get("parameters", [])
        if not parameter.get("description")
    ]
    assert silent == []


def test_every_refusal_is_a_problem_document() -> None:
    for operation in operations():
        for status, response in operation["responses"].items():
            if int(status) >= 400:
                assert list(response["content"]) == ["application/problem+json"]
        assert {"400", "405"} <= set(operation["responses"])


def test_nothing_of_the_framework_shows() -> None:
    text = json.dumps(describe(api()))
    assert "HTTPValidationError" not in text
    assert "Successful Response" not in text


def test_the_gateway_tells_it_itself(client: Client) -> None:
    response = client.get("/openapi.json", {"Accept-Encoding": "gzip"})
    assert response.json() == json.loads(description_text())
    assert response.headers["content-encoding"] == "gzip"
