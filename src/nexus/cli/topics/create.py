"""`nexus topics create`: new topics, with their partitions and settings."""

from typing import Annotated, Final

import typer
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import NewTopic

from nexus.cli.kafka import REQUEST_TIMEOUT_S, Bootstrap, KafkaProblem, connect, result_of
from nexus.cli.lazy import single_app
from nexus.cli.output import Failures, JsonFlag, print_json
from nexus.cli.topics.options import Configs, Topics, assignments

app = single_app()

_BROKERS_CHOICE: Final = -1


@app.command()
def create(
    topics: Topics,
    *,
    partitions: Annotated[
        int | None, typer.Option(min=1, help="Partitions of each.  [default: the broker's]")
    ] = None,
    replication_factor: Annotated[
        int | None, typer.Option(min=1, help="Copies of each.  [default: the broker's]")
    ] = None,
    config: Configs = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Leave topics that exist as they are.")
    ] = False,
    bootstrap: Bootstrap = None,
    json: JsonFlag = False,
) -> int:
    """Create topics.

    \b
    Examples:
      nexus topics create gpu-telemetry --partitions 12
      nexus topics create state --config cleanup.policy=compact --if-not-exists
      nexus topics create logs -c retention.ms=86400000 -c compression.type=zstd
    """
    configs = assignments(config)
    new = [
        NewTopic(
            name,
            num_partitions=partitions or _BROKERS_CHOICE,
            replication_factor=replication_factor or _BROKERS_CHOICE,
            config=configs,
        )
        for name in topics
    ]
    cluster, failures = connect(bootstrap), Failures()
    futures = cluster.admin.create_topics(new, request_timeout=REQUEST_TIMEOUT_S)
    results = {}
    for name, future in futures.items():
        if if_not_exists and _exists(future.exception(REQUEST_TIMEOUT_S * 2)):
            results[name] = "exists"
            continue
        try:
            result_of(future, f"topic {name}")
            results[name] = "created"
        except KafkaProblem as error:
            failures.add(str(error))
            results[name] = "failed"
    _print(results, json)
    return failures.exit_code


def _exists(error: BaseException | None) -> bool:
    return (
        isinstance(error, KafkaException)
        and error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    )


def _print(results: dict[str, str], json: bool) -> None:
    if json:
        print_json([{"topic": name, "result": result} for name, result in results.items()])
        return
    for name, result in results.items():
        if result != "failed":
            print(f"{name}: {'already there' if result == 'exists' else result}")
