"""`nexus store copy`: readings and what was refused, from one store into another."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nexus.cli.lazy import single_app
from nexus.cli.output import JsonFlag, print_json, print_table, printable
from nexus.cli.patience import wait_for
from nexus.cli.store.options import Wait, owner
from nexus.cli.store.span import From, To, times_of
from nexus.settings.errors import SettingsError

if TYPE_CHECKING:
    from nexus.pipeline.moving.copying import Copied, Told

app = single_app()
_COLUMNS = ("day", "table", "rows", "added", "differ", "left out", "checksum", "verified")


@app.command()
def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help="The store that is read.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="The store that is added to.")],
    *,
    from_: From = None,
    to: To = None,
    wait: Wait = False,
    json: JsonFlag = False,
) -> int:
    """Copy readings, quarantine, and rollups whose readings are gone, into another store.

    Every day is read back and compared by count and checksum. What the target has stays as it is:
    to copy again adds nothing, and a copy that was cut short goes on where something is missing.
    The target must have no other writer meanwhile; the source may. The exit code is 1 unless the
    target has all of it.

    \b
    Examples:
      nexus store copy delta:///var/lib/nexus postgresql://nexus@db.example/telemetry
      nexus store copy etcd://etcd-1:2379 s3://bucket/telemetry --from 24h
      nexus store copy delta:///old delta:///new --from 2025-07-01 --to 2025-08-01 --json
    """
    low, high = times_of(from_, to)
    from nexus.lake.errors import StoreError
    from nexus.pipeline.moving.copying import copied, planned
    from nexus.pipeline.moving.opening import opened

    begun = time.monotonic()
    with opened(source) as old, opened(target) as new:
        if old.name == new.name:
            raise SettingsError(f"store {new.name}: FROM and TO are the same store")
        if not (plan := planned(old, low, high)):
            raise StoreError(f"store {old.name}: it holds nothing, or nothing of that time")
        with new.writer(owner(), wait_for if wait else None) as writer, _bar() as watch:
            done = list(copied(old, new, writer, plan, watch))
            names, derives = (old.name, new.name), writer.derives
    return _show(names, done, time.monotonic() - begun, derives, json=json)


def _show(
    names: tuple[str, str],
    done: "Sequence[Copied]",
    seconds: float,
    derives: bool,
    *,
    json: bool,
) -> int:
    ok = all(each.is_whole for each in done)
    if json:
        days = [_document(each) for each in done]
        said = {"from": names[0], "to": names[1], "ok": ok, "seconds": round(seconds, 1)}
        print_json({**said, "derived": derives, "days": days})
        return 0 if ok else 1
    told = [each for each in done if each.added or not each.is_whole]
    if told:
        print_table(_COLUMNS, [_row(each) for each in told])
    rows, added = sum(each.source.rows for each in done), sum(each.added for each in done)
    there = rows - added - sum(each.left_out for each in done)
    days_of, rate = len({each.part.day for each in done}), rows / max(seconds, 1e-9)
    print(
        f"{added:,} rows added to {names[1]}, {there:,} were there;"
        f" {days_of} day{'s' * (days_of != 1)} verified in {seconds:,.1f} s ({rate:,.0f} rows/s)"
    )
    if added and not derives:
        print("rollups, latest and gpus follow when a collector next writes to the target")
    for each in done:
        if not each.is_whole:
            where = f"{each.part.table} of {each.part.day}"
            print(f"nexus: {where}: {printable(_complaint(each))}", file=sys.stderr)
    return 0 if ok else 1


def _complaint(done: "Copied") -> str:
    if done.problem:
        return f"{done.problem}; copy again, or see nexus store verify"
    said = []
    if done.differing:
        said.append(f"{done.differing:,} rows are there with other values, and stay as they are")
    if done.left_out:
        said.append(f"{done.left_out:,} rows have a text that the target cannot hold")
    return "; ".join(said)


def _row(done: "Copied") -> tuple[object, ...]:
    return (
        done.part.day,
        done.part.table,
        done.source.rows,
        done.added,
        done.differing or None,
        done.left_out or None,
        done.source,
        "NO" if done.problem else "yes",
    )


def _document(done: "Copied") -> dict[str, Any]:
    return {
        "day": done.part.day,
        "table": done.part.table,
        "rows": done.source.rows,
        "checksum": str(done.source),
        "target_rows": done.target.rows,
        "target_checksum": str(done.target),
        "added": done.added,
        "differing": done.differing,
        "left_out": done.left_out,
        "problem": done.problem,
    }


@contextmanager
def _bar() -> "Iterator[Callable[[Told], None]]":
    """Days, rows, bytes, rate and what is left, on a terminal; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda told: None
        return
    from rich.console import Console

    from nexus.cli.store.bar import progress_bar

    with progress_bar(Console(stderr=True)) as watch:
        yield watch
