"""Reads keys of the store at one revision: many ranges in few calls, none of them large.

What etcd says is put into the words of the port: a store that does not answer is StoreAway, and a
revision that was compacted away is RevisionGone.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple, TypeVar

from nexus.etcd.blocking import BlockingClient
from nexus.etcd.errors import Compacted, EtcdError, ResponseTooLarge
from nexus.etcd.keys import Keys
from nexus.etcd.operations import Get
from nexus.etcd.results import KeyValue, TxnResult
from nexus.store.errors import StoreAway, TooMuch

KEYS_AT_ONCE: Final = 10_000  # of one call, as far as counts tell
RANGE_KEYS: Final = 5_000  # of one range in a call
DOCUMENTS_AT_ONCE: Final = 64
OPERATIONS_MOST: Final = 128  # more in one call save nothing
SECONDS_MAX: Final = 20.0

T = TypeVar("T")


class RevisionGone(StoreAway):
    """Raised when the revision of a snapshot was compacted away: a newer one has what is left."""


class Counted(NamedTuple):
    """How many keys a range has, and the first of them."""

    keys: int
    first: KeyValue | None


class Asked(NamedTuple):
    """A range to be read, and about how many keys it has."""

    keys: Keys
    about: float = 1.0


class Reader:
    """Reads for any number of threads."""

    def __init__(self, client: BlockingClient, name: str) -> None:
        self._client = client
        self._name = name
        self._operations: int | None = None

    def together(self, gets: Sequence[Get]) -> TxnResult:
        """Several reads, all at one revision, which are few enough for one call."""
        with self._translated():
            return self._client.txn(then=gets)

    def counted(self, ranges: Sequence[Keys], revision: int) -> list[Counted]:
        """How many keys each range has; of their values only the first is sent."""
        found: list[Counted] = []
        for some in _portions(ranges, self._most()):
            gets = [Get(keys, limit=1, revision=revision) for keys in some]
            answer = self.together(gets)
            got = (answer.got(number) for number in range(len(gets)))
            found += [Counted(each.total, each.first) for each in got]
        return found

    def changed(
        self, keys: Sequence[bytes], revision: int, since: int = 0
    ) -> dict[bytes, bytes | None]:
        """The values of those of the keys that were put after a revision; None: it is not there."""
        found: dict[bytes, bytes | None] = {}
        waiting = deque(_portions(keys, min(DOCUMENTS_AT_ONCE, self._most())))
        while waiting:
            some = waiting.popleft()
            gets = [Get(Keys(key), revision=revision, mod_from=since + 1) for key in some]
            try:
                answer = self.together(gets)
            except ResponseTooLarge as error:
                if len(some) == 1:
                    raise TooMuch(f"store {self._name}: {error}") from error
                waiting.extendleft((some[len(some) // 2 :], some[: len(some) // 2]))
                continue
            for number, key in enumerate(some):
                got = answer.got(number)
                if got.first is not None or not got.total:
                    found[key] = got.first.value if got.first else None
        return found

    def items(
        self, ranges: Sequence[Asked], revision: int, clock: Callable[[], float] = time.monotonic
    ) -> Iterator[list[KeyValue]]:
        """Everything in the ranges, in portions; each range in the order of its keys."""
        until = clock() + SECONDS_MAX
        waiting = deque(ranges)
        limit = RANGE_KEYS
        while waiting:
            if clock() > until:
                raise TooMuch("too much had to be read: ask for less time or fewer GPUs")
            some = self._next(waiting)
            gets = [Get(asked.keys, limit=limit, revision=revision) for asked in some]
            try:
                answer = self.together(gets)
            except ResponseTooLarge as error:
                if limit == 1:
                    raise TooMuch(f"store {self._name}: {error}") from error
                limit = max(1, limit // 4)
                waiting.extendleft(reversed(some))
                continue
            found: list[KeyValue] = []
            left: list[Asked] = []
            for number, asked in enumerate(some):
                got = answer.got(number)
                found += got.items
                if got.more and got.items:
                    rest = asked.keys.after(got.items[-1].key)
                    left.append(Asked(rest, got.total - len(got.items)))
            waiting.extendleft(reversed(left))
            yield found

    def _next(self, waiting: deque[Asked]) -> list[Asked]:
        """As many ranges as one call takes."""
        some: list[Asked] = []
        about = 0.0
        while waiting and len(some) < self._most():
            about += min(waiting[0].about, RANGE_KEYS)
            if some and about > KEYS_AT_ONCE:
                break
            some.append(waiting.popleft())
        return some

    def _most(self) -> int:
        """The operations that the server takes in one call."""
        if self._operations is None:
            with self._translated():
                self._operations = min(OPERATIONS_MOST, self._client.limits().operations)
        return self._operations

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except ResponseTooLarge:
            raise
        except Compacted as error:
            raise RevisionGone(f"store {self._name}: {error}") from error
        except EtcdError as error:
            raise StoreAway(f"store {self._name}: {error}") from error


def _portions(all_of: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(all_of), size):
        yield all_of[start : start + size]
