"""Where a watch stands: answers of the server in, whole batches of events out; no I/O.

Every revision is delivered once and in order, over any number of streams: what was seen before is
skipped, and pieces of a revision that was cut up are put together again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from nexus.etcd.errors import Compacted, EtcdError
from nexus.etcd.results import KeyValue, key_value

_DELETE = 1


class Event(NamedTuple):
    """A key was put or deleted. A deleted one has only its key and the revision of its end."""

    deleted: bool
    item: KeyValue
    previous: KeyValue | None

    @property
    def key(self) -> bytes:
        return self.item.key


class WatchBatch(NamedTuple):
    """All events up to `revision` since the batch before; none where it only tells progress."""

    revision: int
    events: tuple[Event, ...]


class WatchRefused(EtcdError):
    """Raised when the server ends a watch for a reason that is not the watch's position."""


class Cursor:
    """The position of one watch. `next_revision` 0 is: from now on, wherever that is."""

    def __init__(self, next_revision: int = 0) -> None:
        self.next_revision = next_revision
        self._pieces: list[Event] = []

    def restart(self) -> None:
        """A new stream begins: what came in pieces and is not whole will come again."""
        self._pieces.clear()

    def take(self, response: Any) -> WatchBatch | None:
        """The batch that an answer completes, if it does.

        Compacted when the position is no more, WatchRefused when the server ends the watch.
        """
        if response.canceled:
            raise _refusal(response)
        if response.created:
            # From here nothing is missed, even if the stream breaks before the first event.
            self.next_revision = self.next_revision or response.header.revision + 1
            return None
        self._pieces += [_event(each) for each in response.events]
        if response.fragment:
            return None
        return self._whole(response.header.revision)

    def _whole(self, header_revision: int) -> WatchBatch | None:
        events = tuple(e for e in self._pieces if e.item.mod_revision >= self.next_revision)
        told_progress = not self._pieces
        self._pieces.clear()
        if events:
            revision = events[-1].item.mod_revision
        elif told_progress and header_revision >= self.next_revision:
            revision = header_revision
        else:
            return None
        self.next_revision = revision + 1
        return WatchBatch(revision, events)


def _event(message: Any) -> Event:
    previous = key_value(message.prev_kv) if message.HasField("prev_kv") else None
    return Event(message.type == _DELETE, key_value(message.kv), previous)


def _refusal(response: Any) -> EtcdError:
    if response.compact_revision:
        return Compacted(
            f"etcd watch: compacted up to revision {response.compact_revision}",
            response.compact_revision,
        )
    return WatchRefused(response.cancel_reason or "etcd ended the watch without a reason")
