"""Empties a list: what is taken lies in a second list until the queue has confirmed it.

That list (`KEY:nexus-import`) is moved to and trimmed by scripts, which are atomic and refuse to
work for an import that lost the lock, or whose count of it is wrong. Beside it a counter of what is
done numbers the elements, so that one that is sent again has the same number.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Final

from nexus.queue.errors import QueueError
from nexus.queue.redis.client import RedisAway, RedisClient
from nexus.queue.redis.entries import Entry, element_entries
from nexus.queue.redis.lock import LEASE_MS, Lock, Taken
from nexus.queue.redis.source import Found

_HELD: Final = """
local held = redis.call('GET', KEYS[1])
if held and held ~= ARGV[1] then return redis.error_reply('NEXUSTAKEN another import has it') end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
"""
_TAKE: Final = f"""{_HELD}
if redis.call('LLEN', KEYS[2]) ~= tonumber(ARGV[3]) then
  return redis.error_reply('NEXUSSTRAY not what it was')
end
local moved, size = {{}}, 0
for i = 1, tonumber(ARGV[4]) do
  local one = redis.call('LMOVE', KEYS[3], KEYS[2], ARGV[6], 'RIGHT')
  if not one then break end
  moved[i] = one
  size = size + #one
  if size >= tonumber(ARGV[5]) then break end
end
return moved
"""
# Positions of what was refused come after the count of what is done.
_DONE: Final = f"""{_HELD}
if (redis.call('GET', KEYS[3]) or '0') ~= ARGV[3] then
  return redis.error_reply('NEXUSSTRAY not what it was')
end
for i = 5, #ARGV do redis.call('RPUSH', KEYS[4], redis.call('LINDEX', KEYS[2], ARGV[i])) end
redis.call('LTRIM', KEYS[2], ARGV[4], -1)
redis.call('INCRBY', KEYS[3], ARGV[4])
return false
"""


class ListSource:
    """One list of Redis."""

    def __init__(self, client: RedisClient) -> None:
        self._client = client
        self.found = Found()
        key = client.url.name.encode()
        self._key, self._hand = key, key + b":nexus-import"
        self._counter, self._aside = self._hand + b":done", key + b":nexus-refused"
        self._lock = Lock(client, self._hand + b":lock")
        self._done = self._next = self._held = 0  # numbers: of the first in hand, of the next

    def open(self, confirmed: Sequence[Entry] = ()) -> None:
        self._client.check()
        self._lock.acquire()
        self._done = self._next = int(self._client.ask("GET", self._counter) or 0)
        in_hand = self._client.ask("LRANGE", self._hand, 0, -1)
        self._held = len(in_hand)
        known = {entry.id: entry.fields for entry in confirmed}
        found = element_entries(self._done, in_hand)
        # Redis may have come back as it was a moment ago: only what is the same is done.
        same = next((n for n, e in enumerate(found) if known.get(e.id) != e.fields), len(found))
        if same:
            self.done(found[:same])
            self._next = self._done
        self.found.recovered += self._held

    def renew(self) -> None:
        self._lock.renew()

    def take(self, most: int, most_bytes: int) -> list[Entry]:
        first, at = self._next, self._next - self._done
        if at < self._held:
            found = self._client.ask("LRANGE", self._hand, at, at + most - 1)
            found = found[: _within(found, most_bytes)]
        else:
            keys = [self._lock.name, self._hand, self._key]
            end = self._client.url.end.upper()
            found = self._script(_TAKE, keys, self._held, most, most_bytes, end)
            self._held += len(found)
        self._next += len(found)
        return element_entries(first, found)

    def done(self, entries: Sequence[Entry], refused: Sequence[Entry] = ()) -> None:
        aside = [int(entry.id) - self._done for entry in refused]
        keys = [self._lock.name, self._hand, self._counter, self._aside]
        self._script(_DONE, keys, self._done, len(entries), *aside)
        self._done += len(entries)
        self._held -= len(entries)

    def left(self) -> int:
        return sum(self._client.ask("LLEN", key) for key in (self._key, self._hand))

    def close(self) -> None:
        self._lock.release()

    def _script(self, body: str, keys: list[bytes], *words: object) -> list[bytes]:
        try:
            answer = self._client.script(body, keys, self._lock.token, LEASE_MS, *words)
        except QueueError as error:
            if "NEXUSTAKEN" in str(error):
                raise Taken(f"redis {self._client.url}: another import has taken over") from None
            if "NEXUSSTRAY" in str(error):  # as after a break, and cured in the same way
                raise RedisAway(f"redis {self._client.url}: it is not as it was") from None
            raise
        return answer or []


def _within(elements: Sequence[bytes], most_bytes: int) -> int:
    """How many of the first are so large together; one at least."""
    size = 0
    for number, element in zip(count(1), elements, strict=False):
        size += len(element)
        if size >= most_bytes:
            return number
    return len(elements)
