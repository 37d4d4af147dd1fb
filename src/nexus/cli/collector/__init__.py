"""`nexus collector`: from the queue to the tables, and the work on the tables; one file a command.

Without a command it collects: `nexus collector --queue … --store …`.
"""

from functools import partial
from typing import Annotated, Any

import typer

from nexus.cli.collector.flags import collector_flags
from nexus.cli.collector.options import (
    BatchSize,
    CollectorId,
    Conf,
    DataDir,
    Http,
    Master,
    Memory,
    Queue,
    Stores,
    Workers,
)
from nexus.cli.config_place import loaded
from nexus.cli.lazy import lazy_app
from nexus.cli.options import ConfigFile

_COMMANDS = {name: f"nexus.cli.collector.{name}" for name in ("maintain", "backfill", "rebuild")}

_HELP = """Carry readings from the queue to the tables with Spark, each exactly once.

A restart goes on where it stopped. A second collector on the same store stands by and takes
over when the first ends. Ctrl-C or SIGTERM ends it after the running batch.

\b
Examples:
  nexus collector
  nexus collector --queue kafka://broker-1:9092/gpu-telemetry --store delta:///var/lib/nexus
  nexus collector --queue etcd://127.0.0.1:2379 --store etcd://127.0.0.1:2379
  nexus collector --store s3://lake/nexus --from 2h --trigger 10s
  nexus collector --available-now --json
  nexus collector --master spark://head:7077 --workers 8 --conf spark.executor.memory=2g
"""

app = lazy_app(_HELP, _COMMANDS)


@app.callback(invoke_without_command=True)
def collector(
    context: typer.Context,
    *,
    config: ConfigFile = None,
    queue: Queue = None,
    store: Stores = None,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="WHERE",
            help="Where a new collector begins: earliest, latest, a time, 2h (ago)."
            " (default earliest)",
        ),
    ] = None,
    partitions: Annotated[
        str | None,
        typer.Option(metavar="0-5,7", help="Collect these partitions only. (default all)"),
    ] = None,
    trigger: Annotated[
        str | None,
        typer.Option(
            metavar="2s", help="How often to look for new readings (PROCESSING_INTERVAL)."
        ),
    ] = None,
    available_now: Annotated[
        bool | None,
        typer.Option(
            "--available-now/--go-on", help="End once everything that is there is stored."
        ),
    ] = None,
    batch_size: BatchSize = None,
    poll_timeout: Annotated[
        str | None,
        typer.Option(metavar="15s", help="How long the queue may be silent (POLL_TIMEOUT)."),
    ] = None,
    on_gone: Annotated[
        str | None,
        typer.Option(metavar="fail|skip", help="When messages were removed before they were read."),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Tell progress as this group. (default nexus-collector)"),
    ] = None,
    collector_id: CollectorId = None,
    master: Master = None,
    workers: Workers = None,
    memory: Memory = None,
    conf: Conf = None,
    derive: Annotated[
        bool | None,
        typer.Option("--derive/--no-derive", help="Keep rollups, latest and gpus up to date."),
    ] = None,
    data_dir: DataDir = None,
    http: Http = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON lines for programs.")] = False,
) -> int | None:
    """Without a command: collect."""
    given: dict[str, tuple[str, Any]] = {
        "queue": ("--queue", queue),
        "store": ("--store", store),
        "from": ("--from", from_),
        "partitions": ("--partitions", partitions),
        "trigger": ("--trigger", trigger),
        "available_now": ("--available-now", available_now),
        "batch_size": ("--batch-size", batch_size),
        "poll_timeout": ("--poll-timeout", poll_timeout),
        "on_gone": ("--on-gone", on_gone),
        "group": ("--group", group),
        "collector_id": ("--collector-id", collector_id),
        "master": ("--master", master),
        "workers": ("--workers", workers),
        "memory": ("--memory", memory),
        "conf": ("--conf", conf),
        "derive": ("--derive", derive),
        "data_dir": ("--data-dir", data_dir),
    }
    flags = collector_flags(given, http)
    if context.invoked_subcommand is not None:
        _refuse(context, [flag.flag for flag in flags.values()], config)
        return None
    from nexus.settings.collector import SECTIONS, load_collector_settings

    settings, follow = loaded(config, partial(load_collector_settings, flags=flags), SECTIONS)
    from nexus.pipeline.collector.main import run

    return run(settings, as_json=json, follow=follow)


def _refuse(context: typer.Context, flags: list[str], config: str | None) -> None:
    """A flag before a command would count for nothing: it belongs behind it."""
    early = [*flags, *(["--config"] if config is not None else [])]
    if early:
        from nexus.settings.errors import SettingsError

        raise SettingsError(
            f"flag {early[0]}: belongs behind the command:"
            f" nexus collector {context.invoked_subcommand} {early[0]} …"
        )
