"""Whatever the proxy's description allows is answered as it says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from nexus.proxy.openapi import description_of
from nexus.proxy.table import ROUTES
from support.broker import BrokerProcess
from support.proxies import ProxyProcess

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


def described() -> dict[str, Any]:
    """The description without what has no end, for a few topics and short waits."""
    document: dict[str, Any] = json.loads(description_of(ROUTES))
    del document["paths"]["/consume"]
    # It has no way to make lines of JSON; tests of producing send them.
    del document["paths"]["/produce/batch"]["post"]["requestBody"]["content"][
        "application/x-ndjson"
    ]
    for path in document["paths"].values():
        for operation in path.values():
            for parameter in operation["parameters"]:
                if parameter["name"] == "topic":
                    parameter["schema"] = {"type": "string", "enum": ["one", "two"]}
                if parameter["name"] == "wait":
                    parameter["schema"] = {"type": "string", "enum": ["0s", "10ms"]}
                    parameter["required"] = True
                if parameter["name"] == "partition":
                    parameter["schema"] = {"type": "integer", "enum": [0, 11, 99]}
    return document


Case = schemathesis.Case[Any]
schema = schemathesis.openapi.from_dict(described())


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxyProcess]:
    folder = tmp_path_factory.mktemp("described-proxy")
    broker = BrokerProcess(folder / "broker")
    broker.start()
    process = ProxyProcess(folder / "proxy", broker.bootstrap)
    try:
        process.start()
        for topic in ("one", "two"):
            process.produce(topic, 1)
        yield process
        assert process.stop() == 0
        assert "Traceback" not in process.said
    finally:
        process.stop()
        broker.kill()


@schema.parametrize()
@settings(
    max_examples=8,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)
def test_every_answer_is_as_described(case: Case, proxy: ProxyProcess) -> None:
    case.call_and_validate(base_url=proxy.url, checks=CHECKS)
