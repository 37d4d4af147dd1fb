"""What the benchmarks share: options, a topic of their own, a bar while they run, the result."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from confluent_kafka.admin import NewTopic

from nexus.bench.broker_cost import Usage, usage_of
from nexus.cli.kafka import REQUEST_TIMEOUT_S, connect, result_of
from nexus.cli.output import print_json, print_table

Messages = Annotated[int, typer.Option(min=1, help="How many messages, over all clients.")]
Size = Annotated[int, typer.Option(min=8, help="Bytes of each message.")]
Partitions = Annotated[int, typer.Option(min=1, help="Partitions of the topic that is made.")]
Producers = Annotated[int, typer.Option(min=1, help="Producer processes.")]
Consumers = Annotated[int, typer.Option(min=1, help="Consumer processes.")]
Acks = Annotated[str, typer.Option(help="0, 1 or all.")]
Compression = Annotated[str, typer.Option(help="none, gzip, snappy, lz4 or zstd.")]
Config = Annotated[
    str | None,
    typer.Option(
        "--config",
        metavar="FILE|URL",
        help="The YAML file, or etcd://host:port/key, whose performance.batch_size and linger_time"
        " producers take (or NEXUS_CONFIG names it).",
    ),
]
Http = Annotated[
    str | None,
    typer.Option(
        "--http",
        metavar="URL",
        help="The broker's side port, to read its CPU time from, e.g. http://127.0.0.1:9464.",
    ),
]


@contextmanager
def bench_topic(bootstrap: str | None, partitions: int) -> Iterator[tuple[str, str]]:
    """The brokers, and a topic on them for one measurement, deleted afterwards."""
    cluster = connect(bootstrap)
    name = f"nexus-bench-{time.time_ns() // 1_000_000}"
    new = [NewTopic(name, num_partitions=partitions, replication_factor=-1)]
    made = cluster.admin.create_topics(new, request_timeout=REQUEST_TIMEOUT_S)
    result_of(made[name], f"topic {name}")
    try:
        yield cluster.bootstrap, name
    finally:
        gone = cluster.admin.delete_topics([name], request_timeout=REQUEST_TIMEOUT_S)
        result_of(gone[name], f"topic {name}")


@contextmanager
def progress(text: str, messages: int) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal: what runs, how far it is, and for how long; told how many are done."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(text, total=messages)
        yield lambda done: bar.update(task, completed=min(done, messages))


class BrokerUsage:
    """The broker's CPU and memory over a measurement, where its side port tells."""

    def __init__(self, http: str | None) -> None:
        self._http = http
        self._before = usage_of(http)
        self.after: Usage | None = None

    def finish(self, messages: int) -> dict[str, Any]:
        """Cost since the beginning, for each message."""
        self.after = usage_of(self._http)
        if self._before is None or self.after is None:
            return {}
        spent = self.after.cpu_seconds - self._before.cpu_seconds
        return {
            "broker_cpu_us_per_message": round(spent * 1e6 / messages, 3),
            "broker_memory_mb": round(self.after.resident_bytes / 1e6, 1),
        }


def show(result: dict[str, Any], as_json: bool) -> None:
    """The numbers of one measurement."""
    if as_json:
        print_json(result)
    else:
        print_table(
            ("measure", "value"), [(k.replace("_", " "), _text(v)) for k, v in result.items()]
        )


def _text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value)
