"""`nexus topics list`: every topic with its partitions, messages and id."""

from typing import Annotated, Any

import typer
from confluent_kafka import TopicPartition

from nexus.cli.kafka import Bootstrap, Bounds, connect
from nexus.cli.lazy import single_app
from nexus.cli.output import Failures, JsonFlag, print_json, print_table

app = single_app()


@app.command()
def list_topics(
    *,
    bootstrap: Bootstrap = None,
    internal: Annotated[
        bool, typer.Option("--internal", help="Also those that brokers keep for themselves.")
    ] = False,
    json: JsonFlag = False,
) -> int:
    """List topics: partitions, messages that can be read now, and id.

    \b
    Examples:
      nexus topics list
      nexus topics list --bootstrap broker-1:9092 --json
    """
    cluster, failures = connect(bootstrap), Failures()
    topics = cluster.describe(list(cluster.partitions()), failures)
    shown = {name: t for name, t in topics.items() if internal or not t.is_internal}
    asked = [TopicPartition(name, p.id) for name, t in shown.items() for p in t.partitions]
    bounds = cluster.bounds(asked, failures)
    rows = [_row(name, topic, bounds) for name, topic in shown.items()]
    if json:
        print_json(rows)
    else:
        print_table(("topic", "partitions", "messages", "id"), [tuple(r.values()) for r in rows])
    return failures.exit_code


def _row(name: str, topic: Any, bounds: dict[tuple[str, int], Bounds]) -> dict[str, object]:
    counts = [b.end - b.start for (owner, _), b in bounds.items() if owner == name]
    return {
        "topic": name,
        "partitions": len(topic.partitions),
        "messages": sum(counts) if len(counts) == len(topic.partitions) else None,
        "id": topic_id(topic),
    }


def topic_id(topic: Any) -> str | None:
    """The id as Kafka's tools write it; none where the cluster is too old to have them."""
    if topic.topic_id is None:
        return None
    return str(topic.topic_id).replace("+", "-").replace("/", "_")
