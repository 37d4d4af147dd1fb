"""What the group commands ask a cluster: groups, their members, their committed offsets."""

from typing import Annotated, Any

import typer
from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions

from nexus.cli.kafka import (
    REQUEST_TIMEOUT_S,
    Cluster,
    KafkaProblem,
    collect,
    explain_any,
    result_of,
)
from nexus.cli.output import Failures

Group = Annotated[str, typer.Argument(metavar="GROUP", help="The consumer group.")]
Partition = tuple[str, int]


def group_ids(cluster: Cluster, failures: Failures) -> list[str]:
    """Every group of every broker that answers."""
    future = cluster.admin.list_consumer_groups(request_timeout=REQUEST_TIMEOUT_S)
    listing = result_of(future, f"groups at {cluster.bootstrap}")
    for error in listing.errors or []:
        failures.add(f"groups: {explain_any(error)}")
    return sorted(group.group_id for group in listing.valid or [])


def describe_groups(cluster: Cluster, groups: list[str], failures: Failures) -> dict[str, Any]:
    """State and members of each."""
    if not groups:
        return {}
    futures = cluster.admin.describe_consumer_groups(groups, request_timeout=REQUEST_TIMEOUT_S)
    return collect(futures, failures, lambda name: f"group {name}")


def describe_group(cluster: Cluster, group: str) -> Any:
    """One group; a broker answers for one that does not exist as if it were dead."""
    futures = cluster.admin.describe_consumer_groups([group], request_timeout=REQUEST_TIMEOUT_S)
    description = result_of(futures[group], f"group {group}")
    if description.state == ConsumerGroupState.DEAD and not description.members:
        raise KafkaProblem(f"group {group} does not exist (see nexus groups list)")
    return description


def committed(cluster: Cluster, group: str) -> dict[Partition, int]:
    """The offsets a group has committed; a partition without one is left out."""
    futures = cluster.admin.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group)], request_timeout=REQUEST_TIMEOUT_S
    )
    answer = result_of(futures[group], f"offsets of group {group}")
    return {
        (p.topic, p.partition): p.offset for p in answer.topic_partitions or [] if p.offset >= 0
    }


def state_name(description: Any) -> str:
    """`stable`, `empty`, `preparing rebalance`, …"""
    return str(description.state.name).replace("_", " ").lower()
