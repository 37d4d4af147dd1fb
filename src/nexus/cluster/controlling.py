"""What the controller decides when it looks at the cluster: which partitions change, and how.

It looks at everything anew each time and keeps nothing, so that any broker can take over.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from nexus.cluster.partition_state import (
    PartitionState,
    elected,
    handed_over,
    moved,
    restarted,
)

PartitionKey = tuple[str, int]  # topic and number


@dataclass(frozen=True, slots=True)
class Seen:
    """The cluster as the controller sees it."""

    live: Collection[int]
    partitions: Mapping[PartitionKey, PartitionState]
    leaving: Collection[int] = ()  # brokers that are being drained: they should lead nothing
    unclean: Collection[str] = ()  # topics that rather lose records than wait
    # When each live process was admitted: what it led before that, another process led.
    registered: Mapping[int, int] = field(default_factory=dict)
    unsure: Collection[int] = ()  # brokers that may have lost what they had acknowledged


def needed(seen: Seen) -> dict[PartitionKey, PartitionState]:
    """The changes that cannot wait: the dead lead nothing and hold up nothing."""
    found = {
        key: moved(
            elected(_restarted(state, seen), seen.live, unclean=key[0] in seen.unclean), seen.live
        )
        for key, state in seen.partitions.items()
    }
    return _changed(found, seen)


def preferred(seen: Seen) -> dict[PartitionKey, PartitionState]:
    """The changes that even out leadership: each partition goes to the first that can lead it."""
    found = {
        key: handed_over(state, seen.live, seen.leaving) for key, state in seen.partitions.items()
    }
    return _changed(found, seen)


def offline(seen: Seen) -> list[PartitionKey]:
    """The partitions that nobody leads."""
    return sorted(key for key, state in seen.partitions.items() if state.is_offline)


def _restarted(state: PartitionState, seen: Seen) -> PartitionState:
    """The state without what processes did that have ended since."""
    version = state.version
    for node in {state.leader, *(n for n in state.in_sync if n in seen.unsure)}:
        if seen.registered.get(node, 0) > version:
            state = restarted(state, node, kept_all=node not in seen.unsure)
    return state


def _changed(
    found: Mapping[PartitionKey, PartitionState], seen: Seen
) -> dict[PartitionKey, PartitionState]:
    return {key: state for key, state in found.items() if state != seen.partitions[key]}
