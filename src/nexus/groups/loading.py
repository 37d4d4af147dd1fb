"""Rebuilds groups from the records of their partition: the last value of a key counts.

A record that cannot be read is counted and passed over; the rest of the partition still loads.
"""

from __future__ import annotations

from collections.abc import Iterable

from nexus.groups.group import Group
from nexus.groups.records import (
    GroupKey,
    GroupValue,
    OffsetValue,
    decode_group_value,
    decode_key,
    decode_offset_value,
)
from nexus.groups.requests import TopicPartition
from nexus.wire.errors import MalformedMessage

Record = tuple[bytes | None, bytes | None]


class Loader:
    """Takes records in the log's order; `groups` is what they amount to."""

    def __init__(self, skipped: int = 0) -> None:
        self.skipped = skipped
        self._values: dict[str, GroupValue] = {}
        self._offsets: dict[str, dict[TopicPartition, OffsetValue]] = {}

    def load(self, records: Iterable[Record]) -> None:
        for key, value in records:
            try:
                self._replay(key, value)
            except MalformedMessage:
                self.skipped += 1

    def _replay(self, key: bytes | None, value: bytes | None) -> None:
        if key is None:
            raise MalformedMessage("a record has no key")
        name = decode_key(bytes(key))
        if isinstance(name, GroupKey):
            self._replay_group(name.group_id, value)
            return
        offsets = self._offsets.setdefault(name.group_id, {})
        place = (name.topic, name.partition)
        if value is not None:
            offsets[place] = decode_offset_value(bytes(value))
        else:
            offsets.pop(place, None)

    def _replay_group(self, group_id: str, value: bytes | None) -> None:
        if value is None:
            self._values.pop(group_id, None)
        else:
            self._values[group_id] = decode_group_value(bytes(value))

    def groups(self, now_ms: int) -> dict[str, Group]:
        """The groups with a generation or an offset to their name."""
        groups: dict[str, Group] = {}
        for group_id, value in self._values.items():
            groups[group_id] = Group(group_id, now_ms)
            groups[group_id].restore(value)
        for group_id, offsets in self._offsets.items():
            if offsets:
                group = groups.setdefault(group_id, Group(group_id, now_ms))
                group.offsets.committed.update(offsets)
        return groups
