"""What a log remembers of idempotent producers: the last five batches of each.

A batch that was appended before is recognised and answered with its first offset; one that skips
or comes too late is refused. States are immutable, so a copy of the table is a snapshot of it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from crc32c import crc32c

from nexus.wire.batch import BatchHeader
from nexus.wire.errors import InvalidProducerEpoch, OutOfOrderSequence

WINDOW: Final = 5
# A client may make up producer ids without end; what is remembered of them may not grow so.
PRODUCERS_MAX: Final = 50_000
_SEQUENCE_MASK: Final = (1 << 31) - 1


class SeenBatch(NamedTuple):
    """Where a batch of a producer went."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int


class ProducerState(NamedTuple):
    """A producer as of its last batch."""

    epoch: int
    next_sequence: int
    batches: tuple[SeenBatch, ...]
    time_ms: int


class Producers:
    """The table of producers; changed only under the log's lock."""

    __slots__ = ("_states",)

    def __init__(self, states: dict[int, ProducerState] | None = None) -> None:
        self._states = states if states is not None else {}

    def __len__(self) -> int:
        return len(self._states)

    def get(self, producer_id: int) -> ProducerState | None:
        """What is known of a producer."""
        return self._states.get(producer_id)

    def check(self, header: BatchHeader) -> SeenBatch | None:
        """The earlier batch of which this is a duplicate, None if it is the next one."""
        state = self._states.get(header.producer_id)
        if state is None:
            return None
        if header.producer_epoch == state.epoch and header.base_sequence == state.next_sequence:
            return None
        return _check_unusual(state, header)

    def update(self, header: BatchHeader, base_offset: int, time_ms: int) -> None:
        """Remember a batch that was appended."""
        first = header.base_sequence
        delta = header.last_offset_delta
        last = first + delta & _SEQUENCE_MASK
        seen = SeenBatch(first, last, base_offset, base_offset + delta)
        state = self._states.get(header.producer_id)
        if state is not None and state.epoch == header.producer_epoch:
            batches = (*state.batches[1 - WINDOW :], seen)
        else:
            batches = (seen,)
        self._states[header.producer_id] = ProducerState(
            header.producer_epoch, last + 1 & _SEQUENCE_MASK, batches, time_ms
        )
        if len(self._states) > PRODUCERS_MAX:
            self._forget_oldest()

    def replay(self, header: BatchHeader, time_ms: int) -> None:
        """Remember a batch found in the log, unless it is known already."""
        state = self._states.get(header.producer_id)
        known = state.batches[-1].base_offset if state is not None and state.batches else -1
        if header.producer_id >= 0 and header.base_offset > known:
            self.update(header, header.base_offset, time_ms)

    def expire(self, before_ms: int) -> None:
        """Forget the producers that were last heard of before a time."""
        for producer_id, state in list(self._states.items()):
            if state.time_ms < before_ms:
                del self._states[producer_id]

    def _forget_oldest(self) -> None:
        times = sorted(state.time_ms for state in self._states.values())
        self.expire(times[len(times) // 10] + 1)

    def last_offsets(self) -> dict[int, int]:
        """The base offset of each producer's last batch, which compaction has to keep."""
        states = self._states.copy()
        return {pid: state.batches[-1].base_offset for pid, state in states.items()}

    def below(self, end_offset: int) -> dict[int, ProducerState]:
        """The states as they follow from the log before an offset; safe from any thread."""
        kept = {}
        for producer_id, state in self._states.copy().items():
            batches = tuple(seen for seen in state.batches if seen.last_offset < end_offset)
            if not batches:
                continue
            next_sequence = batches[-1].last_sequence + 1 & _SEQUENCE_MASK
            kept[producer_id] = state._replace(batches=batches, next_sequence=next_sequence)
        return kept


def _check_unusual(state: ProducerState, header: BatchHeader) -> SeenBatch | None:
    epoch, first = header.producer_epoch, header.base_sequence
    who = f"producer {header.producer_id}"
    if epoch < state.epoch:
        raise InvalidProducerEpoch(f"{who} wrote under epoch {epoch}, it is at {state.epoch}")
    if epoch > state.epoch:
        if first == 0:
            return None
        raise OutOfOrderSequence(f"{who} began epoch {epoch} with sequence {first}, not 0")
    last = first + header.last_offset_delta & _SEQUENCE_MASK
    for seen in state.batches:
        if seen.base_sequence == first and seen.last_sequence == last:
            return seen
    raise OutOfOrderSequence(f"{who} sent sequence {first}, expected {state.next_sequence}")


# Snapshots ----------------------------------------------------------------------------------

_MAGIC: Final = b"NXPS"
_VERSION: Final = 1
_HEAD: Final = struct.Struct("<4sHIq")
_BODY: Final = struct.Struct("<qqqI")
_PRODUCER: Final = struct.Struct("<qhqB")
_BATCH: Final = struct.Struct("<iiqq")
_OPEN: Final = -1


class Snapshot(NamedTuple):
    """The producers before an offset, and what the last segment looked like then."""

    offset: int
    states: dict[int, ProducerState]
    segment: int
    segment_created_ms: int
    # How many bytes the last segment had when the log was closed; -1 while it was open.
    closed_size: int = _OPEN


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """A snapshot as bytes that carry a checksum."""
    offset, states, segment, created_ms, closed_size = snapshot
    body = [_BODY.pack(segment, created_ms, closed_size, len(states))]
    for producer_id, state in states.items():
        body.append(_PRODUCER.pack(producer_id, state.epoch, state.time_ms, len(state.batches)))
        body.extend(_BATCH.pack(*seen) for seen in state.batches)
    payload = b"".join(body)
    return _HEAD.pack(_MAGIC, _VERSION, crc32c(payload), offset) + payload


def decode_snapshot(data: bytes) -> Snapshot | None:
    """The snapshot in some bytes; None where they are damaged."""
    try:
        magic, version, checksum, offset = _HEAD.unpack_from(data)
        payload = data[_HEAD.size :]
        if magic != _MAGIC or version != _VERSION or crc32c(payload) != checksum:
            return None
        segment, created_ms, closed_size, count = _BODY.unpack_from(payload)
        states = dict(_decode_states(payload, _BODY.size, count))
    except struct.error:
        return None
    return Snapshot(offset, states, segment, created_ms, closed_size)


def _decode_states(payload: bytes, at: int, count: int) -> Iterable[tuple[int, ProducerState]]:
    for _ in range(count):
        producer_id, epoch, time_ms, batch_count = _PRODUCER.unpack_from(payload, at)
        at += _PRODUCER.size
        stop = at + batch_count * _BATCH.size
        batches = tuple(map(SeenBatch._make, _BATCH.iter_unpack(payload[at:stop])))
        at = stop
        next_sequence = batches[-1].last_sequence + 1 & _SEQUENCE_MASK if batches else 0
        yield producer_id, ProducerState(epoch, next_sequence, batches, time_ms)
