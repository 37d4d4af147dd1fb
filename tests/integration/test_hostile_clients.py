"""Clients that send rubbish, lie, dawdle or never read lose their connection; nobody else does.

After each, a real client is served by the same broker, and its memory has not grown by more than
a bounded amount.
"""

from __future__ import annotations

import gzip
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import cramjam
import pytest
from kafka import KafkaAdminClient
from kafka.errors import InvalidPartitionsError

from support.broker import BrokerProcess
from support.confluent import read, send
from support.fixtures import MakeBroker, MakeTopic
from support.rawwire import (
    API_VERSIONS,
    FETCH,
    METADATA,
    PRODUCE,
    RawConnection,
    batch,
    fetch_body,
    framed,
    produce,
    produce_body,
    record,
    request_header,
    text,
    varint,
)
from support.waiting import wait_until

CORRUPT, TOO_LARGE, UNSUPPORTED_VERSION, INVALID_RECORD = 2, 10, 35, 87
GROWTH_MAX = 64 << 20
BOMB_BYTES = 64 << 20


@pytest.fixture
def served(broker: BrokerProcess, name: str) -> Iterator[BrokerProcess]:
    """The broker, which must afterwards serve a real client with no more memory than before."""
    send(broker.bootstrap, f"{name}-warm", [b"warm"])
    before = broker.rss_bytes()
    yield broker
    send(broker.bootstrap, f"{name}-after", [b"still here"])
    assert [m.value() for m in read(broker.bootstrap, f"{name}-after", 1)] == [b"still here"]
    assert broker.rss_bytes() - before < GROWTH_MAX


@pytest.mark.parametrize(
    "rubbish",
    [
        b"GET / HTTP/1.1\r\nHost: nexus\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\xab" * 500,  # a TLS hello
        b"\xff" * 1000,
        struct.pack(">i", 2**31 - 1) + b"x",  # two gigabytes are coming, honestly
        struct.pack(">i", -1) + b"x" * 100,
        struct.pack(">i", 0),
        framed(b""),
        framed(b"\x00"),
        framed(struct.pack(">hhi", 9999, 0, 1)),
        framed(request_header(PRODUCE, 7) + b"\xff" * 40),
        framed(request_header(METADATA, 4) + struct.pack(">i", 2**31 - 1)),
        framed(struct.pack(">hhih", FETCH, 4, 1, 32000) + b"short"),
    ],
    ids=lambda data: repr(data[:12]),
)
def test_rubbish_costs_its_sender_the_connection(served: BrokerProcess, rubbish: bytes) -> None:
    with RawConnection(served.port, timeout=5) as connection:
        connection.send(rubbish)
        assert connection.closed()


def test_a_lie_about_a_length_is_not_waited_for_in_memory(served: BrokerProcess) -> None:
    """Fifty announcements of 90 MB each (within the frame limit), none of them kept."""
    with ExitStack() as stack:
        for _ in range(50):
            connection = stack.enter_context(RawConnection(served.port))
            connection.send(struct.pack(">i", 90_000_000) + request_header(PRODUCE, 7))
        send(served.bootstrap, "while-they-lie", [b"v"])


def test_a_version_that_is_too_new_is_answered_with_the_ranges(served: BrokerProcess) -> None:
    with RawConnection(served.port) as connection:
        # A newer header has tagged fields (none here), and the body two texts and its own.
        answer = connection.request(API_VERSIONS, 99, b"\0" + b"\x04raw" + b"\x021" + b"\0")
        assert answer is not None
        code, count = struct.unpack_from(">hi", answer)
        ranges = {
            key: (low, high)
            for key, low, high in struct.iter_unpack(">hhh", answer[6 : 6 + 6 * count])
        }
    assert code == UNSUPPORTED_VERSION
    assert ranges[PRODUCE] == (0, 9)
    assert ranges[API_VERSIONS][0] == 0
    assert not {17, 24, 25, 26, 28, 36, 71, 72} & set(ranges)


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (batch(record(b"v"), crc=12345), CORRUPT),
        (batch(record(b"v"), last_delta=5), INVALID_RECORD),
        (batch(record(b"v"), count=0, last_delta=-1), INVALID_RECORD),
        (batch(record(b"v"), attributes=0b100000), INVALID_RECORD),
        (batch(record(b"v")) + batch(record(b"v")), INVALID_RECORD),
        (batch(record(b"v"))[:-3], CORRUPT),
        (b"", None),
        (b"\0" * 61, None),
        (batch(record(b"v"), magic=1), None),
        (batch(record(b"v"), attributes=0b111), None),
        (batch(record(b"v"), producer_id=7, epoch=0, sequence=-1), None),
    ],
    ids=[
        "wrong checksum",
        "wrong count",
        "no records",
        "control batch",
        "two batches",
        "cut short",
        "nothing",
        "zeros",
        "old magic",
        "unknown codec",
        "no sequence",
    ],
)
def test_a_bad_batch_is_refused_with_its_error(
    served: BrokerProcess, make_topic: MakeTopic, records: bytes, code: int | None
) -> None:
    """Where the protocol leaves the choice of error open, any error will do."""
    topic = make_topic()
    with RawConnection(served.port) as connection:
        answered, _ = produce(connection, topic, records)
        assert answered == code if code is not None else answered not in (0, -1)
        assert produce(connection, topic, batch(record(b"good"))) == (0, 0)


PACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda plain: gzip.compress(plain, 9),
    "snappy": lambda plain: bytes(cramjam.snappy.compress_raw(plain)),
    "lz4": lambda plain: bytes(cramjam.lz4.compress(plain)),
    "zstd": lambda plain: bytes(cramjam.zstd.compress(plain)),
}
CODES = {codec: number for number, codec in enumerate(PACK, 1)}


def bomb(codec: str) -> bytes:
    """A batch of at most some megabytes that unpacks to 64."""
    size = BOMB_BYTES
    head = b"\0" + varint(0) + varint(0) + varint(-1) + varint(size)
    plain = varint(len(head) + size + 1) + head + bytes(size) + varint(0)
    return batch(PACK[codec](plain), attributes=CODES[codec])


@pytest.mark.parametrize("codec", PACK)
def test_a_decompression_bomb_is_refused(
    served: BrokerProcess, make_topic: MakeTopic, codec: str
) -> None:
    topic = make_topic(**{"compression.type": "uncompressed", "max.message.bytes": "4000000"})
    packed = bomb(codec)
    with RawConnection(served.port, timeout=20) as connection:
        for _ in range(5):
            assert produce(connection, topic, packed)[0] == TOO_LARGE
        assert produce(connection, topic, batch(record(b"good"))) == (0, 0)


@pytest.mark.parametrize("codec", PACK)
def test_compressed_rubbish_is_refused_where_it_must_be_opened(
    served: BrokerProcess, make_topic: MakeTopic, codec: str
) -> None:
    topic = make_topic(**{"compression.type": "uncompressed"})
    refused = batch(b"not compressed at all" * 10, attributes=CODES[codec])
    with RawConnection(served.port) as connection:
        assert produce(connection, topic, refused)[0] in (CORRUPT, INVALID_RECORD)
        assert produce(connection, topic, batch(record(b"good"))) == (0, 0)


def test_a_reader_that_never_reads_holds_no_memory(served: BrokerProcess, topic: str) -> None:
    """Two hundred megabytes are asked for and not taken; others read meanwhile."""
    send(served.bootstrap, topic, [b"x" * 100_000] * 100)
    ask = framed(request_header(FETCH, 4) + fetch_body(topic, max_bytes=10 << 20))
    with RawConnection(served.port) as greedy:
        greedy.socket.settimeout(1)
        try:
            for _ in range(20):
                greedy.send(ask)
        except TimeoutError:
            pass  # the broker stopped reading from it: that is its right
        assert len(read(served.bootstrap, topic, 100)) == 100


def test_a_flood_of_requests_without_reading_is_held_back(served: BrokerProcess) -> None:
    ask = framed(request_header(METADATA, 1) + struct.pack(">i", -1)) * 100
    with RawConnection(served.port) as flood:
        flood.socket.settimeout(0.5)
        try:
            for _ in range(2000):
                flood.send(ask)
        except (TimeoutError, ConnectionError):
            pass
        send(served.bootstrap, "during-the-flood", [b"v"])


