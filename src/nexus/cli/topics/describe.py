"""`nexus topics describe`: one topic's partitions, offsets and settings."""

from typing import Annotated, Any

import typer
from confluent_kafka import TopicPartition
from confluent_kafka.admin import ConfigResource, ConfigSource, ResourceType

from nexus.cli.kafka import REQUEST_TIMEOUT_S, Bootstrap, Bounds, Cluster, collect, connect
from nexus.cli.lazy import single_app
from nexus.cli.output import Failures, JsonFlag, print_json, print_table
from nexus.cli.topics.list import topic_id
from nexus.cli.topics.options import Topic

app = single_app()


@app.command()
def describe(
    topic: Topic,
    *,
    all_: Annotated[
        bool, typer.Option("--all", help="Also the settings that are as by default.")
    ] = False,
    bootstrap: Bootstrap = None,
    json: JsonFlag = False,
) -> int:
    """Show a topic's partitions with leader and offsets, and the settings that are its own.

    \b
    Examples:
      nexus topics describe gpu-telemetry
      nexus topics describe gpu-telemetry --all --json
    """
    cluster, failures = connect(bootstrap), Failures()
    description = cluster.describe([topic], failures).get(topic)
    if description is None:
        return failures.exit_code
    asked = [TopicPartition(topic, p.id) for p in description.partitions]
    bounds = cluster.bounds(asked, failures)
    document = {
        "topic": topic,
        "id": topic_id(description),
        "internal": bool(description.is_internal),
        "partitions": [_partition(topic, p, bounds) for p in description.partitions],
        "configs": _configs(cluster, topic, all_, failures),
    }
    if json:
        print_json(document)
    else:
        _print(document)
    return failures.exit_code


def _partition(
    topic: str, partition: Any, bounds: dict[tuple[str, int], Bounds]
) -> dict[str, object]:
    found = bounds.get((topic, partition.id))
    return {
        "partition": partition.id,
        "leader": partition.leader.id if partition.leader is not None else None,
        "replicas": [node.id for node in partition.replicas],
        "isr": [node.id for node in partition.isr],
        "start": found.start if found else None,
        "end": found.end if found else None,
        "messages": found.end - found.start if found else None,
    }


def _configs(cluster: Cluster, topic: str, every: bool, failures: Failures) -> dict[str, object]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    futures = cluster.admin.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_S)
    configs: dict[str, object] = {}
    for entries in collect(futures, failures, lambda _: f"settings of {topic}").values():
        for name, entry in sorted(entries.items()):
            own = entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
            if every or own:
                configs[name] = {"value": entry.value, "default": not own}
    return configs


def _print(document: dict[str, Any]) -> None:
    print(f"topic {document['topic']}  id {document['id'] or '-'}")
    columns = ("partition", "leader", "replicas", "isr", "start", "end", "messages")
    rows = [[_text(p[column]) for column in columns] for p in document["partitions"]]
    print_table(columns, rows)
    if not document["configs"]:
        print("settings: all as by default (--all shows them)")
        return
    settings = document["configs"].items()
    rows = [[name, c["value"], "default" if c["default"] else "topic"] for name, c in settings]
    print_table(("setting", "value", "source"), rows)


def _text(value: object) -> object:
    return ",".join(map(str, value)) if isinstance(value, list) else value
