"""One HTTP client that takes messages: what it holds, and what waits to be sent to it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Final

from nexus.proxy.sharing.deliveries import Delivered

# What waits for a client that does not read: beyond it, no more is taken for it.
READY_BYTES_MAX: Final = 256 << 10
OVERHEAD_BYTES: Final = 200
Place = tuple[int, int]  # partition and offset


class Consumer:
    """Holds at most `most` messages that are not settled."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.held: dict[Place, float] = {}  # until when
        self.ready: deque[Delivered] = deque()
        self.ready_bytes = 0
        self.is_ended = False
        self._news = asyncio.Event()

    @property
    def room(self) -> int:
        if self.is_ended or self.ready_bytes >= READY_BYTES_MAX:
            return 0
        return self.most - len(self.held)

    def give(self, delivered: Sequence[Delivered], until: float) -> None:
        """Hand it messages, which it holds until then."""
        self.held.update(dict.fromkeys([one.place for one in delivered], until))
        self.ready += delivered
        self.ready_bytes += sum(map(size_of, delivered))
        self._news.set()

    def settled(self, place: Place) -> None:
        """A message is not its any more."""
        self.held.pop(place, None)

    def forget_expired(self, now: float) -> int:
        """Messages whose time is up go to others; how many there were."""
        # They were given in the order in which their times end.
        expired = 0
        while self.held:
            place = next(iter(self.held))
            if self.held[place] > now:
                break
            del self.held[place]
            expired += 1
        return expired

    def end(self) -> None:
        """Nothing more will come."""
        self.is_ended = True
        self._news.set()

    async def wait(self, timeout_s: float) -> bool:
        """Wait for a message, or for the end; false when the time was up first."""
        if self.ready or self.is_ended:
            return True
        self._news.clear()
        try:
            async with asyncio.timeout(timeout_s):
                await self._news.wait()
        except TimeoutError:
            return False
        return True

    def take(self, most_bytes: int) -> list[Delivered]:
        """What is ready, up to about so many bytes and at least one, if its time is not up."""
        taken: list[Delivered] = []
        size = 0
        while self.ready and size < most_bytes:
            delivered = self.ready.popleft()
            self.ready_bytes -= size_of(delivered)
            if delivered.place in self.held:
                taken.append(delivered)
                size += size_of(delivered)
        return taken


def size_of(delivered: Delivered) -> int:
    """About how many bytes a message takes here."""
    return len(delivered.record.value or b"") + OVERHEAD_BYTES


def shares(consumers: Iterable[Consumer], count: int) -> list[tuple[Consumer, int]]:
    """How many of some messages go to whom, so that the least room that is left is the most."""
    free = [(consumer.room, consumer) for consumer in consumers]
    free = sorted((one for one in free if one[0] > 0), key=itemgetter(0), reverse=True)
    total = 0  # the room of the first ones
    for number, (room, _) in enumerate(free, 1):
        total += room
        following = free[number][0] if number < len(free) else 0
        if total - number * following >= count:
            # Only these get some, and afterwards all of them have the same room, or one more.
            left, more = divmod(total - count, number)
            return [
                (consumer, taken)
                for at, (own, consumer) in enumerate(free[:number])
                if (taken := own - left - (at < more)) > 0
            ]
    return [(consumer, room) for room, consumer in free]
