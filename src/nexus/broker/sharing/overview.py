"""What can be seen of share groups at this broker: for operators and for /metrics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from nexus.observe.metrics import Counter, Registry

if TYPE_CHECKING:
    from nexus.broker.sharing.sharing import Sharing

STABLE: Final = "Stable"
EMPTY: Final = "Empty"
Rows = Iterable[tuple[tuple[str, ...], float]]


def share_groups(sharing: Sharing) -> dict[str, str]:
    """The groups that this broker knows of, each with its state."""
    sharing.groups.tick(sharing.now_ms())
    present = {*sharing.groups.groups, *(one.key.group for one in sharing.sessions)}
    known = {*present, *(queue.group for queue in sharing.led()), *sharing.states.all_groups()}
    return {name: STABLE if name in present else EMPTY for name in sorted(known)}


class ShareCounts:
    """What became of the messages of one group in one topic, since the broker started."""

    def __init__(self, registry: Registry) -> None:
        labels = ("group", "topic")
        self._delivered = registry.counter(
            "nexus_broker_share_delivered",
            "Messages given to members of a share group, each attempt counted.",
            labels,
        )
        self._acknowledged = registry.counter(
            "nexus_broker_share_acknowledged",
            "Messages that members of a share group were done with.",
            labels,
        )
        self._dead = registry.counter(
            "nexus_broker_share_dead_lettered",
            "Messages that a share group put into a dead-letter topic.",
            labels,
        )

    def of(self, group: str, topic: str) -> tuple[Counter, Counter, Counter]:
        """Delivered, acknowledged, dead."""
        families = (self._delivered, self._acknowledged, self._dead)
        delivered, acknowledged, dead = (f.labels(group=group, topic=topic) for f in families)
        return delivered, acknowledged, dead

    def forget_topic(self, topic: str) -> None:
        """Drop the counters of a topic that was deleted."""
        for family in (self._delivered, self._acknowledged, self._dead):
            family.forget(topic=topic)


def watch_sharing(registry: Registry, sharing: Sharing) -> None:
    """Add the gauges that are read off the queues at each scrape."""
    labels = ("group", "topic", "partition")
    registry.gauge(
        "nexus_broker_share_depth",
        "Messages of a partition that a share group has not finished.",
        labels,
        collect=lambda: _by_queue(sharing, "waiting"),
    )
    registry.gauge(
        "nexus_broker_share_in_flight",
        "Messages that members of a share group hold, or gave back for later.",
        labels,
        collect=lambda: _by_queue(sharing, "in_flight"),
    )
    registry.gauge(
        "nexus_broker_share_groups",
        "Share groups that this broker knows of.",
        collect=lambda: [((), len(share_groups(sharing)))],
    )


def _by_queue(sharing: Sharing, attribute: str) -> Rows:
    for queue in sharing.led():
        partition = queue.partition
        labels = (queue.group, partition.topic, str(partition.index))
        yield labels, getattr(queue, attribute)
