"""What the store holds, table by table."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from nexus.lake.files import TableFiles
from nexus.lake.history import commit_name
from nexus.lake.url import StoreUrl
from nexus.store.delta.asking import DeltaAsking
from nexus.store.delta.listing import Listing
from nexus.store.errors import StoreAway
from nexus.store.port import TABLE_ROWS
from nexus.store.questions.held import moment
from nexus.telemetry.tables import TABLES

_FAR: Final = 2**60  # beyond this a bound says only that there is none


def tables(asking: DeltaAsking, store: StoreUrl) -> pa.Table:
    """A row for each table that exists; see the port."""
    pinned = [asking.pins.tables[name] for name in TABLES if name in asking.pins.tables]
    return pa.Table.from_pylist([_row(store, table) for table in pinned], TABLE_ROWS)


def _row(store: StoreUrl, table: Listing) -> dict[str, Any]:
    files = list(table.files())
    timed = [file for file in files if abs(file.low) < _FAR and abs(file.high) < _FAR]
    return {
        "name": table.spec.name,
        "version": table.version,
        "rows": sum(file.rows for file in files),
        "files": len(files),
        "bytes": sum(file.size for file in files),
        "oldest": moment(min(file.low for file in timed)) if timed else None,
        "newest": moment(max(file.high for file in timed)) if timed else None,
        "last_commit": _committed(store, table),
    }


def _committed(store: StoreUrl, table: Listing) -> datetime | None:
    """When the pinned version was written, as its file says; None if the log is cleaned of it."""
    try:
        files = TableFiles(store, table.spec).filesystem()
        written: datetime | None = files.get_file_info(commit_name(table.version)).mtime
    except OSError as error:
        raise StoreAway(f"store {store}: {error}") from error
    return written
