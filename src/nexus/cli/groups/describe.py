"""`nexus groups describe`: who reads which partition, how far, and how much is left."""

from typing import Any

from confluent_kafka import TopicPartition

from nexus.cli.groups.lookup import Group, Partition, committed, describe_group, state_name
from nexus.cli.kafka import Bootstrap, Bounds, connect
from nexus.cli.lazy import single_app
from nexus.cli.output import Failures, JsonFlag, print_json, print_table

app = single_app()


@app.command()
def describe(group: Group, *, bootstrap: Bootstrap = None, json: JsonFlag = False) -> int:
    """Show a group's partitions: committed offset, end, lag, member and host; and the total lag.

    \b
    Examples:
      nexus groups describe pipeline
      nexus groups describe pipeline --json
    """
    cluster, failures = connect(bootstrap), Failures()
    description = describe_group(cluster, group)
    offsets = committed(cluster, group)
    owners = _owners(description)
    partitions = sorted(offsets.keys() | owners.keys())
    bounds = cluster.bounds([TopicPartition(t, p) for t, p in partitions], failures)
    rows = [_row(p, offsets.get(p), bounds.get(p), owners.get(p)) for p in partitions]
    lags = [row["lag"] for row in rows if isinstance(row["lag"], int)]
    document: dict[str, Any] = {
        "group": group,
        "state": state_name(description),
        "assignor": description.partition_assignor or None,
        "members": len(description.members),
        "lag": sum(lags),
        "partitions": rows,
    }
    if json:
        print_json(document)
    else:
        _print(document)
    return failures.exit_code


def _owners(description: Any) -> dict[Partition, Any]:
    """The member that each partition is assigned to."""
    return {
        (p.topic, p.partition): member
        for member in description.members
        if member.assignment is not None
        for p in member.assignment.topic_partitions
    }


def _row(
    partition: Partition, offset: int | None, bounds: Bounds | None, member: Any
) -> dict[str, object]:
    return {
        "topic": partition[0],
        "partition": partition[1],
        "committed": offset,
        "end": bounds.end if bounds else None,
        "lag": _lag(offset, bounds),
        "member": member.member_id if member else None,
        "client": member.client_id if member else None,
        "host": member.host if member else None,
    }


def _lag(offset: int | None, bounds: Bounds | None) -> int | None:
    """What is left to read; of a group that has committed nothing, all that is there."""
    if bounds is None:
        return None
    return max(0, bounds.end - (bounds.start if offset is None else offset))


def _print(document: dict[str, Any]) -> None:
    print(
        f"group {document['group']}  state {document['state']}"
        f"  members {document['members']}  total lag {document['lag']}"
    )
    columns = ("topic", "partition", "committed", "end", "lag", "member", "client", "host")
    print_table(columns, [[row[column] for column in columns] for row in document["partitions"]])
