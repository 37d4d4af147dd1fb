"""`nexus collector rebuild`: a derived table, or a time of it, computed again from readings."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
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
from nexus.cli.moments import parse_moment
from nexus.cli.options import ConfigFile
from nexus.cli.output import JsonFlag, print_json
from nexus.cli.patience import waiting
from nexus.settings.errors import SettingsError

app = single_app()


@app.command()
def rebuild(
    *,
    config: ConfigFile = None,
    table: Annotated[
        str, typer.Option(metavar="NAME", help="rollup_1m, rollup_1h, latest or gpus.")
    ],
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="2025-07-18T20:00:00Z or 24h (ago)."),
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Up to, and without, this time.")
    ] = None,
    store: Store = None,
    collector_id: CollectorId = None,
    master: Master = None,
    workers: Workers = None,
    memory: Memory = None,
    conf: Conf = None,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact", help="Also where readings are gone from which stored rows were made."
        ),
    ] = False,
    data_dir: DataDir = None,
    wait: Wait = False,
    json: JsonFlag = False,
) -> int:
    """Compute a derived table again from the readings that are stored.

    Without --from and --to all of it. Readers see the old rows until the new ones are there.

    \b
    Examples:
      nexus collector rebuild --table rollup_1m --from 2025-07-18 --to 2025-07-19
      nexus collector rebuild --table latest --store delta:///var/lib/nexus
    """
    given: dict[str, tuple[str, Any]] = {
        "store": ("--store", store),
        "collector_id": ("--collector-id", collector_id),
        "master": ("--master", master),
        "workers": ("--workers", workers),
        "memory": ("--memory", memory),
        "conf": ("--conf", conf),
        "data_dir": ("--data-dir", data_dir),
    }
    from nexus.settings.collector import load_collector_settings

    own = load_collector_settings(read_config(config), flags=collector_flags(given)).collector
    low, high = _moment("--from", from_), _moment("--to", to)
    _check(table, low, high)
    from nexus.pipeline.collector.tasks import held_store, spark_for
    from nexus.pipeline.derive.rebuild import rebuild as compute

    begun = time.monotonic()
    with (
        held_store(own, wait=wait, waiting=waiting) as held,
        _bar() as told,
        spark_for(own, "rebuild") as spark,
    ):
        done = compute(
            spark,
            held.place,
            held.lock.fence,
            table,
            low=low,
            high=high,
            exact=exact,
            options=held.derive_options(),
            told=told,
        )
    seconds = round(time.monotonic() - begun, 1)
    if json:
        print_json({**asdict(done), "seconds": seconds})
    else:
        print(f"{done.table}: computed again from {done.rows:,} readings in {seconds:,.1f} s")
    return 0


def _check(table: str, low: datetime | None, high: datetime | None) -> None:
    """What cannot be is said before Spark starts."""
    from nexus.pipeline.derive.options import SNAPSHOTS, WIDTHS

    if table not in (*WIDTHS, *SNAPSHOTS):
        known = ", ".join((*WIDTHS, *SNAPSHOTS))
        raise SettingsError(f'flag --table: found "{table}", expected one of {known}')
    if low is not None and high is not None and low >= high:
        raise SettingsError("flag --to: is not after --from")


def _moment(flag: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    return datetime.fromtimestamp(parse_moment(text, flag, time.time_ns() // 10**6) / 1000, UTC)


@contextmanager
def _bar() -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda done, of: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("starting Spark", total=None)

        def told(done: int, of: int) -> None:
            progress.update(task, completed=done, total=max(of, 1), description="computing")

        yield told
