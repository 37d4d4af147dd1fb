"""Which strategy a name stands for, and the assignment as it is now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nexus.cluster.assignment.dynamic import Dynamic
from nexus.cluster.assignment.modulo import Modulo
from nexus.cluster.assignment.port import Assignment, Strategy
from nexus.cluster.assignment.ring import RingStrategy
from nexus.cluster.port import View

STRATEGY: Final = "partition.strategy"  # what a topic's own choice is called


def strategy_for(
    name: str, current: Assignment, loads: Mapping[tuple[str, int], float] | None = None
) -> Strategy:
    """The strategy of that name; only `dynamic` looks at what there is."""
    if name == "modulo":
        return Modulo()
    if name == "dynamic":
        return Dynamic(current, loads or {})
    return RingStrategy()


def assignment_of(view: View) -> Assignment:
    """Who holds what, or will once what moves has moved."""
    return {
        name: tuple(
            (state.target or state.replicas) if state is not None else ()
            for number in range(info.partitions)
            for state in [view.state(name, number)]
        )
        for name, info in view.topics.items()
    }
