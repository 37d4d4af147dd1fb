"""Consistent hashing: brokers and partitions are points on a ring, the next broker holds it.

A broker has many points, so that shares are about even and its going moves its own part alone. A
topic of few partitions would still be spread badly: no broker gets more of one topic than its even
share and a little, what is over goes to the next one on the ring.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Final

from nexus.cluster.assignment.placing import place
from nexus.cluster.assignment.port import Node, Replicas, Wanted

VIRTUAL_NODES: Final = 150
SLACK: Final = 0.1


def number_of(text: bytes) -> int:
    """The place of a name on the ring."""
    return int.from_bytes(sha256(text).digest()[:8], "big")


class Ring:
    """Names on a ring, each with many points."""

    def __init__(self, names: Iterable[int], virtual_nodes: int = VIRTUAL_NODES) -> None:
        points = sorted(
            (number_of(f"{name}#{point}".encode()), name)
            for name in names
            for point in range(virtual_nodes)
        )
        self._places = [place for place, _ in points]
        self._owners = [name for _, name in points]
        self._count = len(set(self._owners))

    def from_place(self, key: bytes) -> list[int]:
        """All names in the order in which the ring comes to them from a key's place."""
        at = bisect(self._places, number_of(key))
        found: dict[int, None] = {}
        for name in (*self._owners[at:], *self._owners[:at]):
            found.setdefault(name)
            if len(found) == self._count:
                break
        return list(found)


class RingStrategy:
    """The default: few moves when brokers come and go."""

    def __init__(self, virtual_nodes: int = VIRTUAL_NODES, slack: float = SLACK) -> None:
        self._virtual_nodes = virtual_nodes
        self._slack = slack

    def assign(self, wanted: Wanted, nodes: Sequence[Node]) -> tuple[Replicas, ...]:
        ring = _ring(tuple(sorted(node.id for node in nodes)), self._virtual_nodes)
        topic = wanted.topic.encode()
        orders = [ring.from_place(b"%b/%d" % (topic, n)) for n in range(wanted.partitions)]
        return place(orders, wanted.replication, nodes, self._slack)


@lru_cache(maxsize=16)
def _ring(names: tuple[int, ...], virtual_nodes: int) -> Ring:
    return Ring(names, virtual_nodes)
