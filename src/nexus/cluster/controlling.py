"""What the controller decides when it looks at the cluster: which partitions change, and how.

It looks at everything anew each time and keeps nothing, so that any broker can take over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from nexus.cluster.partition_state import (
    PartitionState,
    elected,
    handed_over,
    moved,
    moving,
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


def rebuilt(seen: Seen, gone: Collection[int], at_once: int) -> dict[PartitionKey, PartitionState]:
    """The moves that replace brokers which will not come back: to those that carry least.

    No more are begun than leave `at_once` under way.
    """
    staying = [node for node in seen.live if node not in seen.leaving]
    carried = Counter(dict.fromkeys(staying, 0))
    for state in seen.partitions.values():
        carried.update(node for node in state.target or state.replicas if node in carried)
    room = at_once - sum(bool(state.target) for state in seen.partitions.values())
    found: dict[PartitionKey, PartitionState] = {}
    for key, state in sorted(seen.partitions.items()):
        if len(found) >= room:
            break
        if state.is_offline or state.target or not set(state.replicas) & set(gone):
            continue
        target = list(state.replicas)
        for at, node in enumerate(target):
            fit = [one for one in staying if one not in target]
            if node in gone and fit:
                target[at] = min(fit, key=lambda one: (carried[one], one))
                carried[target[at]] += 1
        if tuple(target) != state.replicas:
            found[key] = moving(state, tuple(target))
    return found


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
