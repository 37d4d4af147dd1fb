"""Compares the replicas of a compacted partition: by the newest value of each key.

Each broker compacts when it sees fit, so they hold different batches. What must be the same is what
a reader ends up with: the last value of each key below the watermark that all have. A key that was
deleted may still have its tombstone or not. One that changed above that watermark is left out: a
broker may have dropped its value below it for the newer one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from nexus.broker.comparing import Compared, Difference, Replicas, open_replicas, read_copy
from nexus.broker.peer import Peer
from nexus.wire.batch import BatchHeader, crc_of, iter_headers
from nexus.wire.errors import CorruptMessage, ProtocolError
from nexus.wire.messages.fetch import PartitionData
from nexus.wire.records import iter_records

Newest = tuple[int, bytes]  # offset and digest of a value


@dataclass(slots=True)
class Keys:
    """What one replica has, up to where it could be read; keys and values by their digests."""

    start: int  # what lies before it, some have deleted already
    end: int  # below which replicas are compared
    reached: int = 0
    newest: dict[bytes, Newest] = field(default_factory=dict)
    changed_after: set[bytes] = field(default_factory=set)
    damaged: list[int] = field(default_factory=list)

    def take(self, records: memoryview) -> bool:
        """Note what was read; false where what comes next cannot be a batch."""
        before = self.reached
        with suppress(CorruptMessage):
            for at, header in iter_headers(records):
                self._take_batch(records[at : at + header.size], header)
                self.reached = header.next_offset
        if self.reached == before:
            self.damaged.append(before)
        return self.reached > before

    def _take_batch(self, batch: memoryview, header: BatchHeader) -> None:
        if crc_of(batch) != header.crc:
            self.damaged.append(self.reached)
            return
        try:
            for record in iter_records(batch):
                if record.key is not None:
                    self._take_record(record.offset, _digest(record.key), record.value)
        except ProtocolError:
            # Its checksum is right, so a client sent it so: nobody compacts it.
            self._take_record(header.base_offset, b"batch %d" % header.base_offset, bytes(batch))

    def _take_record(self, offset: int, key: bytes, value: bytes | None) -> None:
        if offset >= self.end:
            self.changed_after.add(key)
        elif value is None:
            self.newest.pop(key, None)
        elif offset >= self.start:
            self.newest[key] = (offset, _digest(value))


async def compare_keys(topic: str, partition: int, replicas: Replicas) -> Compared:
    """Compare the replicas, by the addresses of their brokers; OSError where one is away."""
    async with open_replicas(topic, partition, replicas) as opened:
        start = max(head.log_start_offset for _, head in opened.values())
        end = min(head.high_watermark for _, head in opened.values())
        found = {
            node: await _read(peer, (topic, partition), head, Keys(start, end))
            for node, (peer, head) in opened.items()
        }
    return compared(found)


def compared(found: Mapping[int, Keys]) -> Compared:
    """What the replicas show, each as it was read."""
    damaged = [
        Difference(offset, (node,), "damaged")
        for node, keys in sorted(found.items())
        for offset in keys.damaged
    ]
    # What is damaged may be the newest of any key: of the others it is known what they have.
    sound = {node: keys for node, keys in found.items() if not keys.damaged}
    every = {key for keys in sound.values() for key in keys.newest}
    changed = {key for keys in sound.values() for key in keys.changed_after}
    differences = [d for key in every - changed if (d := _difference(key, sound)) is not None]
    return Compared(keys=len(every), differences=(*damaged, *sorted(differences)))


def _difference(key: bytes, found: Mapping[int, Keys]) -> Difference | None:
    values = {node: keys.newest.get(key) for node, keys in found.items()}
    kinds = list(values.values())
    usual = max(kinds, key=kinds.count)
    others = tuple(node for node, value in values.items() if value != usual)
    offset = max(value[0] for value in kinds if value is not None)
    return Difference(offset, others, "different") if others else None


async def _read(peer: Peer, key: tuple[str, int], head: PartitionData, keys: Keys) -> Keys:
    """All that a replica has, also above the end: as far as its watermark is when that is read."""
    data, keys.reached, target = head, head.log_start_offset, keys.end
    while data.records:
        assert isinstance(data.records, memoryview)
        is_below = keys.reached < keys.end
        if not keys.take(data.records):
            break
        if is_below and keys.reached >= keys.end:
            target = data.high_watermark
        if keys.reached >= target:
            break
        data = await read_copy(peer, *key, keys.reached)
    return keys


def _digest(value: bytes) -> bytes:
    return hashlib.blake2b(value, digest_size=16).digest()