def test_answers_come_in_the_order_of_the_requests(served: BrokerProcess, topic: str) -> None:
    """Pipelined: a fetch that waits holds back the quick ones behind it; nothing is mixed up."""
    waiting = fetch_body(topic, wait_ms=300, min_bytes=1)
    with RawConnection(served.port) as connection:
        connection.send(framed(request_header(FETCH, 4, 1) + waiting))
        for correlation in range(2, 30):
            connection.send(framed(request_header(API_VERSIONS, 0, correlation)))
        answers = [connection.receive() for _ in range(29)]
    assert [int.from_bytes((a or b"")[:4], "big") for a in answers] == list(range(1, 30))


def test_a_request_in_single_bytes_is_understood(served: BrokerProcess) -> None:
    with RawConnection(served.port) as connection:
        for byte in framed(request_header(API_VERSIONS, 0, 5)):
            connection.send(bytes([byte]))
        assert (connection.receive() or b"")[:4] == struct.pack(">i", 5)


def test_acks_0_gets_no_answer_and_is_stored(served: BrokerProcess, topic: str) -> None:
    with RawConnection(served.port) as connection:
        unanswered = produce_body(topic, batch(record(b"quiet")), acks=0)
        connection.send(framed(request_header(PRODUCE, 7, 1) + unanswered))
        assert produce(connection, topic, batch(record(b"loud"))) == (0, 1)
    assert [m.value() for m in read(served.bootstrap, topic, 2)] == [b"quiet", b"loud"]


def test_a_half_sent_request_is_given_up_after_a_while(make_broker: MakeBroker) -> None:
    broker = make_broker(settings="performance: {frame_timeout: 500ms, connection_idle_time: 2s}")
    with RawConnection(broker.port) as dawdler, RawConnection(broker.port) as idle:
        began = time.monotonic()
        dawdler.send(struct.pack(">i", 1000) + b"the rest never comes")
        assert dawdler.closed()
        assert time.monotonic() - began < 30
        assert idle.closed()


def test_connections_over_the_limit_are_turned_away(make_broker: MakeBroker) -> None:
    broker = make_broker(settings="performance: {max_connections: 5}")
    with ExitStack() as stack:
        held = [stack.enter_context(RawConnection(broker.port)) for _ in range(5)]
        for connection in held:
            assert connection.request(API_VERSIONS, 0, b"") is not None
        for _ in range(20):
            with RawConnection(broker.port, timeout=5) as refused:
                assert refused.closed()
        for connection in held:
            assert connection.request(API_VERSIONS, 0, b"") is not None
    wait_until(lambda: can_connect(broker), what="room again after the others left")


def can_connect(broker: BrokerProcess) -> bool:
    with RawConnection(broker.port) as connection:
        return connection.request(API_VERSIONS, 0, b"") is not None


def test_many_idle_connections_are_held_cheaply(served: BrokerProcess) -> None:
    descriptors = served.descriptors()
    with ExitStack() as stack:
        idle = [stack.enter_context(RawConnection(served.port)) for _ in range(500)]
        for connection in idle:
            assert connection.request(API_VERSIONS, 0, b"") is not None
        send(served.bootstrap, "among-many", [b"v"])
        assert served.descriptors() >= descriptors + 500
    wait_until(lambda: served.descriptors() < descriptors + 50, what="their descriptors back")


@pytest.mark.parametrize("wanted", [2_000_000, 2**31 - 1])
def test_absurd_numbers_of_partitions_are_refused(
    served: BrokerProcess, topic: str, wanted: int
) -> None:
    admin = KafkaAdminClient(bootstrap_servers=served.bootstrap)
    try:
        with pytest.raises(InvalidPartitionsError):
            admin.create_topics({f"{topic}-absurd": {"num_partitions": wanted}})
        with pytest.raises(InvalidPartitionsError):
            admin.create_partitions({topic: wanted})
    finally:
        admin.close()


def test_a_topic_name_never_becomes_a_path(served: BrokerProcess) -> None:
    with RawConnection(served.port) as connection:
        for bad in ("../../escape", "/etc/passwd", "a/b", "..", "", "nul\0byte"):
            body = struct.pack(">i", 1) + text(bad) + b"\x01"
            assert connection.request(METADATA, 4, body) is not None
            code, _ = produce(connection, bad, batch(record(b"v")))
            assert code not in (0, -1)
    topics = served.data_dir / "topics"
    assert not [path for path in topics.iterdir() if "escape" in path.name]
    assert not (served.data_dir / "escape").exists()
    assert not (served.data_dir.parent / "escape").exists()
