"""Puts messages that failed into `<topic>.dlq`, with their key, headers and what happened to them.

A message is there once or, if a crash comes at the wrong moment, more than once; its origin is in
its headers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from nexus.broker.sharing.peers import PeerRefused, Peers
from nexus.broker.topics import Topic
from nexus.groups.sharing.effects import Bury
from nexus.log import PartitionLog
from nexus.wire.apis import ApiKey
from nexus.wire.batch import iter_headers, read_header
from nexus.wire.errors import ErrorCode
from nexus.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from nexus.wire.records import Header, Record, encode_batch, iter_records

if TYPE_CHECKING:
    from nexus.broker.broker import Broker

SUFFIX: Final = ".dlq"
REASON, TOPIC, PARTITION = "dlq-reason", "dlq-topic", "dlq-partition"
OFFSET, ATTEMPTS, GROUP = "dlq-offset", "dlq-attempts", "dlq-group"
OURS: Final = frozenset({REASON, TOPIC, PARTITION, OFFSET, ATTEMPTS, GROUP})
BATCH_BYTES: Final = 256 << 10
_ACKS_ALL: Final = -1
_TIMEOUT_MS: Final = 10_000
_PRODUCE_VERSION: Final = 9


class Origin(NamedTuple):
    """Where messages failed, and in which group."""

    group: str
    topic: Topic
    number: int  # of the partition


class DeadLetters:
    """The way to every dead-letter topic."""

    def __init__(self, broker: Broker, peers: Peers) -> None:
        self._broker = broker
        self._peers = peers

    async def bury(self, origin: Origin, burials: Sequence[Bury]) -> list[int]:
        """Store some of the messages, in the order given, safely; returns which."""
        source = origin.topic.partitions[origin.number].log
        records: list[Record] = []
        done: list[int] = []
        size = 0
        for burial in burials:
            record = await self._broker.off_loop(find_record, source, burial.offset)
            # One that retention or compaction removed meanwhile needs no grave.
            if record is not None:
                records.append(_dead(record, origin, burial)._replace(offset=len(records)))
                size += len(record.value or b"") + len(record.key or b"")
            done.append(burial.offset)
            if size > BATCH_BYTES:
                break
        if records:
            await self._store(origin.topic, origin.number, records)
        return done

    async def _store(self, topic: Topic, index: int, records: list[Record]) -> None:
        name = topic.name if topic.name.endswith(SUFFIX) else topic.name + SUFFIX
        room = max(one.log.config.max_message_bytes for one in topic.partitions.values())
        configs = {"max.message.bytes": str(room + (64 << 10))}
        graves = await self._broker.admin.ensure(name, topic.count, configs)
        place = index % graves.count
        batch = encode_batch(records)
        leader = self._peers.leader_of(name, place)
        if not self._peers.is_me(leader):
            await self._send(leader, name, place, batch)
            return
        partition = graves.partition(place)
        partition.check_writable(by_all=True)
        appended = partition.append(memoryview(batch), read_header(batch))
        await partition.safe(appended.last_offset + 1)

    async def _send(self, leader: int, name: str, place: int, batch: bytearray) -> None:
        data = PartitionProduceData(index=place, records=memoryview(batch))
        request = ProduceRequest(
            acks=_ACKS_ALL,
            timeout_ms=_TIMEOUT_MS,
            topic_data=[TopicProduceData(name=name, partition_data=[data])],
        )
        answer = await self._peers.ask(leader, ApiKey.PRODUCE, _PRODUCE_VERSION, request)
        code = answer.responses[0].partition_responses[0].error_code
        if code:
            raise PeerRefused(f"{name}/{place}: {ErrorCode(code).name}")


def find_record(source: PartitionLog, offset: int) -> Record | None:
    """One message of a log; None if it is not there any more."""
    return next((one for one in read_records(source, offset) if one.offset == offset), None)


def read_records(source: PartitionLog, offset: int) -> Iterable[Record]:
    """The messages of the batch that has an offset."""
    if not source.start_offset <= offset < source.end_offset:
        return []
    piece = source.read(offset, 1, source.end_offset)
    if piece is None:
        return []
    data = memoryview(piece.read())
    return [one for at, h in iter_headers(data) for one in iter_records(data[at : at + h.size])]


def _dead(record: Record, origin: Origin, burial: Bury) -> Record:
    # One that comes back here after a replay tells only of the last time.
    kept = tuple(header for header in record.headers if header[0] not in OURS)
    told: tuple[Header, ...] = (
        (REASON, burial.reason.encode()),
        (TOPIC, origin.topic.name.encode()),
        (PARTITION, b"%d" % origin.number),
        (OFFSET, b"%d" % record.offset),
        (ATTEMPTS, b"%d" % burial.attempts),
        (GROUP, origin.group.encode()),
    )
    return record._replace(headers=kept + told)
