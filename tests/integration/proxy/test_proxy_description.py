"""Whatever the proxy's description allows is answered as it says."""

from __future__ import annotations

import json
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
from support.proxies import Proxies

TOPICS = ("described-1", "described-2")
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
                    parameter["schema"] = {"type": "string", "enum": list(TOPICS)}
                if parameter["name"] == "wait":
                    parameter["schema"] = {"type": "string", "enum": ["0s", "10ms"]}
                    parameter["required"] = True
                if parameter["name"] == "partition":
                    parameter["schema"] = {"type": "integer", "enum": [0, 11, 99]}
    return document


Case = schemathesis.Case[Any]
schema = schemathesis.openapi.from_dict(described())


@pytest.fixture(scope="module", autouse=True)
def topics(proxies: Proxies) -> None:
    for topic in TOPICS:
        proxies[0].produce(topic, 1)


@schema.parametrize()
@settings(
    max_examples=8,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)
def test_every_answer_is_as_described(case: Case, proxies: Proxies) -> None:
    case.call_and_validate(base_url=proxies[0].url, checks=CHECKS)
