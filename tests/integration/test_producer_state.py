"""Idempotence on the wire: repeats get the original offset, gaps and old epochs are refused.

What the broker knows of a producer survives a stop and a kill.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from support.broker import BrokerProcess
from support.confluent import admin_of, create_topic, values_in
from support.rawwire import INIT_PRODUCER_ID, RawConnection, batch, produce, record

OUT_OF_ORDER, INVALID_EPOCH = 45, 47
SEQUENCE_MAX = 2**31 - 1


def new_producer(connection: RawConnection) -> int:
    answer = connection.request(INIT_PRODUCER_ID, 0, struct.pack(">hi", -1, 60_000))
    assert answer is not None
    _, code, producer_id, epoch = struct.unpack(">ihqh", answer)
    assert (code, epoch) == (0, 0)
    return int(producer_id)


def numbered(producer_id: int, sequence: int, count: int = 1, epoch: int = 0) -> bytes:
    """A batch that says whose it is and which of that producer's messages it holds."""
    values = [b"%d/%d" % (epoch, sequence + n) for n in range(count)]
    records = b"".join(record(value, delta=n) for n, value in enumerate(values))
    return batch(records, count, producer_id=producer_id, epoch=epoch, sequence=sequence)


def test_a_repeat_gets_the_original_offset(broker: BrokerProcess, topic: str) -> None:
    with RawConnection(broker.port) as connection:
        mine = new_producer(connection)
        batches = [numbered(mine, n * 3, 3) for n in range(5)]
        first = [produce(connection, topic, each) for each in batches]
        assert first == [(0, 0), (0, 3), (0, 6), (0, 9), (0, 12)]
        assert [produce(connection, topic, each) for each in batches] == first
    assert len(values_in(broker.bootstrap, topic)) == 15


def test_a_gap_is_refused(broker: BrokerProcess, topic: str) -> None:
    with RawConnection(broker.port) as connection:
        mine = new_producer(connection)
        assert produce(connection, topic, numbered(mine, 0)) == (0, 0)
        assert produce(connection, topic, numbered(mine, 2))[0] == OUT_OF_ORDER
        assert produce(connection, topic, numbered(mine, 1)) == (0, 1)


def test_a_newer_epoch_begins_at_zero_and_shuts_the_older_out(
    broker: BrokerProcess, topic: str
) -> None:
    with RawConnection(broker.port) as connection:
        mine = new_producer(connection)
        assert produce(connection, topic, numbered(mine, 0)) == (0, 0)
        assert produce(connection, topic, numbered(mine, 0, epoch=1)) == (0, 1)
        assert produce(connection, topic, numbered(mine, 1))[0] == INVALID_EPOCH
        assert produce(connection, topic, numbered(mine, 1, epoch=1)) == (0, 2)


def test_sequences_wrap(broker: BrokerProcess, topic: str) -> None:
    """A producer the broker knows nothing of may begin anywhere."""
    with RawConnection(broker.port) as connection:
        mine = new_producer(connection)
        last = numbered(mine, SEQUENCE_MAX)
        assert produce(connection, topic, last) == (0, 0)
        assert produce(connection, topic, numbered(mine, 0)) == (0, 1)
        assert produce(connection, topic, last) == (0, 0)


def stop_and_start(broker: BrokerProcess) -> None:
    broker.restart()


def kill_and_start(broker: BrokerProcess) -> None:
    broker.kill()
    broker.start()


@pytest.mark.parametrize("interrupt", [stop_and_start, kill_and_start])
def test_producers_are_remembered(
    own_broker: BrokerProcess, name: str, interrupt: Callable[[BrokerProcess], None]
) -> None:
    create_topic(admin_of(own_broker.bootstrap), name)
    with RawConnection(own_broker.port) as connection:
        mine = new_producer(connection)
        sent = [numbered(mine, n) for n in range(7)]
        assert [produce(connection, name, each)[0] for each in sent] == [0] * 7
    interrupt(own_broker)
    with RawConnection(own_broker.port) as connection:
        assert [produce(connection, name, each) for each in sent[2:]] == [
            (0, n) for n in range(2, 7)
        ]
        assert produce(connection, name, numbered(mine, 9))[0] == OUT_OF_ORDER
        assert produce(connection, name, numbered(mine, 7)) == (0, 7)
        assert new_producer(connection) != mine
