"""Two stores at once, of which PostgreSQL is away, crashes, and loses its collector at the worst
moments: the other goes on meanwhile, and in the end both hold every reading once."""

from __future__ import annotations

import json
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nexus.bench.local_postgres import LocalPostgres
from nexus.lake.url import parse_store_url
from support.collectors import CollectorProcess, Line
from support.confluent import admin_of, create_topic
from support.fixtures import MakeBroker
from support.postgres import check_database, postgres_server
from support.readings import NOON_US
from support.reckoning import check_store
from support.sender import Sender
from support.waiting import wait_until

PARTITIONS = 3
TOPIC = "telemetry"
FEW = ("--trigger", "100ms", "--batch-size", "700")
AWAY_S = 60  # of the database, in mid-stream


@pytest.fixture
def server() -> Iterator[LocalPostgres]:
    """One of its own, which is stopped as the story goes."""
    with postgres_server() as made:
        yield made


def of_store(line: Line, kind: str) -> Any:
    return next(store for store in line["stores"] if store["store"].startswith(kind))


def batches_of(line: Line, kind: str) -> int:
    number = of_store(line, kind)["batch"]
    return 0 if number is None else number + 1


@pytest.mark.chaos
@pytest.mark.timeout(600)
def test_a_store_that_is_away_or_loses_its_collector_gets_every_reading_once(
    tmp_path: Path,
    make_broker: MakeBroker,
    server: LocalPostgres,
    request: pytest.FixtureRequest,
) -> None:
    broker = make_broker()
    create_topic(admin_of(broker.bootstrap), TOPIC, PARTITIONS)
    sender = Sender(broker.bootstrap, TOPIC, PARTITIONS, seed=7, start_us=NOON_US)
    sender.scrapes(20)
    lake = parse_store_url(f"delta://{tmp_path}/lake")

    def collector(number: int, *flags: str, die: str = "") -> CollectorProcess:
        made = CollectorProcess(
            tmp_path / f"collector-{number}",
            f"kafka://{broker.bootstrap}/{TOPIC}",
            str(lake),
            ("--store", server.url(), *flags),
            data_dir=tmp_path / "data",
            die=die,
        )
        request.addfinalizer(made.kill_all)
        return made.start()

    # The database refuses connections when the collector starts: the lake gets its readings.
    server.stop()
    first = collector(0, *FEW, die="before merge 3")
    away = first.wait_line(
        lambda line: of_store(line, "delta")["batch"] and of_store(line, "postgres")["problem"],
        "the lake has batches and PostgreSQL has not",
    )
    assert of_store(away, "postgres")["batch"] is None
    health = asked(away["http"], "/health")
    assert health["status"] == "lagging"
    assert "refused" in health["stores"][of_store(away, "postgres")["store"]]
    metrics = asked_text(away["http"], "/metrics")
    assert f'nexus_collector_store_failing{{store="{server.url()}"}} 1' in metrics
    server.start()
    assert first.wait() == -signal.SIGKILL, first.told()  # staged, and not committed
    first.wait_gone()
    assert batches_of(first.last(), "postgres") >= 1, "it caught up by itself"

    second = collector(1, *FEW, die="after merge 1")
    assert second.wait() == -signal.SIGKILL, second.told()  # committed, and Spark does not know
    second.wait_gone()

    sender.scrapes(20)
    sender.stop()
    third = collector(2, "--available-now", "--batch-size", "1000")
    third.wait_line(lambda line: batches_of(line, "postgres") and line["readings"], "a batch")
    server.stop("immediate")  # a crash: what is staged is lost with it
    wait_until(lambda: of_store(third.last(), "delta")["readings"], within=60)
    time.sleep(AWAY_S)
    server.start()
    assert third.wait() == 0, third.told()
    replayed = max(of_store(line, "postgres")["replayed"] for line in third.lines())
    assert replayed == 1, "the batch that Spark did not know"

    check_store(lake, sender)
    check_database(server.url(), sender)


def asked_text(address: str, path: str) -> str:
    try:
        with urllib.request.urlopen(f"{address}{path}", timeout=20) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        return error.read().decode()


def asked(address: str, path: str) -> Any:
    return json.loads(asked_text(address, path))
