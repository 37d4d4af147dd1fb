"""Which partition a GPU's readings go to: Kafka's murmur2 by key, in turn, or a user's function."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from itertools import count
from typing import Final, Protocol

from nexus.queue.errors import QueueError

_CACHE_MAX: Final = 1_000_000
_M: Final = 0x5BD1E995
_U32: Final = 0xFFFFFFFF


class Partitioner(Protocol):
    """Chooses partitions. `by_key` says whether equal keys always go to one partition."""

    @property
    def by_key(self) -> bool: ...
    def partition(self, key: str, partitions: int) -> int: ...


def murmur2(key: bytes) -> int:
    """The hash that Java's producer and librdkafka's `murmur2` use, as 31 bits."""
    length = len(key)
    h = (0x9747B28C ^ length) & _U32
    whole = length & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(key[at : at + 4], "little") * _M & _U32
        h = (h * _M & _U32) ^ ((k ^ k >> 24) * _M & _U32)
    if rest := key[whole:]:
        h = (h ^ int.from_bytes(rest, "little")) * _M & _U32
    h = (h ^ h >> 13) * _M & _U32
    return (h ^ h >> 15) & 0x7FFFFFFF


class ByKey:
    """A function of the key, computed once for each key."""

    by_key = True

    def __init__(self, choose: Callable[[str, int], int]) -> None:
        self._choose = choose
        self._known: dict[tuple[str, int], int] = {}

    def partition(self, key: str, partitions: int) -> int:
        known = self._known.get((key, partitions))
        if known is not None:
            return known
        chosen = self._choose(key, partitions)
        if isinstance(chosen, bool) or not isinstance(chosen, int) or not 0 <= chosen < partitions:
            raise QueueError(
                f"the partitioner said {chosen!r} for {key!r}; expected 0 to {partitions - 1}"
            )
        if len(self._known) >= _CACHE_MAX:
            self._known.clear()
        self._known[key, partitions] = chosen
        return chosen


class RoundRobin:
    """Each message to the next partition: the most even, but a GPU's order is not kept."""

    by_key = False

    def __init__(self) -> None:
        self._turn = count()

    def partition(self, key: str, partitions: int) -> int:
        return next(self._turn) % partitions


def partitioner_named(name: str) -> Partitioner:
    """`murmur2`, `round-robin`, or `module:function`, called as function(uuid, partitions)."""
    if name == "murmur2":
        return ByKey(lambda key, partitions: murmur2(key.encode()) % partitions)
    if name == "round-robin":
        return RoundRobin()
    module, separator, function = name.partition(":")
    if not separator:
        raise QueueError(f"partitioner {name}: expected murmur2, round-robin or module:function")
    try:
        choose = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise QueueError(f"partitioner {name}: {error}") from error
    if not callable(choose):
        raise QueueError(f"partitioner {name}: {function} is not a function")
    return ByKey(choose)
