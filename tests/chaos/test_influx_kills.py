"""A collector that dies at the worst moments and an InfluxDB that is killed in mid-stream: in the
end it holds every reading once, and everything that follows from them."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from nexus.bench.local_influx import LocalInflux
from nexus.store.port import ANY, Page, Span
from nexus.telemetry.reading import READING_SCHEMA
from support.collectors import CollectorProcess
from support.confluent import admin_of, create_topic
from support.derived import expected_gpus, expected_latest, expected_rollup, same_rows
from support.etcd_stores import opened_at
from support.fixtures import MakeBroker
from support.influx import InfluxFilled, influx_server, new_database
from support.readings import NOON_US
from support.reckoning import WIDTHS, check_refused, same_tables
from support.sender import Sender
from support.waiting import wait_until

PARTITIONS = 3
TOPIC = "telemetry"
FEW = ("--trigger", "100ms", "--batch-size", "700")
AWAY_S = 60  # of the database, in mid-stream
ALL = Page(100_000)
ALWAYS = Span(-(2**62), 2**62)


@pytest.fixture
def server() -> Iterator[LocalInflux]:
    """One of its own, which is killed as the story goes."""
    with influx_server() as made:
        yield made


@pytest.mark.chaos
@pytest.mark.timeout(600)
def test_whatever_dies_every_reading_is_there_once(
    tmp_path: Path, make_broker: MakeBroker, server: LocalInflux, request: pytest.FixtureRequest
) -> None:
    broker = make_broker()
    create_topic(admin_of(broker.bootstrap), TOPIC, PARTITIONS)
    sender = Sender(broker.bootstrap, TOPIC, PARTITIONS, seed=7, start_us=NOON_US)
    sender.scrapes(20)
    url = new_database(server, "kills")

    def collector(number: int, *flags: str, die: str = "") -> CollectorProcess:
        made = CollectorProcess(
            tmp_path / f"collector-{number}",
            f"kafka://{broker.bootstrap}/{TOPIC}",
            url,
            flags,
            data_dir=tmp_path / "data",
            die=die,
        )
        request.addfinalizer(made.kill_all)
        return made.start()

    first = collector(0, *FEW, die="before commit 2")
    assert first.wait() == -signal.SIGKILL, first.told()  # points are there, and no commit
    first.wait_gone()

    second = collector(1, *FEW, die="after commit 1")
    assert second.wait() == -signal.SIGKILL, second.told()  # committed, and Spark does not know
    second.wait_gone()

    sender.scrapes(20)
    sender.stop()
    third = collector(2, "--available-now", "--batch-size", "1000")
    third.wait_line(lambda line: bool(line["readings"]), "a batch")
    for away_s in (AWAY_S, 0):
        server.kill()
        wait_until(lambda: any(s["problem"] for s in third.last()["stores"]), within=90)
        time.sleep(away_s)
        server.start()
        wait_until(lambda: not any(s["problem"] for s in third.last()["stores"]), within=90)
    assert third.wait() == 0, third.told()
    assert max(line["stores"][0]["replayed"] for line in third.lines()) == 1, "what Spark forgot"
    check_database(url, sender)


def check_database(url: str, sender: Sender) -> None:
    """Every reading sent is there once, with its values, and everything follows from that."""
    with opened_at(url) as opened:
        view = opened.snapshot()
        readings = view.readings(ANY, ALWAYS, ALL)
        same_tables(readings, sender.expected())
        check_refused(view.quarantine(ALWAYS, (), ALL), sender.refused)
        same_rows(view.latest(ANY, ALL), expected_latest(readings), "latest")
        gpus = view.gpus(ANY, (), ALL).drop_columns(["state", "busy"])
        same_rows(gpus, expected_gpus(readings), "gpus")
    newest = max(readings.column("timestamp").cast(pa.int64()).to_pylist())
    with InfluxFilled(url) as store:
        for name, width in WIDTHS.items():
            closed_us = newest - newest % width + width
            assert store.state.rolled[name][0] >= closed_us
            same_rows(store.table(name), expected_rollup(readings, width, closed_us), name)
        same_tables(store.table("readings").select(READING_SCHEMA.names), readings)
