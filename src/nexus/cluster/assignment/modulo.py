"""Partition number modulo the number of brokers: even, obvious, and moves most when that changes.

The shift by topic keeps the first partitions of all topics off the first broker.
"""

from __future__ import annotations

from collections.abc import Sequence

from nexus.cluster.assignment.placing import place
from nexus.cluster.assignment.port import Node, Replicas, Wanted
from nexus.cluster.assignment.ring import number_of


class Modulo:
    """Every broker in turn."""

    def assign(self, wanted: Wanted, nodes: Sequence[Node]) -> tuple[Replicas, ...]:
        ids = sorted(node.id for node in nodes)
        shift = number_of(wanted.topic.encode())
        turns = [(shift + partition) % max(len(ids), 1) for partition in range(wanted.partitions)]
        return place([ids[at:] + ids[:at] for at in turns], wanted.replication, nodes)
