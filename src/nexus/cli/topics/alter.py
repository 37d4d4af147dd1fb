"""`nexus topics alter`: more partitions, other settings."""

from concurrent.futures import Future
from typing import Annotated, Any

import typer
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)

from nexus.cli.kafka import REQUEST_TIMEOUT_S, Bootstrap, Cluster, collect, connect
from nexus.cli.lazy import single_app
from nexus.cli.output import Failures, JsonFlag, print_json
from nexus.cli.topics.options import Configs, Topic, assignments
from nexus.settings.errors import SettingsError

app = single_app()


@app.command()
def alter(
    topic: Topic,
    *,
    partitions: Annotated[
        int | None, typer.Option(min=1, help="Grow to this many partitions.")
    ] = None,
    config: Configs = None,
    unset: Annotated[
        list[str] | None,
        typer.Option("--unset", metavar="KEY", help="Back to the default; may be repeated."),
    ] = None,
    bootstrap: Bootstrap = None,
    json: JsonFlag = False,
) -> int:
    """Change a topic. Partitions can be added, never taken away; keys may then move to others.

    \b
    Examples:
      nexus topics alter gpu-telemetry --partitions 24
      nexus topics alter gpu-telemetry --config retention.ms=604800000 --unset segment.ms
    """
    changes = assignments(config)
    if partitions is None and not changes and not unset:
        raise SettingsError("nothing to change: give --partitions, --config or --unset")
    cluster, failures = connect(bootstrap), Failures()
    done: list[str] = []
    if changes or unset:
        futures = _alter_configs(cluster, topic, changes, unset or [])
        if collect(futures, failures, lambda _: f"topic {topic}"):
            done += [f"{key}={value}" for key, value in changes.items()]
            done += [f"{key} unset" for key in unset or []]
    if partitions is not None:
        grown = cluster.admin.create_partitions(
            [NewPartitions(topic, partitions)], request_timeout=REQUEST_TIMEOUT_S
        )
        if collect(grown, failures, lambda name: f"topic {name}"):
            done.append(f"partitions={partitions}")
    _print(topic, done, json)
    return failures.exit_code


def _alter_configs(
    cluster: Cluster, topic: str, changes: dict[str, str], unset: list[str]
) -> dict[Any, Future[Any]]:
    entries = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        for key, value in changes.items()
    ]
    entries += [
        ConfigEntry(key, None, incremental_operation=AlterConfigOpType.DELETE) for key in unset
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    return cluster.admin.incremental_alter_configs([resource], request_timeout=REQUEST_TIMEOUT_S)


def _print(topic: str, done: list[str], json: bool) -> None:
    if json:
        print_json({"topic": topic, "changed": done})
    elif done:
        print(f"{topic}: {', '.join(done)}")
