"""By measured load: a new topic goes where there is least to do, and what is uneven is evened out.

Evening out moves as little as it can: from the busiest broker to the least busy, the replica that
brings the two closest, until they differ by less than is worth a move. It begins only where they
differ by much more than that, so that load which goes up and down moves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from nexus.cluster.assignment.placing import place
from nexus.cluster.assignment.port import Assignment, Node, Replicas, Wanted

TOLERANCE: Final = 0.1  # of the mean load: less is not worth a move
TRIGGER: Final = 0.3  # of the mean load: less is not worth beginning
_MOVES_MOST: Final = 10_000

Loads = Mapping[tuple[str, int], float]  # by topic and partition, in any one unit


class Move(NamedTuple):
    """One replica of a partition goes from a broker to another."""

    topic: str
    partition: int
    source: int
    target: int


class Dynamic:
    """Places topics by what brokers carry now."""

    def __init__(self, current: Assignment, loads: Loads) -> None:
        self._current = current
        self._loads = loads

    def assign(self, wanted: Wanted, nodes: Sequence[Node]) -> tuple[Replicas, ...]:
        carried = carried_by(self._current, self._loads, nodes)
        each = _mean_load(self._loads)
        orders: list[list[int]] = []
        for _ in range(wanted.partitions):
            order = sorted(carried, key=lambda node: (carried[node], node))
            for node in order[: wanted.replication]:
                carried[node] += each
            orders.append(order)
        return place(orders, wanted.replication, nodes)


def carried_by(current: Assignment, loads: Loads, nodes: Sequence[Node]) -> dict[int, float]:
    """What each broker carries. A partition that nobody measured counts as an average one."""
    each = _mean_load(loads)
    carried = {node.id: 0.0 for node in nodes}
    for topic, partitions in current.items():
        for number, replicas in enumerate(partitions):
            for node in replicas:
                if node in carried:
                    carried[node] += loads.get((topic, number), each)
    return carried


def rebalanced(
    current: Assignment,
    loads: Loads,
    nodes: Sequence[Node],
    tolerance: float = TOLERANCE,
    trigger: float = TRIGGER,
) -> list[Move]:
    """The moves that even out what the brokers carry; none unless it is uneven by `trigger`."""
    scale = _Scale(current, loads, nodes)
    moves: list[Move] = []
    if not scale.is_uneven(trigger):
        return moves
    while len(moves) < _MOVES_MOST and (move := scale.next_move(tolerance)) is not None:
        scale.carry_out(move)
        moves.append(move)
    return moves


class _Scale:
    """Brokers and what they carry, while moves are tried out."""

    def __init__(self, current: Assignment, loads: Loads, nodes: Sequence[Node]) -> None:
        each = _mean_load(loads)
        self._held = {
            (t, n): list(rs) for t, parts in current.items() for n, rs in enumerate(parts)
        }
        self._loads = {key: loads.get(key, each) for key in self._held}
        self._racks = {node.id: node.rack for node in nodes}
        self._carried = carried_by(current, loads, nodes)

    def is_uneven(self, tolerance: float) -> bool:
        """Whether the busiest and the idlest broker differ by more than this part of the mean."""
        carried = self._carried.values()
        mean = sum(carried) / max(len(carried), 1)
        return len(carried) > 1 and max(carried) - min(carried) > tolerance * mean

    def next_move(self, tolerance: float) -> Move | None:
        """The replica whose move leaves the busiest and the idlest broker closest, if any does."""
        carried = self._carried
        if not self.is_uneven(tolerance):
            return None
        busiest = max(carried, key=lambda node: (carried[node], node))
        idlest = min(carried, key=lambda node: (carried[node], node))
        gap = carried[busiest] - carried[idlest]
        movable = [
            (abs(gap - 2 * self._loads[key]), key)
            for key, nodes in self._held.items()
            if 0 < self._loads[key] < gap and self._may_move(nodes, busiest, idlest)
        ]
        return Move(*min(movable)[1], busiest, idlest) if movable else None

    def carry_out(self, move: Move) -> None:
        key = (move.topic, move.partition)
        self._held[key][self._held[key].index(move.source)] = move.target
        self._carried[move.source] -= self._loads[key]
        self._carried[move.target] += self._loads[key]

    def _may_move(self, nodes: Sequence[int], source: int, target: int) -> bool:
        """Whether replicas stay on distinct brokers, and on as many racks as before."""
        if source not in nodes or target in nodes:
            return False
        before = {self._racks.get(node, "") for node in nodes}
        after = {self._racks.get(n, "") for n in (*(n for n in nodes if n != source), target)}
        return len(after) >= len(before)


def _mean_load(loads: Loads) -> float:
    return sum(loads.values()) / len(loads) if loads and any(loads.values()) else 1.0
