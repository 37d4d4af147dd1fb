"""`nexus store stats`: what a store holds, on one screen."""

from typing import TYPE_CHECKING, Any, Final

from nexus.cli.lazy import single_app
from nexus.cli.output import JsonFlag, print_json, print_table
from nexus.cli.store.options import StoreAddress

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

app = single_app()
_GROWTH_DAYS: Final = 7
_COLUMNS: Final = ("table", "rows", "size", "days", "oldest", "newest", "files", "growth a day")


@app.command()
def stats(store: StoreAddress, *, json: JsonFlag = False) -> int:
    """Show the tables of a store: rows, bytes, days, oldest and newest, files and growth.

    Growth is what the last seven whole days with rows came to, in the mean. In PostgreSQL a file is
    a partition, and sizes are with indexes; in etcd sizes are estimates.

    \b
    Examples:
      nexus store stats delta:///var/lib/nexus
      nexus store stats postgresql://nexus@db.example/telemetry --json
    """
    from nexus.lake.errors import StoreError
    from nexus.pipeline.moving.opening import opened
    from nexus.store.opening import open_store
    from nexus.telemetry.tables import TABLES

    asked = open_store(store)
    try:
        tables = asked.snapshot().tables().to_pylist()
    finally:
        asked.close()
    if not tables:
        raise StoreError(f"store {store}: there are no tables yet")
    with opened(store) as place:
        name = place.name
        days = {table["name"]: _days(place.days, table["name"]) for table in tables}
    tables.sort(key=lambda table: list(TABLES).index(table["name"]))
    rows = [_row(table, days[table["name"]]) for table in tables]
    if json:
        print_json({"store": name, "tables": rows})
        return 0
    print(name)
    print_table(_COLUMNS, [_cells(row) for row in rows])
    total = sum(row["bytes"] for row in rows)
    print(f"{_size(total)} in all")
    return 0


def _days(days: Any, table: str) -> "Mapping[str, int]":
    """Rows by day, of tables that have days."""
    from nexus.telemetry.tables import TABLES

    found: Mapping[str, int] = days(table) if "day" in TABLES[table].partitions else {}
    return found


def _row(table: dict[str, Any], days: "Mapping[str, int]") -> dict[str, Any]:
    whole = [days[day] for day in sorted(days)][:-1][-_GROWTH_DAYS:]  # the last one still grows
    rows_a_day = sum(whole) / len(whole) if whole else None
    row_bytes = table["bytes"] / table["rows"] if table["rows"] else 0
    return {
        "table": table["name"],
        "rows": table["rows"],
        "bytes": table["bytes"],
        "files": table["files"],
        "oldest": _moment(table["oldest"]),
        "newest": _moment(table["newest"]),
        "last_commit": _moment(table["last_commit"]),
        "days": dict(sorted(days.items())),
        "rows_a_day": None if rows_a_day is None else round(rows_a_day),
        "bytes_a_day": None if rows_a_day is None else round(rows_a_day * row_bytes),
    }


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    growth = (
        None
        if row["rows_a_day"] is None
        else f"{row['rows_a_day']:,} rows, {_size(row['bytes_a_day'])}"
    )
    return (
        row["table"],
        f"{row['rows']:,}",
        _size(row["bytes"]),
        len(row["days"]) or None,
        (row["oldest"] or "")[:16],
        (row["newest"] or "")[:16],
        row["files"] or None,
        growth,
    )


def _moment(moment: "datetime | None") -> str | None:
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")


def _size(size: int) -> str:
    from rich.filesize import decimal

    return decimal(size)
