"""Logs for tests: batches made in a line, a clock that stands still, and what a log holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nexus.log import Append, LogConfig, PartitionLog
from nexus.wire.batch import BatchHeader, check_from_client, iter_headers
from nexus.wire.compression import Codec
from nexus.wire.records import Record, decode_records, encode_batch

START_MS = 1_700_000_000_000

Pair = tuple[bytes | None, bytes | None]


@dataclass
class Clock:
    """Time that passes only when told to."""

    now_ms: int = START_MS

    def __call__(self) -> int:
        return self.now_ms


@dataclass(frozen=True)
class Producer:
    """An idempotent producer's place in its sequence."""

    producer_id: int
    epoch: int = 0
    sequence: int = 0


def make_batch(
    pairs: Sequence[Pair],
    *,
    at_ms: int = START_MS,
    producer: Producer | None = None,
    codec: Codec = Codec.NONE,
    step_ms: int = 0,
) -> memoryview:
    """A batch as a client would send it; record n has the time `at_ms + n * step_ms`."""
    records = [Record(n, at_ms + n * step_ms, key, value) for n, (key, value) in enumerate(pairs)]
    if producer is None:
        return memoryview(encode_batch(records, codec=codec))
    return memoryview(
        encode_batch(
            records,
            codec=codec,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=producer.sequence,
        )
    )


def values(*contents: bytes) -> list[Pair]:
    """Records without keys."""
    return [(None, content) for content in contents]


def append(log: PartitionLog, batch: memoryview, leader_epoch: int = 0) -> Append:
    """Append as the broker does: check, then hand over."""
    header: BatchHeader = check_from_client(batch)
    return log.append(batch, header, leader_epoch)


def append_values(log: PartitionLog, *contents: bytes, at_ms: int = START_MS) -> Append:
    return append(log, make_batch(values(*contents), at_ms=at_ms))


def open_log(
    directory: Path,
    config: LogConfig | None = None,
    *,
    recovery_point: int | None = None,
    clean: bool = False,
    clock: Clock | None = None,
) -> PartitionLog:
    return PartitionLog.open(
        directory,
        config or LogConfig(),
        recovery_point=recovery_point,
        clean=clean,
        now_ms=clock or Clock(),
    )


def records_of(data: bytes) -> list[Record]:
    """The records in whole batches."""
    view = memoryview(data)
    found: list[Record] = []
    for at, header in iter_headers(view):
        found += decode_records(view[at : at + header.size])
    return found


def next_offset_of(data: bytes) -> int:
    """The offset at which a reader of these batches goes on."""
    return [header.next_offset for _, header in iter_headers(data)][-1]


def read_all(
    log: PartitionLog, *, start: int | None = None, upto: int | None = None, max_bytes: int = 4096
) -> list[Record]:
    """What a consumer gets that reads from one offset to another, as consumers do."""
    offset = log.start_offset if start is None else start
    limit = log.end_offset if upto is None else upto
    found: list[Record] = []
    while (piece := log.read(offset, max_bytes, limit)) is not None:
        data = piece.read()
        found += [record for record in records_of(data) if record.offset >= offset]
        offset = next_offset_of(data)
    return found
