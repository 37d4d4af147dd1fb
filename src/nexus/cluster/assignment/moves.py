"""What a change of brokers or of strategy would move, before it moves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from nexus.cluster.assignment.port import Assignment, Node, Replicas, Strategy, Wanted


class Change(NamedTuple):
    """A partition's replicas now and then."""

    topic: str
    partition: int
    before: Replicas
    after: Replicas

    @property
    def copies(self) -> tuple[int, ...]:
        """The brokers that would have to fetch the partition."""
        return tuple(node for node in self.after if node not in self.before)


@dataclass(frozen=True, slots=True)
class Plan:
    """What would change, of how much there is."""

    changes: tuple[Change, ...]
    partitions: int
    replicas: int

    @property
    def copied(self) -> int:
        """How many replicas would be made."""
        return sum(len(change.copies) for change in self.changes)

    @property
    def leaders_moved(self) -> int:
        return sum(change.before[:1] != change.after[:1] for change in self.changes)


def assigned(strategy: Strategy, topics: Sequence[Wanted], nodes: Sequence[Node]) -> Assignment:
    """Every topic as a strategy spreads it."""
    return {wanted.topic: strategy.assign(wanted, nodes) for wanted in topics}


def plan(before: Assignment, after: Assignment) -> Plan:
    """What lies between two assignments."""
    changes = tuple(_changes(before, after))
    every = [replicas for partitions in after.values() for replicas in partitions]
    return Plan(changes, len(every), sum(map(len, every)))


def _changes(before: Assignment, after: Assignment) -> Iterator[Change]:
    for topic, partitions in sorted(after.items()):
        known = before.get(topic, ())
        for number, replicas in enumerate(partitions):
            was = known[number] if number < len(known) else ()
            if was != replicas:
                yield Change(topic, number, was, replicas)
