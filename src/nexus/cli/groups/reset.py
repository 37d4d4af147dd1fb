"""`nexus groups reset`: moves a group's committed offsets; a dry run unless told to do it."""

import time
from collections.abc import Iterable
from typing import Annotated, Any

import typer
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from nexus.cli.groups.lookup import Group, Partition, committed, describe_groups
from nexus.cli.kafka import (
    REQUEST_TIMEOUT_S,
    Bootstrap,
    Cluster,
    KafkaProblem,
    connect,
    explain,
    result_of,
)
from nexus.cli.lazy import single_app
from nexus.cli.moments import parse_moment
from nexus.cli.output import Failures, JsonFlag, print_json, print_table
from nexus.cli.starts import Selector, pick, starts
from nexus.settings.errors import SettingsError

app = single_app()


@app.command()
def reset(
    group: Group,
    *,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the first.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the end.")] = False,
    to_offset: Annotated[int | None, typer.Option(min=0, help="To this offset.")] = None,
    to_time: Annotated[
        str | None, typer.Option(metavar="TIME", help="To the first at or after a time, or 1h ago.")
    ] = None,
    shift_by: Annotated[
        int | None, typer.Option(metavar="N", help="Forward by N, or back by -N.")
    ] = None,
    topic: Annotated[
        list[str] | None, typer.Option(help="Only this topic; repeatable. [default: all it reads]")
    ] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Do it, not only show it.")] = False,
    bootstrap: Bootstrap = None,
    json: JsonFlag = False,
) -> int:
    """Move where a group reads on. The group must have no members; a dry run unless --execute.

    \b
    Examples:
      nexus groups reset pipeline --to-earliest
      nexus groups reset pipeline --topic gpu-telemetry --to-time 2h --execute
      nexus groups reset pipeline --shift-by -1000 --execute
    """
    selector = _selector(to_earliest, to_latest, to_offset, to_time, shift_by)
    cluster, failures = connect(bootstrap), Failures()
    current = committed(cluster, group)
    partitions = _partitions(cluster, group, current, topic or [])
    targets = _targets(cluster, partitions, current, selector, failures)
    if execute and targets:
        _refuse_members(cluster, group, failures)
        _commit(cluster, group, targets, failures)
    _print(group, current, targets, done=execute, json=json)
    return failures.exit_code


def _selector(
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    to_time: str | None,
    shift_by: int | None,
) -> Selector:
    now_ms = time.time_ns() // 1_000_000
    given: list[Selector] = []
    if to_earliest:
        given.append(("beginning", 0))
    if to_latest:
        given.append(("end", 0))
    if to_offset is not None:
        given.append(("offset", to_offset))
    if to_time is not None:
        given.append(("time", parse_moment(to_time, "--to-time", now_ms)))
    if shift_by is not None:
        given.append(("shift", shift_by))
    if len(given) != 1:
        raise SettingsError(
            "give one of --to-earliest, --to-latest, --to-offset, --to-time or --shift-by"
        )
    return given[0]


def _partitions(
    cluster: Cluster, group: str, current: Iterable[Partition], topics: list[str]
) -> list[TopicPartition]:
    if topics:
        return [TopicPartition(t, p) for t in topics for p in cluster.partitions_of(t)]
    found = sorted(current)
    if not found:
        raise KafkaProblem(f"group {group} has committed no offsets; name a topic with --topic")
    return [TopicPartition(topic, partition) for topic, partition in found]


def _targets(
    cluster: Cluster,
    partitions: list[TopicPartition],
    current: dict[Partition, int],
    selector: Selector,
    failures: Failures,
) -> dict[Partition, int]:
    if selector[0] != "shift":
        return starts(cluster, partitions, selector, failures)
    bounds = cluster.bounds(partitions, failures)
    return {
        key: pick(found, "offset", current.get(key, found.start) + selector[1])
        for key, found in bounds.items()
    }


def _refuse_members(cluster: Cluster, group: str, failures: Failures) -> None:
    found = describe_groups(cluster, [group], failures)
    members = [member for description in found.values() for member in description.members]
    if members:
        raise KafkaProblem(
            f"group {group} has {len(members)} member(s), first {members[0].client_id}"
            f" at {members[0].host}; stop them before moving its offsets"
        )


def _commit(
    cluster: Cluster, group: str, targets: dict[Partition, int], failures: Failures
) -> None:
    request = ConsumerGroupTopicPartitions(
        group, [TopicPartition(topic, p, offset) for (topic, p), offset in targets.items()]
    )
    futures = cluster.admin.alter_consumer_group_offsets(
        [request], request_timeout=REQUEST_TIMEOUT_S
    )
    answer = result_of(futures[group], f"group {group}")
    for partition in answer.topic_partitions or []:
        if partition.error is not None:
            failures.add(
                f"group {group} {partition.topic} partition {partition.partition}:"
                f" {explain(partition.error)}"
            )
            targets.pop((partition.topic, partition.partition), None)


def _print(
    group: str,
    current: dict[Partition, int],
    targets: dict[Partition, int],
    *,
    done: bool,
    json: bool,
) -> None:
    rows: list[dict[str, Any]] = [
        {"topic": t, "partition": p, "from": current.get((t, p)), "to": offset}
        for (t, p), offset in sorted(targets.items())
    ]
    if json:
        print_json({"group": group, "executed": done, "partitions": rows})
        return
    print_table(("topic", "partition", "from", "to"), [tuple(row.values()) for row in rows])
    if not done:
        print("dry run: nothing was changed; add --execute to do it")
