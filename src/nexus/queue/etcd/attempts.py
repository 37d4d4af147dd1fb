"""How often a message failed, and why; after the last attempt it is a dead letter.

`.meta/failed/{slot}/{name}` counts, and goes when the message does. A dead letter lies under the
dead-letter prefix as the message was, without an end; `.meta/dead/{slot}/{name}` says why.
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from nexus.etcd import Keys
from nexus.queue.etcd.layout import Layout, Slot

MAX_ATTEMPTS: Final = 5
RETRY_S: Final = 1.0  # before the second attempt; twice that before the third, and so on
_REASON_CHARACTERS: Final = 500
_RETRY_MOST_S: Final = 300.0


class Failure(NamedTuple):
    """A message's last failure, and how many it has had."""

    attempts: int
    reason: str
    worker: str
    at_ms: int

    def again_at_ms(self, retry_s: float = RETRY_S) -> int:
        """When it is to be tried again: later each time, since most causes pass."""
        pause_s = min(retry_s * 2.0 ** min(self.attempts - 1, 30), _RETRY_MOST_S)
        return self.at_ms + int(pause_s * 1000)

    def to_json(self) -> bytes:
        return json.dumps(self._asdict(), ensure_ascii=False).encode()

    @classmethod
    def of(cls, value: bytes) -> Failure:
        """What a record says; one that says nothing clear counts as one failure long ago."""
        try:
            said = json.loads(value)
            return cls(
                max(1, int(said["attempts"])),
                str(said["reason"]),
                str(said["worker"]),
                int(said["at_ms"]),
            )
        except (ValueError, KeyError, TypeError):
            return cls(1, "unknown", "", 0)


def next_failure(before: int, reason: str, worker: str, now_ms: int) -> Failure:
    """The failure of a message that has failed `before` times already."""
    return Failure(before + 1, reason[:_REASON_CHARACTERS], worker, now_ms)


class Places(NamedTuple):
    """Where a slot's failures and dead letters are written."""

    layout: Layout
    slot: Slot

    def failures(self) -> Keys:
        return self.layout.metas("failed", str(self.slot))

    def failure(self, key: bytes) -> bytes:
        return self.failures().start + self._name(key)

    def message_of(self, failure: bytes) -> bytes:
        """The message's key that a failure's record belongs to."""
        return self.layout.slot(self.slot).start + failure.removeprefix(self.failures().start)

    def dead_letter(self, key: bytes) -> bytes:
        return self.layout.dead_letter(key)

    def cause(self, key: bytes) -> bytes:
        """Where it is said why a message became a dead letter."""
        return self.layout.metas("dead", str(self.slot)).start + self._name(key)

    def _name(self, key: bytes) -> bytes:
        return key.removeprefix(self.layout.slot(self.slot).start)
