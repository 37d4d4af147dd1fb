"""Which partition a message goes to: by its key as Kafka's own producers, or in turn."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from nexus.cluster.assignment.ring import Ring
from nexus.proxy.topology import Topology
from nexus.queue.partitioners import murmur2


class Place(NamedTuple):
    """A partition, and the one that the key belongs to where that is another."""

    partition: int
    home: int | None = None


class Routing:
    """Chooses partitions of the topics that a topology knows."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._current: dict[str, int] = {}  # where messages without a key go for now

    def by_key(self, topic: str, key: bytes, partitions: int, *, may_move: bool) -> Place:
        """A key's partition; while its static owner is down, the next one on the key's walk."""
        home = murmur2(key) % partitions
        if not (may_move and self._topology.is_static) or self._topology.is_up(topic, home):
            return Place(home)
        for partition in _ring(partitions, self._topology.virtual_nodes).from_place(key):
            if self._topology.is_up(topic, partition):
                return Place(partition, home)
        return Place(home)

    def in_turn(self, topic: str, partitions: int) -> Place:
        """The same one until `turn`: messages that come together travel together."""
        partition = self._current.get(topic, 0) % partitions
        if self._topology.is_up(topic, partition):
            return Place(partition)
        for step in range(1, partitions):
            other = (partition + step) % partitions
            if self._topology.is_up(topic, other):
                self._current[topic] = other
                return Place(other)
        return Place(partition)

    def turn(self, topic: str, partition: int) -> None:
        """A batch has left for a partition: what comes next goes to the next one."""
        if self._current.get(topic, 0) == partition:
            self._current[topic] = partition + 1


@lru_cache(maxsize=64)
def _ring(partitions: int, virtual_nodes: int) -> Ring:
    return Ring(range(partitions), virtual_nodes)
