"""The gateway over any store: to a client it is the gateway over Delta tables."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from nexus.gateway.app import create_app
from nexus.gateway.gateway import build_gateway
from nexus.settings.gateway import GatewaySection
from nexus.store.etcd import parts, store
from nexus.store.influx import reading as influx_reading
from nexus.store.postgres import asking as postgres_asking
from nexus.telemetry.normalise import normalise
from nexus.telemetry.reading import plain
from support import influx
from support.etcd import EtcdMember
from support.etcd_stores import EtcdFilled
from support.gateways import Client, store_readings
from support.postgres import PostgresFilled, new_database
from support.readings import NOON_US, readings

MINUTE = 60_000_000
NOW_S = NOON_US / 1_000_000 + 60
BUSY = {"uuid": "GPU-00000000-aaaa", "gpu": "0", "device": "nvidia0", "hostname": "h1"}
BUSY |= {"cluster": "c1", "model": "NVIDIA H200", "namespace": "team-a", "pod": "train-0"}
FREE = {"uuid": "GPU-00000001-aaaa", "gpu": "1", "hostname": "h1", "cluster": "c1"}
SLICE = {"uuid": "GPU-00000010-aaaa", "hostname": "h/3", "cluster": "c2", "mig": "1"}
SPAN = "start_time=2025-07-18T11:00:00Z&end_time=2025-07-18T12:00:00Z"

ASKED = [
    "/api/v1/gpus",
    "/api/v1/gpus?state=active",
    "/api/v1/gpus?limit=2",
    "/api/v1/gpus?cluster=c1&hostname=h1",
    "/api/v1/gpus/GPU-00000000-aaaa",
    "/api/v1/gpus/GPU-00000010",
    f"/api/v1/gpus/GPU-00000000-aaaa/telemetry?{SPAN}&resolution=raw&limit=7",
    f"/api/v1/gpus/GPU-00000000-aaaa/telemetry?{SPAN}&resolution=raw&order=desc&limit=7",
    f"/api/v1/gpus/GPU-00000000-aaaa/telemetry?{SPAN}&resolution=5m&metric=power",
    "/api/v1/gpus/GPU-00000000-aaaa/telemetry?start_time=now-10m",
    f"/api/v1/telemetry?{SPAN}&resolution=1m&metric=DCGM_FI_DEV_GPU_UTIL",
    f"/api/v1/telemetry?{SPAN}&layout=columns&metric=power",
    f"/api/v1/telemetry?{SPAN}&layout=columns&by=hostname",
    f"/api/v1/telemetry/summary?{SPAN}&by=uuid",
    f"/api/v1/telemetry/summary?{SPAN}&by=cluster&units=dcgm",
    "/api/v1/telemetry/latest",
    "/api/v1/telemetry/latest?metric=power&layout=columns",
    "/api/v1/telemetry/latest?since=now-15m&hostname=h1",
    "/api/v1/clusters",
    "/api/v1/clusters/c1",
    "/api/v1/clusters/c1/stats",
    "/api/v1/clusters/c1/hosts",
    "/api/v1/clusters/c1/hosts/h1",
    "/api/v1/clusters/c1/hosts/h1/gpus",
    "/api/v1/clusters/c1/hosts/h1/gpus/1",
    "/api/v1/clusters/c1/metrics",
    "/api/v1/metrics",
    "/api/v1/quarantine",
]


class Both(NamedTuple):
    """Clients of two gateways with the same readings behind them."""

    delta: Client
    other: Client


def rows() -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for minute in range(55, -1, -1):
        at = {"timestamp": NOON_US - minute * MINUTE}
        for who, percent in ((BUSY, 90.0), (FREE, 0.0), (SLICE, 50.0)):
            util = {"source_metric": "DCGM_FI_DEV_GPU_UTIL", "source_value": percent}
            power = {"source_metric": "DCGM_FI_DEV_POWER_USAGE", "source_value": 100.0 + minute}
            made += [{**who, **at, **util}, {**who, **at, **power}]
    made.append({**FREE, "timestamp": NOON_US - 30 * MINUTE, "source_value": 7.0})
    return made


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdFilled]:
    member = EtcdMember(tmp_path_factory.mktemp("etcd")).start()
    with EtcdFilled(member, "/telemetry") as made:
        made.add(plain(normalise(readings(*rows()))))
        yield made
    member.kill()


@pytest.fixture(scope="module")
def delta(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("gateway") / "tables"
    store_readings(folder, readings(*rows()))
    with asking(f"delta://{folder}") as client:
        yield client


@pytest.fixture(scope="module", params=["etcd", "postgres", "influx"])
def both(request: pytest.FixtureRequest, delta: Client) -> Iterator[Both]:
    """A gateway over Delta tables, and one over a store of another kind."""
    if request.param == "etcd":
        with asking(request.getfixturevalue("filled").url) as client:
            yield Both(delta, client)
        return
    store: PostgresFilled | influx.InfluxFilled
    if request.param == "influx":
        store = influx.InfluxFilled(influx.new_database(request.getfixturevalue("influx"), "api"))
    else:
        store = PostgresFilled(new_database(request.getfixturevalue("postgres"), "gateway"))
    with store:
        store.add(plain(normalise(readings(*rows()))))
        with asking(store.url) as client:
            yield Both(delta, client)


@contextmanager
def asking(url: str, **settings: Any) -> Iterator[Client]:
    """A client of a gateway over a store, in this process and at a fixed time."""
    gateway = build_gateway(GatewaySection(store=url, **settings), clock=lambda: NOW_S)
    with asyncio.Runner() as runner:
        runner.run(gateway.start())
        try:
            yield Client(create_app(gateway), runner)
        finally:
            runner.run(gateway.stop())


@pytest.mark.parametrize("path", ASKED)
def test_a_client_sees_the_same_answers(both: Both, path: str) -> None:
    wanted, found = both.delta.get(path), both.other.get(path)
    assert (wanted.status_code, found.status_code) == (200, 200), found.text
    assert found.json() == wanted.json()
    assert ("link" in found.headers) == ("link" in wanted.headers)


def test_pages_hold_each_reading_once(both: Both) -> None:
    path = f"/api/v1/telemetry?{SPAN}&resolution=raw&limit=60"
    found: list[Any] = []
    page = both.other.json(path)
    found += page["data"]
    while page["next_cursor"]:
        page = both.other.json(f"{path}&cursor={page['next_cursor']}")
        found += page["data"]
    assert found == both.delta.json(f"/api/v1/telemetry?{SPAN}&resolution=raw&limit=10000")["data"]
    assert len(found) == len(rows())


def test_problems_are_the_same(both: Both) -> None:
    for path in (
        "/api/v1/gpus/GPU-0000",
        "/api/v1/gpus/GPU-00000",
        "/api/v1/gpus/GPU-9999999999",
        "/api/v1/clusters/nowhere",
        f"/api/v1/telemetry/summary?{SPAN}&by=value",
        "/api/v1/gpus?cursor=x",
    ):
        assert both.other.problem(path) == both.delta.problem(path)


def test_tags_hold_until_something_is_stored(both: Both, filled: EtcdFilled) -> None:
    path = f"/api/v1/gpus/GPU-00000000-aaaa/telemetry?{SPAN}&resolution=raw"
    first = both.other.get(path)
    filled.client.put(b"/telemetry/queue/c1/0/x", b"of the queue beside it")
    tag = {"if-none-match": first.headers["etag"]}
    assert both.other.get(path, tag).status_code == 304


def test_what_would_take_too_long_is_a_problem_that_says_so(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "ROWS_MAX", 10)
    monkeypatch.setattr(postgres_asking, "ROWS_MAX", 10)
    monkeypatch.setattr(influx_reading, "ROWS_MAX", 10)
    problem = both.other.problem(f"/api/v1/telemetry/summary?{SPAN}")
    assert (problem["status"], problem["type"]) == (422, "urn:nexus:problem:too-much")
    assert "less time" in problem["detail"]


def test_the_pipeline_page_tells_what_the_store_holds(both: Both) -> None:
    tables = {row["name"]: row for row in both.other.json("/api/v1/pipeline")["tables"]}
    assert tables["readings"]["rows"] == len(rows())
    assert tables["gpus"]["rows"] == 3
    assert both.other.json("/ready")["tables"].keys() == tables.keys()


@pytest.mark.parametrize(
    "url",
    [
        "etcd://127.0.0.1:1/telemetry",
        "postgresql://nobody@127.0.0.1:1/telemetry",
        "influxdb://127.0.0.1:1/telemetry",
    ],
)
def test_a_gateway_starts_before_its_store_and_says_that_it_is_away(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setattr(store, "TIMEOUT_S", 0.3)
    with asking(url) as client:
        problem = client.problem("/api/v1/gpus")
        assert (problem["status"], problem["type"]) == (503, "urn:nexus:problem:store-away")
        assert f"store {url}" in problem["detail"]
        assert client.get("/ready").status_code == 503
