"""Compares the replicas of a partition over the wire, batch by batch, below the watermark.

Replicas are copies of the same bytes, so a batch that differs in any of them is damage, or worse.
A broker that is asked for a damaged batch sends it as it is, and has it mended. A compacted topic
is compared by its keys (`comparing_keys`): each broker compacts when it sees fit.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from nexus.broker.handlers.fetch import COMPARING
from nexus.broker.peer import Peer
from nexus.wire.apis import ApiKey
from nexus.wire.batch import crc_of, iter_headers
from nexus.wire.errors import CorruptMessage, ErrorCode
from nexus.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData

FETCH_VERSION: Final = 11
CHUNK_BYTES: Final = 4 << 20
ANSWER_SECONDS: Final = 10.0

Batch = tuple[int, int, int, int]  # next offset, epoch, checksum as told, checksum as found
_BROKEN: Final = (-1, -1, 0, 1)


class Difference(NamedTuple):
    """A batch that is not the same everywhere."""

    offset: int
    brokers: tuple[int, ...]  # those that have it otherwise than most, or not at all
    what: str


@dataclass(slots=True)
class Compared:
    """What a comparison showed."""

    batches: int = 0
    keys: int = 0  # of a compacted topic, instead
    differences: tuple[Difference, ...] = ()


@dataclass(slots=True)
class _Replica:
    """The batches of one replica by offset, and up to where they could be read."""

    batches: dict[int, Batch] = field(default_factory=dict)
    reached: int = 0

    def take(self, records: memoryview) -> bool:
        """Note what was read; false where what comes next cannot be a batch."""
        before = self.reached
        with suppress(CorruptMessage):
            for at, header in iter_headers(records):
                checksum = crc_of(records[at : at + header.size])
                batch = (header.next_offset, header.leader_epoch, header.crc, checksum)
                self.batches[header.base_offset] = batch
                self.reached = header.next_offset
        if self.reached == before:
            self.batches[before] = _BROKEN
        return self.reached > before


Replicas = Mapping[int, tuple[str, int]]  # the addresses of the brokers that hold one


@asynccontextmanager
async def open_replicas(
    topic: str, partition: int, replicas: Replicas
) -> AsyncIterator[Mapping[int, tuple[Peer, PartitionData]]]:
    """The way to each broker, and the first of what it has; OSError where one is away."""
    peers = {node: Peer(*address, "nexus-verify") for node, address in replicas.items()}
    try:
        yield {
            node: (peer, await read_copy(peer, topic, partition, 0)) for node, peer in peers.items()
        }
    finally:
        for peer in peers.values():
            peer.close()


async def compare(topic: str, partition: int, replicas: Replicas) -> Compared:
    """Compare the replicas, by the addresses of their brokers; OSError where one is away."""
    async with open_replicas(topic, partition, replicas) as opened:
        heads = [head for _, head in opened.values()]
        start = max(head.log_start_offset for head in heads)
        end = min(head.high_watermark for head in heads)
        found = {
            node: await _read(peer, (topic, partition), head, end)
            for node, (peer, head) in opened.items()
        }
    every = {offset for replica in found.values() for offset in replica.batches}
    offsets = sorted(offset for offset in every if start <= offset < end)
    differences = tuple(d for offset in offsets if (d := _difference(offset, found)) is not None)
    return Compared(batches=len(offsets), differences=differences)


async def check_copy(topic: str, partition: int, address: tuple[str, int]) -> None:
    """Whether all that a broker has below the watermark is sound; CorruptMessage if not."""
    async with open_replicas(topic, partition, {0: address}) as opened:
        peer, head = opened[0]
        replica = await _read(peer, (topic, partition), head, head.high_watermark)
    damaged = [offset for offset, batch in replica.batches.items() if batch[2] != batch[3]]
    if damaged or replica.reached < head.high_watermark:
        where = f"{topic}/{partition} at {address[0]}:{address[1]}"
        raise CorruptMessage(f"{where} is damaged at offset {min([*damaged, replica.reached])}")


def _difference(offset: int, found: Mapping[int, _Replica]) -> Difference | None:
    copies = {node: r.batches.get(offset) for node, r in found.items() if offset <= r.reached}
    damaged = tuple(n for n, copy in copies.items() if copy is not None and copy[2] != copy[3])
    if damaged:
        return Difference(offset, damaged, "damaged")
    kinds = list(copies.values())
    usual = max(kinds, key=kinds.count)
    others = tuple(node for node, copy in copies.items() if copy != usual)
    return Difference(offset, others, "different") if others else None


async def _read(peer: Peer, key: tuple[str, int], head: PartitionData, end: int) -> _Replica:
    """All that a replica has before an offset. What is read once is not read again: damage that
    was seen is mended by then."""
    replica = _Replica(reached=head.log_start_offset)
    data = head
    while data.records:
        assert isinstance(data.records, memoryview)
        if not replica.take(data.records) or replica.reached >= end:
            break
        data = await read_copy(peer, *key, replica.reached)
    return replica


async def read_copy(peer: Peer, topic: str, partition: int, offset: int) -> PartitionData:
    """What a broker has from an offset on, whether or not it leads; OSError where it has not."""
    wanted = FetchPartition(
        partition=partition, fetch_offset=offset, partition_max_bytes=CHUNK_BYTES
    )
    request = FetchRequest(
        replica_id=COMPARING,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=CHUNK_BYTES,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
    )
    answer = await peer.ask(ApiKey.FETCH, FETCH_VERSION, request, ANSWER_SECONDS)
    data: PartitionData = answer.responses[0].partitions[0]
    if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and data.log_start_offset > offset:
        return await read_copy(peer, topic, partition, data.log_start_offset)
    if data.error_code != ErrorCode.NONE:
        where = f"{topic}/{partition} at {peer.address[0]}:{peer.address[1]}"
        raise ConnectionError(f"{where}: {ErrorCode(data.error_code).name}")
    return data
