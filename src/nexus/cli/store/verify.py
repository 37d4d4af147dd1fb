"""`nexus store verify`: whether a store is whole, or two stores hold the same."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from nexus.cli.lazy import single_app
from nexus.cli.output import JsonFlag, print_json, print_table
from nexus.cli.store.options import StoreAddress
from nexus.cli.store.span import From, Times, To, times_of

if TYPE_CHECKING:
    from nexus.pipeline.moving.port import Slice

app = single_app()


@app.command()
def verify(
    store: StoreAddress,
    *,
    against: Annotated[
        str | None,
        typer.Option("--against", metavar="STORE", help="Hold it against this store instead."),
    ] = None,
    from_: From = None,
    to: To = None,
    json: JsonFlag = False,
) -> int:
    """Read a store whole and say what does not fit together; or what two stores differ in.

    By itself: files and counts are as the store's own log says, every reading is there once, and
    rollups say what the readings say, where nothing came since. With --against: readings and
    quarantine have the same rows, by count and checksum of each day. The exit code is 1 if
    something is wrong. Nothing is changed, and nobody has to stop.

    \b
    Examples:
      nexus store verify delta:///var/lib/nexus
      nexus store verify delta:///old --against postgresql://nexus@db.example/telemetry --to 1h
    """
    times = times_of(from_, to)
    return _own(store, times, json) if against is None else _two(store, against, times, json)


def _own(store: str, times: Times, json: bool) -> int:
    from nexus.lake.errors import StoreError
    from nexus.pipeline.moving.opening import opened
    from nexus.pipeline.moving.verifying import verified

    with opened(store) as place, _bar() as watch:
        name, found = place.name, list(verified(place, *times, watch))
    if not found:
        raise StoreError(f"store {name}: it holds nothing, or nothing of that time")
    wrong = [each for each in found if each.problems]
    if json:
        days = [
            {
                "day": each.part.day,
                "table": each.part.table,
                "rows": each.digest.rows,
                "checksum": str(each.digest) if each.digest.checksum else None,
                "problems": list(each.problems),
            }
            for each in found
        ]
        print_json({"store": name, "ok": not wrong, "days": days})
        return 1 if wrong else 0
    if wrong:
        rows = [(e.part.day, e.part.table, said) for e in wrong for said in e.problems]
        print_table(("day", "table", "problem"), rows)
    checked = sum(each.digest.rows for each in found)
    days_of = len({each.part.day for each in found})
    said = f"{len(wrong)} of them with problems" if wrong else "all is well"
    print(f"{name}: {checked:,} rows of {days_of} day{'s' * (days_of != 1)} read, {said}")
    return 1 if wrong else 0


def _two(store: str, against: str, times: Times, json: bool) -> int:
    from nexus.pipeline.moving.opening import opened
    from nexus.pipeline.moving.verifying import compared

    with opened(store) as one, opened(against) as other, _bar() as watch:
        names = one.name, other.name
        found = list(compared(one, other, *times, watch))
    wrong = [each for each in found if not each.is_same]
    if json:
        days = [
            {
                "day": each.part.day,
                "table": each.part.table,
                "same": each.is_same,
                "rows": [each.one.rows, each.other.rows],
                "checksums": [str(each.one), str(each.other)],
                "missing": each.missing,
                "extra": each.extra,
                "differing": each.differing,
            }
            for each in found
        ]
        print_json({"store": names[0], "against": names[1], "ok": not wrong, "days": days})
        return 1 if wrong else 0
    if wrong:
        columns = ("day", "table", "rows", "rows there", "missing there", "more there", "differ")
        print_table(
            (*columns, "checksum", "checksum there"),
            [
                (
                    *(e.part.day, e.part.table, e.one.rows, e.other.rows),
                    *(e.missing, e.extra, e.differing, e.one, e.other),
                )
                for e in wrong
            ],
        )
    said = f"{len(wrong)} differ" if wrong else "all the same"
    days_of = f"{len(found)} day{'s' * (len(found) != 1)}"
    print(f"{names[0]} and {names[1]}: {days_of} of tables compared, {said}")
    return 1 if wrong else 0


@contextmanager
def _bar() -> "Iterator[Callable[[Slice, int, int], None]]":
    """A bar on a terminal, by days; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda part, number, of: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("listing days", total=None)

        def watch(part: "Slice", number: int, of: int) -> None:
            said = f"reading {part.table} {part.day} ({number}/{of})"
            progress.update(task, completed=number - 1, total=of, description=said)

        yield watch
