"""Whatever the API's description allows is answered as it says, and never with a 5xx."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from nexus.gateway.app import api
from nexus.gateway.description import describe
from support.gateways import GatewayProcess, just_now, store_readings
from support.readings import fleet

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
READINGS = just_now(fleet(60, gpus=8))
UUIDS = READINGS.column("uuid").to_pylist()
# What paths may name here: things that are there, by every kind of id, and one that is not.
NAMES = {
    "uuid": [UUIDS[0], UUIDS[1][:12], "nobody"],
    "cluster": ["local-cluster", "nobody"],
    "host": ["dgx-000.cluster.internal", "nobody"],
    "id": [*map(str, range(8)), UUIDS[0], UUIDS[3][:12], "nobody"],
}


def described() -> dict[str, Any]:
    document = describe(api())
    for path in document["paths"].values():
        for parameter in path["get"].get("parameters", []):
            if parameter["in"] == "path":
                parameter["schema"]["enum"] = NAMES[parameter["name"]]
    return document


Case = schemathesis.Case[Any]
schema = schemathesis.openapi.from_dict(described())


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    folder: Path = tmp_path_factory.mktemp("described")
    store_readings(folder / "tables", READINGS)
    process = GatewayProcess(folder, folder / "tables").start()
    yield process
    assert process.stop() == 0
    assert "Traceback" not in process.stderr


@schema.parametrize()
@settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_every_answer_is_as_described(case: Case, gateway: GatewayProcess) -> None:
    response = case.call(base_url=gateway.url, timeout=20)
    case.validate_response(response, checks=CHECKS)
