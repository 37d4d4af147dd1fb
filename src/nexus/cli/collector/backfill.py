"""`nexus collector backfill`: archives of CSV straight into the tables, without the queue."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Any

import typer

from nexus.cli.collector.flags import collector_flags
from nexus.cli.collector.options import (
    CollectorId,
    Conf,
    DataDir,
    Master,
    Memory,
    Store,
    Wait,
    Workers,
)
from nexus.cli.config_place import read_config
from nexus.cli.lazy import single_app
from nexus.cli.options import ConfigFile
from nexus.cli.output import JsonFlag, print_json
from nexus.cli.patience import waiting

app = single_app()


@app.command()
def backfill(
    *,
    config: ConfigFile = None,
    source: Annotated[
        str,
        typer.Option(metavar="URL", help="csv:///path, a folder or a pattern; gzip too."),
    ],
    store: Store = None,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The cluster's name on every reading (CLUSTER_ID)."),
    ] = None,
    collector_id: CollectorId = None,
    master: Master = None,
    workers: Workers = None,
    memory: Memory = None,
    conf: Conf = None,
    derive: Annotated[
        bool | None,
        typer.Option("--derive/--no-derive", help="Bring rollups, latest and gpus up to date."),
    ] = None,
    data_dir: DataDir = None,
    wait: Wait = False,
    json: JsonFlag = False,
) -> int:
    """Read archives of CSV with Spark and store every reading that is not there yet.

    Running it twice changes nothing. It needs the store for itself while it runs.

    \b
    Examples:
      nexus collector backfill --source csv:///archive/2025 --store delta:///var/lib/nexus
      nexus collector backfill --source 'csv:///archive/*.csv.gz' --json
    """
    given: dict[str, tuple[str, Any]] = {
        "store": ("--store", store),
        "collector_id": ("--collector-id", collector_id),
        "master": ("--master", master),
        "workers": ("--workers", workers),
        "memory": ("--memory", memory),
        "conf": ("--conf", conf),
        "derive": ("--derive", derive),
        "data_dir": ("--data-dir", data_dir),
    }
    from nexus.settings.collector import load_collector_settings
    from nexus.settings.options import FlagValue

    flags = collector_flags(given)
    if cluster is not None:
        flags["cluster.cluster_id"] = FlagValue("--cluster", cluster)
    settings = load_collector_settings(read_config(config), flags=flags)
    own = settings.collector
    from nexus.pipeline.backfill.archive import archive_files
    from nexus.pipeline.backfill.run import run_backfill
    from nexus.pipeline.collector.tasks import derive_all, held_store, spark_for

    begun = time.monotonic()
    archive_files(source)  # what is not there is said before Spark starts
    with (
        held_store(own, wait=wait, waiting=waiting) as held,
        _bar() as bar,
        spark_for(own, "backfill") as spark,
    ):
        cluster_id = settings.cluster.cluster_id
        totals = run_backfill(spark, source, held.sink(spark), progress=bar, cluster=cluster_id)
        if own.derive:
            derive_all(held, spark)
    _show({**asdict(totals), "seconds": round(time.monotonic() - begun, 1)}, json=json)
    return 0


@contextmanager
def _bar() -> Iterator[Callable[[Any], None] | None]:
    """A bar on a terminal, by bytes; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("starting Spark", total=None)

        def show(said: Any) -> None:
            left = f"{said.totals.readings:,} readings"
            progress.update(
                task, total=said.bytes_total, completed=said.bytes_done, description=left
            )

        yield show


def _show(totals: dict[str, Any], *, json: bool) -> None:
    if json:
        print_json(totals)
        return
    known = (
        f" ({totals['replayed']} of {totals['chunks']} parts known)" if totals["replayed"] else ""
    )
    files = "1 file" if totals["files"] == 1 else f"{totals['files']:,} files"
    print(
        f"{totals['readings']:,} readings stored from {files}"
        f" in {totals['seconds']:,.1f} s, {totals['duplicates']:,} were there already,"
        f" {totals['quarantined']:,} quarantined{known}"
    )
