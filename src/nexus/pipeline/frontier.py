"""How far each series is stored: what is newer is new, and need not be looked up.

Series are known by one half of their hash. Two that share it share the later time, and then a
new reading is looked up in vain; none is ever taken for new that is not. No series is forgotten:
an archive of years ago may come again tomorrow. One takes sixteen bytes.
"""

from collections.abc import Iterable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.telemetry.reading import TIMESTAMP
from nexus.telemetry.scalars import NO

FRONTIER_SCHEMA: Final = pa.schema(
    [pa.field("series_a", pa.int64()), pa.field("timestamp", TIMESTAMP)]
)


class Frontier:
    """The last stored time of every series."""

    def __init__(self, table: pa.Table | None = None) -> None:
        self.table = FRONTIER_SCHEMA.empty_table() if table is None else table

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def advanced(self, ends: Iterable[pa.Table]) -> "Frontier":
        """The frontier with batches of readings behind it (any tables with its columns)."""
        parts = [end.select(FRONTIER_SCHEMA.names) for end in ends]
        return Frontier(_last(pa.concat_tables([self.table, *parts])))

    def is_late(self, series: pa.ChunkedArray, timestamp: pa.ChunkedArray) -> pa.ChunkedArray:
        """Which readings are not newer than the last stored one of their series."""
        if not self.table.num_rows:
            return pc.is_null(timestamp)
        places = pc.index_in(series, value_set=self.table["series_a"])
        last = self.table["timestamp"].take(places)
        return pc.fill_null(pc.less_equal(timestamp, last), NO)

    def to_bytes(self) -> bytes:
        """For the tasks that write."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, FRONTIER_SCHEMA) as writer:
            writer.write_table(self.table)
        return bytes(sink.getvalue())

    @classmethod
    def from_bytes(cls, data: bytes) -> "Frontier":
        return cls(pa.ipc.open_stream(data).read_all())


def ends_of(readings: pa.Table) -> pa.Table:
    """The last time of each series in some readings."""
    return _last(readings.select(FRONTIER_SCHEMA.names))


def _last(table: pa.Table) -> pa.Table:
    last = table.group_by("series_a").aggregate([("timestamp", "max")])
    return last.rename_columns({"timestamp_max": "timestamp"}).cast(FRONTIER_SCHEMA)
