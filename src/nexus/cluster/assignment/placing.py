"""Puts replicas on brokers in the order in which each partition prefers them.

What strategies share: distinct brokers, distinct racks while there are any left, and a bound on
how much of a topic one broker may get.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import ceil, inf

from nexus.cluster.assignment.port import Node, Replicas
from nexus.cluster.errors import NotEnoughBrokers


def place(
    preferences: Sequence[Sequence[int]],
    replication: int,
    nodes: Sequence[Node],
    slack: float = inf,
) -> tuple[Replicas, ...]:
    """The replicas of each partition.

    No broker leads, or holds, more than its even share of the topic times 1 + `slack`, rounded up.
    """
    if not 0 < replication <= len(nodes):
        raise NotEnoughBrokers(replication, len(nodes))
    racks = {node.id: node.rack for node in nodes}
    leads: Counter[int] = Counter()
    led_most = _bound(len(preferences), len(nodes), slack)
    placed: list[Replicas] = []
    for order in preferences:
        leader = next((n for n in order if leads[n] < led_most), order[0])
        leads[leader] += 1
        placed.append((leader,))
    holds = Counter(leads)
    for copies in range(2, replication + 1):
        held_most = _bound(len(preferences) * copies, len(nodes), slack)
        for partition, order in enumerate(preferences):
            node = _next(order, placed[partition], racks, holds, held_most)
            holds[node] += 1
            placed[partition] += (node,)
    return tuple(placed)


def _bound(replicas: int, nodes: int, slack: float) -> float:
    return inf if slack == inf else ceil(replicas / nodes * (1 + slack))


def _next(
    order: Iterable[int],
    taken: Replicas,
    racks: Mapping[int, str],
    holds: Mapping[int, int],
    most: float,
) -> int:
    """The broker that is preferred among those of another rack and with room, while there are."""
    used = {racks[node] for node in taken}
    free = [node for node in order if node not in taken]
    apart = [node for node in free if racks[node] not in used] or free
    return next((node for node in apart if holds[node] < most), apart[0])
