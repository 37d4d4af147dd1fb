"""What an import asks of a list or a stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from nexus.queue.redis.entries import Entry


@dataclass(slots=True)
class Found:
    """Entries that an import did not take for the first time, or that it came too late for."""

    recovered: int = 0  # taken by an import that ended before the queue had confirmed them
    claimed: int = 0  # in the hands of a consumer that was silent for too long
    gone: int = 0  # of a stream, trimmed away before anybody had acknowledged them


class Source(Protocol):
    """Entries stay in Redis until they are done, and are given again after a new `open`."""

    found: Found

    def open(self, confirmed: Sequence[Entry] = ()) -> None:
        """Begin, or begin anew after a break, of which the queue holds `confirmed`.

        Taken if another import is at it; WrongKind if the key is something else.
        """

    def renew(self) -> None:
        """Tell the other imports that this one lives; Taken if one of them has taken over."""

    def take(self, most: int, most_bytes: int) -> list[Entry]:
        """Some entries in their order, none if none is there now."""

    def done(self, entries: Sequence[Entry], refused: Sequence[Entry] = ()) -> None:
        """The queue holds these, or some were refused, which are set aside: in order of `take`."""

    def left(self) -> int:
        """How many are not done, in whoever's hands; new ones only where Redis can tell."""

    def close(self) -> None:
        """Let others import; safe to call twice."""
