"""A disk that fills up and is freed again: no acknowledgement is lost, no restart is needed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.broker import BrokerProcess
from support.confluent import admin_of, create_topic, deliver, producer_of, values_in
from support.disks import fill_up, make_image, mounted
from support.fixtures import MakeBroker
from support.rawwire import STORAGE_ERROR, RawConnection, batch, produce, record
from support.waiting import wait_until

DISK_BYTES = 24 << 20
CHUNK = 100_000


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, of 24 MB."""
    size = f"size={DISK_BYTES}"
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", size, "tmpfs") as disk:
        yield disk


@pytest.fixture
def thin_disk(small_disk: Path, tmp_path: Path) -> Iterator[Path]:
    """A file system that promises 200 MB and has the small disk's 24: syncs fail, not writes."""
    image = small_disk / "image"
    make_image(image, 200 << 20, "-O", "^has_journal")
    with mounted(tmp_path / "thin", "-o", "loop,errors=continue", str(image)) as thin:
        yield thin


def produce_until_refused(
    connection: RawConnection, topic: str, size: int = CHUNK
) -> tuple[list[bytes], int]:
    """Values the broker acknowledged, and the error that ended it."""
    acknowledged: list[bytes] = []
    for n in range(2 * DISK_BYTES // CHUNK):
        value = b"%06d" % n + b"v" * size
        code, _ = produce(connection, topic, batch(record(value)))
        if code:
            return acknowledged, code
        acknowledged.append(value)
    raise AssertionError("the disk never filled up")


def test_a_full_disk_refuses_and_a_freed_one_serves_again(
    make_broker: MakeBroker, small_disk: Path, name: str
) -> None:
    broker = make_broker(data_dir=small_disk / "data")
    create_topic(admin_of(broker.bootstrap), name, 2)
    with RawConnection(broker.port) as connection:
        for partition in (0, 1):
            assert produce(connection, name, batch(record(b"first")), partition) == (0, 0)
        filler = fill_up(small_disk)
        acknowledged, code = produce_until_refused(connection, name)
        assert code == STORAGE_ERROR
        expected = [b"first", *acknowledged]

        # It still lives, says what is wrong, and serves the other partition.
        assert broker.health()["live"] is True
        assert len(broker.health()["partitions_offline"]) >= 1
        assert values_in(broker.bootstrap, name, 1) == [b"first"]

        # A client that waits is served when the disk is freed, without anybody's help.
        producer = producer_of(broker.bootstrap, **{"delivery.timeout.ms": 30_000})
        producer.produce(name, b"patient", partition=0)
        assert producer.flush(0.5) == 1
        filler.unlink()
        assert [error for error, _ in deliver(producer, name, [b"after"], partition=0)] == [None]
    assert values_in(broker.bootstrap, name) == [*expected, b"patient", b"after"]
    assert_the_rest_survives(broker, name, [*expected, b"patient", b"after"])


def assert_the_rest_survives(broker: BrokerProcess, topic: str, expected: list[bytes]) -> None:
    broker.kill()
    broker.start()
    assert values_in(broker.bootstrap, topic) == expected
    wait_until(lambda: broker.get("/health")[0] == 200, what="a healthy broker")


def test_a_disk_that_fills_up_at_any_page_never_ends_the_broker(
    make_broker: MakeBroker, small_disk: Path, name: str
) -> None:
    """The last page may go to a log or to an index, which is memory until it is written."""
    broker = make_broker(data_dir=small_disk / "data")
    admin = admin_of(broker.bootstrap)
    topics = [create_topic(admin, f"{name}-{n}") for n in range(8)]
    filler = fill_up(small_disk)
    with RawConnection(broker.port) as connection:
        for free_pages, topic in enumerate(topics):
            os.truncate(filler, filler.stat().st_size // 4096 * 4096 - free_pages * 4096)
            _, code = produce_until_refused(connection, topic, 1500)
            assert code == STORAGE_ERROR
            assert broker.alive, f"with {free_pages} free pages"


def test_a_broker_that_starts_on_a_full_disk_serves_when_it_is_freed(
    make_broker: MakeBroker, small_disk: Path, name: str
) -> None:
    broker = make_broker(data_dir=small_disk / "data")
    create_topic(admin_of(broker.bootstrap), name)
    with RawConnection(broker.port) as connection:
        assert produce(connection, name, batch(record(b"first")))[0] == 0
    broker.kill()
    filler = fill_up(small_disk)
    broker.spawn()
    try:
        broker.wait_ready()
    except AssertionError:  # refusing to start on a full disk is an answer too: one clear line
        assert "Traceback" not in broker.stderr
        assert broker.wait_exit() != 0
        filler.unlink()
        broker.start()
    filler.unlink(missing_ok=True)
    producer = producer_of(broker.bootstrap)
    assert [error for error, _ in deliver(producer, name, [b"after"], partition=0)] == [None]
    assert values_in(broker.bootstrap, name) == [b"first", b"after"]


def test_a_sync_that_fails_is_never_acknowledged(
    make_broker: MakeBroker, thin_disk: Path, small_disk: Path, name: str
) -> None:
    """Every write succeeds, in memory; the disk behind it is full, and only the sync can tell."""
    broker = make_broker(data_dir=thin_disk / "data")
    create_topic(admin_of(broker.bootstrap), name)
    with RawConnection(broker.port) as connection:
        assert produce(connection, name, batch(record(b"first"))) == (0, 0)
        filler = fill_up(small_disk)
        acknowledged, code = produce_until_refused(connection, name)
        assert code == STORAGE_ERROR
        filler.unlink()
        producer = producer_of(broker.bootstrap)
        assert [error for error, _ in deliver(producer, name, [b"after"], partition=0)] == [None]
    expected = [b"first", *acknowledged, b"after"]
    assert values_in(broker.bootstrap, name) == expected
    assert_the_rest_survives(broker, name, expected)
