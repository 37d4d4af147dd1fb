"""Compares the replicas of a partition over the wire, batch by batch, below the watermark.

Replicas are copies of the same bytes, so a batch that differs in any of them is damage, or worse.
A compacted topic is not compared: each broker compacts when it sees fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from nexus.broker.handlers.fetch import COMPARING
from nexus.broker.peer import Peer
from nexus.wire.apis import ApiKey
from nexus.wire.batch import crc_of, iter_headers
from nexus.wire.errors import ErrorCode
from nexus.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData

FETCH_VERSION: Final = 11
CHUNK_BYTES: Final = 4 << 20
ANSWER_SECONDS: Final = 10.0

Batch = tuple[int, int, int, int]  # next offset, epoch, checksum as told, checksum as found


class Difference(NamedTuple):
    """A batch that is not the same everywhere."""

    offset: int
    brokers: tuple[int, ...]  # those that have it otherwise than most, or not at all
    what: str


@dataclass(slots=True)
class Compared:
    """What a comparison showed."""

    batches: int = 0
    start: int = 0
    end: int = 0
    differences: tuple[Difference, ...] = ()


async def compare(topic: str, partition: int, replicas: Mapping[int, tuple[str, int]]) -> Compared:
    """Compare the replicas, by the addresses of their brokers; OSError where one is away."""
    peers = {node: Peer(*address, "nexus-verify") for node, address in replicas.items()}
    try:
        heads = {node: await _fetch(peer, topic, partition, 0) for node, peer in peers.items()}
        start = max(head.log_start_offset for head in heads.values())
        end = min(head.high_watermark for head in heads.values())
        found = {
            node: await _batches(peer, topic, partition, start, end) for node, peer in peers.items()
        }
    finally:
        for peer in peers.values():
            peer.close()
    offsets = sorted({offset for batches in found.values() for offset in batches})
    differences = tuple(d for offset in offsets if (d := _difference(offset, found)) is not None)
    return Compared(len(offsets), start, end, differences)


def _difference(offset: int, found: Mapping[int, Mapping[int, Batch]]) -> Difference | None:
    copies = {node: batches.get(offset) for node, batches in found.items()}
    damaged = tuple(n for n, copy in copies.items() if copy is not None and copy[2] != copy[3])
    if damaged:
        return Difference(offset, damaged, "damaged")
    kinds = list(copies.values())
    usual = max(kinds, key=kinds.count)
    others = tuple(node for node, copy in copies.items() if copy != usual)
    return Difference(offset, others, "different") if others else None


async def _batches(
    peer: Peer, topic: str, partition: int, start: int, end: int
) -> dict[int, Batch]:
    found: dict[int, Batch] = {}
    offset = start
    while offset < end:
        data = await _fetch(peer, topic, partition, offset)
        if not data.records:
            break
        assert isinstance(data.records, memoryview)
        for at, header in iter_headers(data.records):
            batch = data.records[at : at + header.size]
            if header.base_offset < end:
                found[header.base_offset] = (
                    header.next_offset,
                    header.leader_epoch,
                    header.crc,
                    crc_of(batch),
                )
            offset = header.next_offset
    return found


async def _fetch(peer: Peer, topic: str, partition: int, offset: int) -> PartitionData:
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
        return await _fetch(peer, topic, partition, data.log_start_offset)
    if data.error_code != ErrorCode.NONE:
        where = f"{topic}/{partition} at {peer.address[0]}:{peer.address[1]}"
        raise ConnectionError(f"{where}: {ErrorCode(data.error_code).name}")
    return data
