"""`nexus topics verify`: every message checked, in the files or over the wire."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from nexus.cli.lazy import single_app
from nexus.cli.output import JsonFlag, print_json
from nexus.cli.topics.damage import Advance, Report
from nexus.settings.errors import SettingsError

app = single_app()


@app.command()
def verify(
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="[TOPIC…]", help="Only these topics.")
    ] = None,
    *,
    data_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Check this data directory's files; nothing is changed."),
    ] = None,
    bootstrap: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT,…", help="Read every message from these brokers instead."),
    ] = None,
    json: JsonFlag = False,
) -> int:
    """Check every message against its checksum and its place; exit code 1 when any is damaged.

    With --data-dir the broker may run meanwhile, or not. Otherwise all is read through a broker.

    \b
    Examples:
      nexus topics verify --data-dir ./data/broker
      nexus topics verify gpu-telemetry --bootstrap 127.0.0.1:9092
    """
    if data_dir is not None and bootstrap is not None:
        raise SettingsError("give --data-dir or --bootstrap, not both")
    report = _over_files(data_dir, topics) if data_dir else _over_wire(bootstrap, topics)
    if json:
        print_json(report.as_json())
    else:
        for line in report.lines():
            print(line)
    return 1 if report.damage else 0


def _over_files(data_dir: Path, topics: list[str] | None) -> Report:
    from nexus.cli.topics.verify_files import find_partitions, verify_files

    partitions = find_partitions(data_dir, topics)
    with _progress("checking", sum(p.size_bytes for p in partitions)) as advance:
        return verify_files(partitions, advance)


def _over_wire(bootstrap: str | None, topics: list[str] | None) -> Report:
    from nexus.cli.kafka import connect
    from nexus.cli.topics.verify_wire import find_bounds, verify_wire

    cluster = connect(bootstrap)
    bounds, report = find_bounds(cluster, topics)
    with _progress("reading", sum(b.end - b.start for b in bounds.values())) as advance:
        return verify_wire(cluster, bounds, report, advance)


@contextmanager
def _progress(what: str, total: int) -> Iterator[Advance]:
    """A bar on a terminal's standard error; nothing in a pipe."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=total)
        yield lambda amount: progress.advance(task, amount)
