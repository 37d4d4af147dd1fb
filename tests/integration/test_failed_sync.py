"""A disk that fails to sync: never acknowledged, never seen by a reader, and it comes back."""

from __future__ import annotations

from pathlib import Path

from support.broker import BrokerProcess
from support.confluent import admin_of, create_topic, deliver, producer_of, values_in
from support.rawwire import STORAGE_ERROR, RawConnection, batch, produce, record
from support.tracing import failing, results, traced

SYNCS = "fdatasync,fsync"


def test_nothing_is_acknowledged_after_a_failed_sync(
    own_broker: BrokerProcess, tmp_path: Path, name: str
) -> None:
    create_topic(admin_of(own_broker.bootstrap), name, 2)
    with RawConnection(own_broker.port) as connection:
        for partition in (0, 1):
            assert produce(connection, name, batch(record(b"before")), partition) == (0, 0)
        with failing(own_broker.pid, tmp_path / "strace", SYNCS, "EIO"):
            refused = [produce(connection, name, batch(record(b"lost")))[0] for _ in range(3)]
            assert refused == [STORAGE_ERROR] * 3
            # The partition is offline, and the broker says so; the other one is served.
            assert own_broker.metric("nexus_broker_partitions_offline") == 1
            assert values_in(own_broker.bootstrap, name, 1) == [b"before"]

    # The disk is well again: the partition comes back by itself, without what was refused.
    producer = producer_of(own_broker.bootstrap)
    assert [error for error, _ in deliver(producer, name, [b"after"], partition=0)] == [None]
    assert values_in(own_broker.bootstrap, name) == [b"before", b"after"]
    assert own_broker.metric("nexus_broker_partitions_offline") == 0
    own_broker.kill()
    own_broker.start()
    assert values_in(own_broker.bootstrap, name) == [b"before", b"after"]


def test_a_failed_write_is_refused_and_the_partition_comes_back(
    own_broker: BrokerProcess, tmp_path: Path, name: str
) -> None:
    create_topic(admin_of(own_broker.bootstrap), name)
    with RawConnection(own_broker.port) as connection:
        assert produce(connection, name, batch(record(b"before"))) == (0, 0)
        with failing(own_broker.pid, tmp_path / "strace", "pwrite64,pwritev", "EIO"):
            assert produce(connection, name, batch(record(b"lost")))[0] == STORAGE_ERROR
    producer = producer_of(own_broker.bootstrap)
    assert [error for error, _ in deliver(producer, name, [b"after"], partition=0)] == [None]
    assert values_in(own_broker.bootstrap, name) == [b"before", b"after"]


def test_one_bad_partition_leaves_the_others_alone(
    own_broker: BrokerProcess, tmp_path: Path, name: str
) -> None:
    """One sync fails, of whichever partition asks first; the other's next one succeeds."""
    create_topic(admin_of(own_broker.bootstrap), name, 2)
    once = ("-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO:when=1")
    producer = producer_of(own_broker.bootstrap)
    with traced(own_broker.pid, tmp_path / "strace", *once) as log:
        for partition in (0, 1, 0, 1):
            reports = deliver(producer, name, [b"%d" % partition], partition=partition)
            assert [error for error, _ in reports] == [None]
    assert -1 in results(log, "fdatasync")
    for partition in (0, 1):
        values = values_in(own_broker.bootstrap, name, partition)
        assert values == [b"%d" % partition] * 2
