"""What a worker has in hand: messages that it claimed and has not settled yet.

One hand for each claim, and one record of it in etcd (`.meta/claimed/…`, without a lease), made in
the transaction that read the messages. The record says which keys were taken; the revision that
created it is when. If the worker dies, the next owner of the slot finds the record and counts an
attempt for every message that is still there.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from nexus.etcd import Fence, Keys, KeyValue
from nexus.queue.errors import QueueError
from nexus.queue.etcd.forms import unpack_or_raw
from nexus.queue.etcd.layout import Layout, Slot, readings_in
from nexus.telemetry.frame import Frame


class ClaimLost(QueueError):
    """Raised when messages are no longer in hand: another worker has them, or will have them."""

    exit_code = 1


class Claimed(NamedTuple):
    """A message in hand: one value of the queue, which may hold many messages in packed form."""

    key: bytes
    value: bytes
    revision: int
    lease: int
    attempts: int  # how often it failed before
    hand: Hand

    @property
    def slot(self) -> Slot:
        return self.hand.slot

    @property
    def in_hand(self) -> bool:
        """Whether it is still to be settled, as far as this worker knows."""
        return self.hand.pending.get(self.key) is self

    @property
    def readings(self) -> int:
        """How many readings are inside, as its key says."""
        return readings_in(self.key)

    def messages(self) -> list[Frame]:
        """What the value holds; a value that cannot be unpacked is one message as it stands."""
        return unpack_or_raw(self.value)[0]


@dataclass(eq=False)
class Hand:
    """The messages of one claim, all of one slot, from the first to the last of its keys."""

    slot: Slot
    fence: Fence
    record: bytes  # the key of its record in etcd
    first: bytes
    last: bytes
    worker: str = ""
    at_ms: int = 0
    revision: int = 0  # when the messages were read; 0 until they are
    record_revision: int = 0  # when the record was last put
    pending: dict[bytes, Claimed] = field(default_factory=dict)
    barriers: set[bytes] = field(default_factory=set)  # keys in between that are not to be deleted
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def keys(self) -> Keys:
        """The range, the last key included."""
        return Keys(self.first, self.last + b"\x00")

    def filled(self, items: Iterable[KeyValue], revision: int, attempts: dict[bytes, int]) -> None:
        """The messages have come, as of a revision."""
        self.revision = self.record_revision = revision
        for item in items:
            if item.mod_revision <= revision:
                failed = attempts.get(item.key, 0)
                self.pending[item.key] = Claimed(
                    item.key, item.value, item.mod_revision, item.lease, failed, self
                )

    def described(self, settled: Collection[bytes] = ()) -> bytes:
        """The record's value, once some of the messages are settled."""
        left = self.pending.keys() - settled or {self.first, self.last}
        return Record(self.worker, min(left), max(left), self.at_ms).to_json()


class Record(NamedTuple):
    """What a hand's record in etcd says."""

    worker: str
    first: bytes
    last: bytes
    at_ms: int = 0

    @property
    def keys(self) -> Keys:
        return Keys(self.first, self.last + b"\x00")

    def to_json(self) -> bytes:
        first, last = (key.decode("latin-1") for key in (self.first, self.last))
        said = {"worker": self.worker, "first": first, "last": last, "at_ms": self.at_ms}
        return json.dumps(said).encode()

    @classmethod
    def of(cls, value: bytes) -> Record | None:
        """The record; None for a value that is none."""
        try:
            said = json.loads(value)
            first, last = (str(said[name]).encode("latin-1") for name in ("first", "last"))
            return cls(str(said["worker"]), first, last, int(said.get("at_ms", 0)))
        except (ValueError, KeyError, TypeError, AttributeError):
            return None


def records(layout: Layout, slot: Slot) -> Keys:
    """Where the records of a slot's hands are."""
    return layout.metas("claimed", str(slot))
