"""What every strategy is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

Replicas = tuple[int, ...]  # broker ids; the first should lead


class Node(NamedTuple):
    """A broker that partitions can be put on."""

    id: int
    rack: str = ""


class Wanted(NamedTuple):
    """A topic to spread."""

    topic: str
    partitions: int
    replication: int = 1


class Strategy(Protocol):
    """Spreads a topic over brokers; the same answer everywhere for the same question."""

    def assign(self, wanted: Wanted, nodes: Sequence[Node]) -> tuple[Replicas, ...]:
        """The replicas of each partition, on distinct brokers and, where it can be, racks.

        NotEnoughBrokers when there are fewer brokers than replicas.
        """


Assignment = Mapping[str, tuple[Replicas, ...]]  # by topic
