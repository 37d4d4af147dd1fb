"""The records of one partition of the state topic: changes, and now and then all that is known.

A key has one record for the whole state and a ring of records for changes, so compaction keeps a
bounded number of them. Whoever leads a partition in a later epoch shuts out the earlier leaders:
a change that comes with an earlier epoch than one that was seen is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple
from uuid import UUID

from nexus.groups.sharing.effects import Record
from nexus.groups.sharing.ranges import runs_of
from nexus.groups.sharing.stored import Stored

# So many changes, then the whole state again: a reader never needs more than these.
CHANGES_MAX: Final = 64
FORMAT: Final = 0
NOT_STARTED: Final = -1
_WHOLE: Final = 255
_KEY: Final = Struct(">BB16si")  # format, slot, topic id, partition; the group follows
_HEAD: Final = Struct(">BiqqII")  # format, epoch, number, start, ranges, runs of attempts
_RANGE: Final = Struct(">qq")
_RUN: Final = Struct(">qqi")

KeyValue = tuple[bytes, bytes | None]


class StateKey(NamedTuple):
    """Which partition, in which group."""

    group: str
    topic_id: UUID
    partition: int


class Fenced(Exception):
    """Raised when a later leader of the partition has read or written already."""


@dataclass(slots=True)
class _Entry:
    stored: Stored
    epoch: int
    number: int = 0  # of changes so far
    is_started: bool = False


class StateLog:
    """Every state that one partition of the state topic holds."""

    def __init__(self) -> None:
        self._entries: dict[StateKey, _Entry] = {}
        self.skipped = 0

    def load(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        """Take what the log has, in order."""
        for key, value in records:
            try:
                self._load(key or b"", value)
            except (StructError, UnicodeDecodeError, ValueError):
                self.skipped += 1

    def groups(self, topic_id: UUID, partition: int) -> list[str]:
        """The groups that have a state for a partition."""
        return [key.group for key in self._entries if key[1:] == (topic_id, partition)]

    def all_groups(self) -> set[str]:
        """Every group that has a state here."""
        return {key.group for key in self._entries}

    def read(self, key: StateKey, epoch: int) -> tuple[Record, list[KeyValue]]:
        """What is stored, and what to store so that earlier leaders stay shut out."""
        entry = self._entered(key, epoch)
        entry.number += 1
        record = entry.stored.record()
        if not entry.is_started:
            record = record._replace(start=NOT_STARTED)
        return record, [(_encode_key(key, _WHOLE), _encode(entry, record))]

    def write(self, key: StateKey, epoch: int, change: Record) -> list[KeyValue]:
        """Add a change; returns what to store."""
        entry = self._entered(key, epoch)
        if not entry.is_started:
            entry.stored, entry.is_started = Stored(Record(change.start)), True
        entry.stored.apply(change)
        entry.number += 1
        slot = entry.number % CHANGES_MAX
        if slot == 0:
            return [(_encode_key(key, _WHOLE), _encode(entry, entry.stored.record()))]
        return [(_encode_key(key, slot), _encode(entry, change))]

    def forget(self, topic_id: UUID) -> list[KeyValue]:
        """A topic is gone; returns what to store."""
        gone = [key for key in self._entries if key.topic_id == topic_id]
        for key in gone:
            del self._entries[key]
        slots = [*range(1, CHANGES_MAX), _WHOLE]
        return [(_encode_key(key, slot), None) for key in gone for slot in slots]

    def _entered(self, key: StateKey, epoch: int) -> _Entry:
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry(Stored(Record(0)), epoch)
        if epoch < entry.epoch:
            raise Fenced(f"epoch {epoch} is over; {entry.epoch} was seen")
        entry.epoch = epoch
        return entry

    def _load(self, raw_key: bytes, value: bytes | None) -> None:
        slot, key = _decode_key(raw_key)
        if value is None:
            self._entries.pop(key, None)
            return
        epoch, number, record = _decode(value)
        entry = self._entries.get(key)
        is_started = record.start != NOT_STARTED
        if slot == _WHOLE:
            stored = Stored(record if is_started else Record(0))
            self._entries[key] = _Entry(stored, epoch, number, is_started)
        elif entry is None or not entry.is_started:
            stored = Stored(Record(record.start))
            stored.apply(record)
            self._entries[key] = _Entry(stored, epoch, number, is_started=True)
        elif number > entry.number:
            # What is older than the whole state is in it.
            entry.stored.apply(record)
            entry.epoch, entry.number = max(epoch, entry.epoch), number


def _encode_key(key: StateKey, slot: int) -> bytes:
    return _KEY.pack(FORMAT, slot, key.topic_id.bytes, key.partition) + key.group.encode()


def _decode_key(raw: bytes) -> tuple[int, StateKey]:
    version, slot, topic_id, partition = _KEY.unpack_from(raw)
    if version != FORMAT:
        raise ValueError(f"format {version}")
    return slot, StateKey(raw[_KEY.size :].decode(), UUID(bytes=topic_id), partition)


def _encode(entry: _Entry, record: Record) -> bytes:
    runs = runs_of(record.attempts)
    head = _HEAD.pack(
        FORMAT, entry.epoch, entry.number, record.start, len(record.finished), len(runs)
    )
    return b"".join(
        (
            head,
            *(_RANGE.pack(*pair) for pair in record.finished),
            *(_RUN.pack(*run) for run in runs),
        )
    )


def _decode(value: bytes) -> tuple[int, int, Record]:
    version, epoch, number, start, ranges, runs = _HEAD.unpack_from(value)
    if version != FORMAT or len(value) != _HEAD.size + ranges * _RANGE.size + runs * _RUN.size:
        raise ValueError("a state that cannot be read")
    middle = _HEAD.size + ranges * _RANGE.size
    finished = tuple(_RANGE.iter_unpack(value[_HEAD.size : middle]))
    attempts = tuple(
        (offset, count)
        for first, last, count in _RUN.iter_unpack(value[middle:])
        for offset in range(first, last + 1)
    )
    return epoch, number, Record(start, finished, attempts)
