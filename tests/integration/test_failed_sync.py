"""A disk that fails to sync: never acknowledged, never seen by a reader, and it comes back."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from support.broker import BrokerProcess
from support.confluent import admin_of, create_topic, deliver, producer_of, values_in
from support.rawwire import (
    FETCH,
    PRODUCE,
    STORAGE_ERROR,
    RawConnection,
    batch,
    fetch_body,
    framed,
    produce,
    produce_body,
    record,
    request_header,
)
from support.tracing import PLAIN_SYNCS, SYNCS, failing, results, traced


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
    once = (*PLAIN_SYNCS, "-e", "inject=fdatasync:error=EIO:when=1")
    producer = producer_of(own_broker.bootstrap)
    with traced(own_broker.pid, tmp_path / "strace", *once) as log:
        for partition in (0, 1, 0, 1):
            reports = deliver(producer, name, [b"%d" % partition], partition=partition)
            assert [error for error, _ in reports] == [None]
    assert -1 in results(log, "fdatasync")
    for partition in (0, 1):
        values = values_in(own_broker.bootstrap, name, partition)
        assert values == [b"%d" % partition] * 2


def test_readers_see_only_what_is_synced(
    own_broker: BrokerProcess, tmp_path: Path, name: str
) -> None:
    """The sync takes a second: until it is done, nobody reads what waits for it."""
    create_topic(admin_of(own_broker.bootstrap), name)
    slow = (*PLAIN_SYNCS, "-e", "inject=fdatasync:delay_enter=1000000")
    with RawConnection(own_broker.port) as writer, RawConnection(own_broker.port) as reader:
        with traced(own_broker.pid, tmp_path / "strace", *slow):
            body = produce_body(name, batch(record(b"slow")))
            writer.send(framed(request_header(PRODUCE, 7) + body))
            early = reader.request(FETCH, 4, fetch_body(name, wait_ms=100))
            assert early is not None
            assert b"slow" not in early
            assert writer.receive() is not None
        late = reader.request(FETCH, 4, fetch_body(name, wait_ms=5000))
    assert late is not None
    assert b"slow" in late


def test_producers_share_a_sync(own_broker: BrokerProcess, tmp_path: Path, name: str) -> None:
    """Group commit: four hundred acknowledgements for far fewer syncs."""
    create_topic(admin_of(own_broker.bootstrap), name, 2)
    slow = (*PLAIN_SYNCS, "-e", "inject=fdatasync:delay_enter=10000")
    with ExitStack() as stack:
        writers = [stack.enter_context(RawConnection(own_broker.port)) for _ in range(20)]
        log = stack.enter_context(traced(own_broker.pid, tmp_path / "strace", *slow))
        for _ in range(20):
            for number, writer in enumerate(writers):
                body = produce_body(name, batch(record(b"v")), partition=number % 2)
                writer.send(framed(request_header(PRODUCE, 7) + body))
            assert all(writer.receive() is not None for writer in writers)
    assert 0 < len(results(log, "fdatasync")) < 200
    assert len(values_in(own_broker.bootstrap, name, 0)) == 200
