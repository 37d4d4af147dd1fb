"""`nexus topics tail`: a topic's messages as they come, from any point in it."""

import json as json_format
import sys
import time
from typing import Annotated, Any, Final

import typer
from confluent_kafka import Consumer, KafkaError, TopicPartition

from nexus.cli.kafka import Bootstrap, Cluster, KafkaProblem, connect, explain
from nexus.cli.lazy import single_app
from nexus.cli.moments import format_moment, parse_moment
from nexus.cli.output import Failures, JsonFlag
from nexus.cli.payload import as_json, as_text
from nexus.cli.starts import starts
from nexus.cli.topics.options import Topic

app = single_app()

_POLL_S: Final = 0.2
_BATCH: Final = 500


@app.command()
def tail(
    topic: Topic,
    *,
    from_: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="WHERE",
            help="beginning, end, -N (the last N of each partition), or a time:"
            " 2025-07-18T20:42:34Z, 1h (ago), epoch milliseconds.",
        ),
    ] = "end",
    partition: Annotated[
        list[int] | None, typer.Option("--partition", "-p", help="Only this one; repeatable.")
    ] = None,
    max_: Annotated[
        int | None, typer.Option("--max", metavar="N", min=1, help="Stop after N messages.")
    ] = None,
    until_end: Annotated[
        bool, typer.Option("--until-end", help="Stop at the end instead of waiting for more.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Headers too.")] = False,
    bootstrap: Bootstrap = None,
    json: JsonFlag = False,
) -> int:
    """Print messages as they come: partition:offset, time, key, value. Joins no group.

    \b
    Examples:
      nexus topics tail gpu-telemetry
      nexus topics tail gpu-telemetry --from -10 --until-end
      nexus topics tail gpu-telemetry --from 1h --max 100 --json
    """
    cluster, failures = connect(bootstrap), Failures()
    assignment = _assignment(cluster, topic, partition, from_, failures)
    if not assignment:
        return failures.exit_code
    reader = cluster.reader(**{"enable.partition.eof": True, "auto.offset.reset": "earliest"})
    try:
        reader.assign(assignment)
        _print_messages(reader, len(assignment) if until_end else None, max_, verbose, json)
    finally:
        reader.close()
    return failures.exit_code


def _assignment(
    cluster: Cluster, topic: str, only: list[int] | None, where: str, failures: Failures
) -> list[TopicPartition]:
    known = cluster.partitions_of(topic)
    unknown = sorted(set(only or []) - set(known))
    if unknown:
        raise KafkaProblem(f"topic {topic} has no partition {unknown[0]} (it has {len(known)})")
    partitions = [TopicPartition(topic, p) for p in only or known]
    found = starts(cluster, partitions, _selector(where), failures)
    return [TopicPartition(topic, p, offset) for (_, p), offset in found.items()]


def _selector(where: str) -> tuple[str, int]:
    if where in ("beginning", "end"):
        return where, 0
    if where.startswith("-") and where[1:].isdecimal():
        return "last", int(where[1:])
    return "time", parse_moment(where, "--from", time.time_ns() // 1_000_000)


def _print_messages(
    reader: Consumer, ends_awaited: int | None, limit: int | None, verbose: bool, json: bool
) -> None:
    """Until the limit or, when they are awaited, until every partition has come to its end."""
    at_end: set[int] = set()
    left = limit
    while left != 0 and (ends_awaited is None or len(at_end) < ends_awaited):
        for message in reader.consume(min(_BATCH, left or _BATCH), _POLL_S):
            error = message.error()
            if error is not None:
                _note(error, message.partition(), at_end)
                continue
            print(_as_json_line(message) if json else _as_line(message, verbose))
            left = None if left is None else left - 1
        sys.stdout.flush()


def _note(error: KafkaError, partition: int | None, at_end: set[int]) -> None:
    if error.code() == KafkaError._PARTITION_EOF and partition is not None:
        at_end.add(partition)
    elif not error.retriable():
        raise KafkaProblem(f"reading partition {partition}: {explain(error)}")


def _as_line(message: Any, verbose: bool) -> str:
    headers = message.headers() or []
    line = "  ".join(
        (
            f"{message.partition()}:{message.offset()}",
            format_moment(message.timestamp()[1]) or "-",
            as_text(message.key()),
            as_text(message.value(), headers),
        )
    )
    if not verbose:
        return line
    return "\n".join([line, *(f"    {as_text(k.encode())}: {as_text(v)}" for k, v in headers)])


def _as_json_line(message: Any) -> str:
    return json_format.dumps(
        {
            "topic": message.topic(),
            "partition": message.partition(),
            "offset": message.offset(),
            "timestamp": format_moment(message.timestamp()[1]),
            "key": as_json(message.key()),
            "value": as_json(message.value()),
            "headers": [[name, as_json(value)] for name, value in message.headers() or []],
        },
        ensure_ascii=False,
    )
