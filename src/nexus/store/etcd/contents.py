"""What the store holds, as tables. To count keys costs etcd time, so it is done now and then."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.store.etcd.index import Index
from nexus.store.etcd.layout import StoreLayout, data_keys, moment_us_of
from nexus.store.etcd.newest import LastReadings
from nexus.store.etcd.reading import Counted, Reader
from nexus.store.port import TABLE_ROWS
from nexus.store.questions.held import moment

COUNTED_S: Final = 10.0  # that a count is good for
NAMES: Final = ("readings", "quarantine", "latest", "gpus")


class Contents:
    """Counts what the store holds; safe for any number of threads."""

    def __init__(self, reader: Reader, layout: StoreLayout, readings: LastReadings) -> None:
        self._reader = reader
        self._layout = layout
        self._readings = readings
        self._turn = threading.Lock()
        self._counted: tuple[float, int, pa.Table] | None = None

    def tables(self, index: Index) -> pa.Table:
        """A row for each table, as of at most COUNTED_S ago; none if nothing was ever stored.

        Bytes are about what keys and values take; etcd's database holds their history too.
        """
        with self._turn:
            now = time.monotonic()
            if self._counted is None or not self._is_good(self._counted, now, index.version):
                self._counted = now, index.version, self._count(index)
            return self._counted[2]

    @staticmethod
    def _is_good(counted: tuple[float, int, pa.Table], now: float, version: int) -> bool:
        return counted[1] == version or now - counted[0] < COUNTED_S

    def _count(self, index: Index) -> pa.Table:
        if not index.exists:
            return TABLE_ROWS.empty_table()
        paths = [path for paths in index.known.paths.values() for path in paths]
        data = self._reader.counted([data_keys(path) for path in paths], index.revision)
        refused = self._reader.counted([self._layout.quarantine()], index.revision)
        kept, gpus = self._readings.of_all(index), index.known.gpus
        rows = {
            "readings": _counted(data) | {"newest": pc.max(gpus.column("last_seen")).as_py()},
            "quarantine": _counted(refused),
            "latest": {"rows": kept.last.num_rows, "bytes": kept.size, **_span(kept.last)},
            "gpus": {"rows": gpus.num_rows, "bytes": index.size},
        }
        stored = moment(index.committed_us) if index.committed_us else None
        same = {"version": index.version, "files": 0, "last_commit": stored}
        whole = [{"name": name, **same, **rows[name]} for name in NAMES]
        return pa.Table.from_pylist(whole, TABLE_ROWS)


def _counted(counts: Sequence[Counted]) -> dict[str, Any]:
    found = [(count.keys, count.first) for count in counts if count.first is not None]
    return {
        "rows": sum(keys for keys, _ in found),
        "bytes": sum(keys * (len(first.key) + len(first.value)) for keys, first in found),
        "oldest": moment(min(moment_us_of(first.key) for _, first in found)) if found else None,
    }


def _span(last: pa.Table) -> dict[str, Any]:
    ends = pc.min_max(last.column("timestamp"))
    return {"oldest": ends["min"].as_py(), "newest": ends["max"].as_py()}
