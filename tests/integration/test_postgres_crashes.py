"""kill -9 of a collector around its commit to PostgreSQL, and of PostgreSQL in mid-stream.

Each collector stands by while the one before it works. `tests/chaos` has the long story, with two
stores and a database that is away for a minute.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from nexus.bench.local_postgres import LocalPostgres
from support.broker import BrokerProcess
from support.collectors import CollectorProcess
from support.confluent import admin_of, create_topic
from support.postgres import check_database, postgres_server
from support.readings import NOON_US
from support.sender import Sender

PARTITIONS = 2


@pytest.fixture
def server() -> Iterator[LocalPostgres]:
    """One of its own, which crashes as the story goes."""
    with postgres_server() as made:
        yield made


@pytest.mark.timeout(600)
def test_whoever_is_killed_the_database_gets_every_reading_once(
    tmp_path: Path,
    broker: BrokerProcess,
    server: LocalPostgres,
    name: str,
    request: pytest.FixtureRequest,
) -> None:
    create_topic(admin_of(broker.bootstrap), name, PARTITIONS)
    sender = Sender(broker.bootstrap, name, PARTITIONS, seed=11, start_us=NOON_US)
    sender.scrapes(30)
    sender.stop()

    def collector(number: int, *flags: str, die: str = "") -> CollectorProcess:
        made = CollectorProcess(
            tmp_path / f"collector-{number}",
            f"kafka://{broker.bootstrap}/{name}",
            server.url(),
            ("--collector-id", f"c{number}", "--batch-size", "700", *flags),
            data_dir=tmp_path / "data",
            die=die,
        )
        request.addfinalizer(made.kill_all)
        return made.start()

    first = collector(0, "--trigger", "100ms", die="after merge 1")
    first.wait_turn()
    second = collector(1, "--available-now")
    assert first.wait() == -signal.SIGKILL, first.told()  # committed, and Spark does not know
    known = second.wait_batches(2)
    assert known["stores"][0]["replayed"] == 1, "the batch that Spark did not know"
    server.stop("immediate")  # a crash: what is staged is lost with it
    second.wait_line(lambda line: line["stores"][0]["problem"], "it misses the database")
    server.start()
    assert second.wait() == 0, second.told()
    check_database(server.url(), sender)
