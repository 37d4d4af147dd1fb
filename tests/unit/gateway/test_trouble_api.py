"""When the store is slow, away or broken, the client is told so, and when to come again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nexus.gateway.app import create_app
from nexus.gateway.gateway import build_gateway
from nexus.settings.gateway import GatewaySection
from nexus.store.errors import StoreAway, TooMuch, Unsupported
from nexus.store.port import Snapshot
from support.gateways import Client, Clients


class Troubled:
    """A store whose every snapshot does what a test wants; real ones are seldom in trouble."""

    def __init__(self, trouble: Callable[[], Any]) -> None:
        self._trouble = trouble

    def snapshot(self) -> Snapshot:
        self._trouble()
        raise AssertionError("the trouble must raise")

    def close(self) -> None:
        pass


@contextmanager
def troubled(folder: Path, trouble: Callable[[], Any], **settings: Any) -> Iterator[Clients]:
    gateway = build_gateway(GatewaySection(store=f"delta://{folder}", **settings))
    gateway.store.close()
    gateway.store = Troubled(trouble)
    with asyncio.Runner() as runner:
        yield Clients(create_app(gateway), runner)
        runner.run(gateway.stop())


def raising(error: Exception) -> Callable[[], None]:
    def trouble() -> None:
        raise error

    return trouble


@pytest.mark.parametrize(
    ("error", "status", "kind", "retry"),
    [
        (StoreAway("the bucket is gone"), 503, "store-away", "2"),
        (TooMuch("a year of readings"), 422, "too-much", None),
        (Unsupported("no percentiles here"), 501, "not-offered", None),
    ],
)
def test_a_store_in_trouble_is_told(
    tmp_path: Path, error: Exception, status: int, kind: str, retry: str | None
) -> None:
    with troubled(tmp_path, raising(error)) as client:
        response = client.get("/api/v1/gpus")
        assert response.status_code == status
        assert response.json()["type"] == f"urn:nexus:problem:{kind}"
        assert response.json()["detail"] == str(error)
        assert response.headers.get("retry-after") == retry
        assert client.get("/ready").status_code == status
        assert client.get("/health").status_code == 200


def test_what_nobody_thought_of_is_logged_and_not_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with troubled(tmp_path, raising(ZeroDivisionError("secret"))) as client:
        found = client.problem("/api/v1/gpus")
        assert client.get("/api/v1/gpus").headers["x-content-type-options"] == "nosniff"
        assert client.request("HEAD", "/api/v1/gpus").status_code == 500
    assert found["status"] == 500
    assert "secret" not in str(found)
    assert "a request failed" in caplog.text


def test_a_store_that_hangs_is_504_and_then_503(tmp_path: Path) -> None:
    gate = threading.Event()
    limits = {"workers": 1, "waiting": 1, "timeout_ms": 100}
    with troubled(tmp_path, gate.wait, **limits) as client:
        answers = client.at_once(["/api/v1/gpus"] * 4)
        assert sorted(answer.status_code for answer in answers) == [503, 503, 504, 504]
        refused = next(answer for answer in answers if answer.status_code == 503)
        assert refused.headers["retry-after"] == "1"
        assert refused.json()["type"] == "urn:nexus:problem:overloaded"
        late = next(answer for answer in answers if answer.status_code == 504)
        assert "0.1 s" in late.json()["detail"]
        gate.set()


def test_what_the_pipeline_says_stands_beside_the_tables(client: Client) -> None:
    found = client.json("/api/v1/pipeline")
    assert found["collector"]["url"] == "http://127.0.0.1:9466"
    (table,) = found["tables"]
    assert (table["name"], table["rows"]) == ("readings", 491)
    assert table["newest"] == "2025-07-18T12:00:00Z"
    assert set(found["rates"]) == {"readings_per_s", "batch_ms", "lag"}
