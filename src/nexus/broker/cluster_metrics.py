"""What a broker of a cluster exports beside the rest, and adds to /health.

Read off the view and the partitions when somebody scrapes; a broker alone has none of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from nexus.cluster.partition_state import PartitionState

if TYPE_CHECKING:
    from nexus.broker.broker import Broker

Rows = Iterable[tuple[tuple[str, ...], float]]


def watch_cluster(broker: Broker) -> None:
    """Add the gauges of a cluster to a broker's metrics."""
    gauge = broker.metrics.registry.gauge
    replicas, view = broker.replicas, broker.cluster.view
    me = broker.settings.broker.id
    gauge("nexus_cluster_brokers", "Brokers that live.", collect=lambda: [((), len(view.members))])
    gauge(
        "nexus_cluster_is_controller",
        "1 on the broker that is the controller.",
        collect=lambda: [((), float(view.controller == me))],
    )
    gauge(
        "nexus_cluster_partitions_offline",
        "Partitions that nobody leads.",
        collect=lambda: [((), len(_offline(broker)))],
    )
    gauge(
        "nexus_cluster_partitions_under_replicated",
        "Partitions led here that have fewer replicas in sync than they should.",
        collect=lambda: [((), len(_under_replicated(broker)))],
    )
    gauge(
        "nexus_cluster_leaders",
        "Partitions that are led here.",
        collect=lambda: [((), len(replicas.led()))],
    )
    gauge(
        "nexus_cluster_replicas",
        "Partitions that are kept here.",
        collect=lambda: [((), sum(1 for _ in broker.topics.partitions()))],
    )
    gauge(
        "nexus_cluster_elections",
        "Times that this broker was made the leader of a partition since it started.",
        collect=lambda: [((), replicas.elections)],
    )
    gauge(
        "nexus_cluster_in_sync_shrinks",
        "Times that an in-sync set became smaller here since the broker started.",
        collect=lambda: [((), replicas.shrinks)],
    )
    gauge(
        "nexus_cluster_replication_errors",
        "Failed attempts to copy from a leader since the broker started.",
        collect=lambda: [((), replicas.errors)],
    )
    gauge(
        "nexus_cluster_replication_lag",
        "Messages that a follower is behind the leader here.",
        ("topic", "partition", "follower"),
        collect=lambda: _lags(broker),
    )
    gauge(
        "nexus_cluster_replication_lag_seconds",
        "Seconds since a follower had all that the leader here has.",
        ("topic", "partition", "follower"),
        collect=lambda: _lag_seconds(broker),
    )


def cluster_health(broker: Broker) -> dict[str, object]:
    """The cluster as this broker sees it, for /health."""
    view = broker.cluster.view
    return {
        "cluster": {
            "brokers": sorted(view.members),
            "controller": view.controller,
            "leaders": len(broker.replicas.led()),
            "offline": _offline(broker),
            "under_replicated": _under_replicated(broker),
            "damaged": damaged(broker),
        }
    }


def damaged(broker: Broker) -> dict[str, str]:
    """What is damaged here and not mended yet."""
    return {f"{topic}/{number}": what for (topic, number), what in broker.repairs.damaged.items()}


def _states(broker: Broker) -> Iterable[tuple[str, PartitionState]]:
    view = broker.cluster.view
    for name, info in view.topics.items():
        for number in range(info.partitions):
            if (state := view.state(name, number)) is not None:
                yield f"{name}/{number}", state


def _offline(broker: Broker) -> list[str]:
    live = broker.cluster.view.members
    return [name for name, state in _states(broker) if state.leader not in live]


def _under_replicated(broker: Broker) -> list[str]:
    me = broker.settings.broker.id
    return [
        name for name, state in _states(broker) if state.leader == me and state.is_under_replicated
    ]


def _lags(broker: Broker) -> Rows:
    for partition in broker.replicas.led():
        if (leading := partition.leading) is not None:
            for node, end in leading.ends().items():
                behind = leading.end - max(end, partition.log.start_offset)
                yield (partition.topic, str(partition.index), str(node)), max(behind, 0)


def _lag_seconds(broker: Broker) -> Rows:
    now = broker.loop.time()
    for partition in broker.replicas.led():
        if (leading := partition.leading) is not None:
            for node, seconds in leading.behind_s(now).items():
                yield (partition.topic, str(partition.index), str(node)), seconds
