"""`nexus groups describe`: who reads which partition, how far, and how much is left."""

from typing import Any

from confluent_kafka import TopicPartition

from nexus.cli.groups.lookup import Group, Partition, committed, describe_group, state_name
from nexus.cli.groups.sharing import ShareGroup, share_groups
from nexus.cli.kafka import Bootstrap, Bounds, connect
from nexus.cli.lazy import single_app
from nexus.cli.output import Failures, JsonFlag, print_json, print_table

app = single_app()
SHARED_COLUMNS = ("topic", "partition", "start", "end", "waiting", "in flight")


@app.command()
def describe(group: Group, *, bootstrap: Bootstrap = None, json: JsonFlag = False) -> int:
    """Show a group's partitions: committed offset, end, lag, member and host; and the total lag.

    Of a share group: the first unfinished message, the end, how many wait, how many are in flight.

    \b
    Examples:
      nexus groups describe pipeline
      nexus groups describe pipeline --json
    """
    cluster, failures = connect(bootstrap), Failures()
    shared = share_groups(cluster, failures).get(group)
    if shared is not None:
        _show_shared(group, shared, as_json=json)
        return failures.exit_code
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


def _show_shared(name: str, group: ShareGroup, *, as_json: bool) -> None:
    rows = [
        {
            "topic": topic,
            "partition": partition,
            "start": queue.start_offset,
            "end": queue.end_offset,
            "waiting": queue.waiting,
            "in_flight": queue.in_flight,
        }
        for (topic, partition), queue in sorted(group.queues.items())
    ]
    members = [
        {"member": member, "host": reader.client_host}
        for member, reader in sorted(group.readers.items())
    ]
    if as_json:
        print_json(
            {
                "group": name,
                "type": "share",
                "state": group.state,
                "waiting": group.waiting,
                "members": members,
                "partitions": rows,
            }
        )
        return
    print(
        f"share group {name}  state {group.state}  members {len(members)}  waiting {group.waiting}"
    )
    print_table(SHARED_COLUMNS, [tuple(row.values()) for row in rows])
    print_table(("member", "host"), [tuple(member.values()) for member in members])


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
