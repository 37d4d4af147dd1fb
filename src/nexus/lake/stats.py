"""A file's statistics as Delta's log holds them, made from the Parquet footer.

They may say too much, never too little: moments have milliseconds there, so the least is rounded
down and the greatest up. Only columns that readers prune by are named.
"""

import json
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

# Text that queries select by; long text would make the log large and prune nothing.
PRUNED_TEXT: Final = ("uuid", "metric")
TEXT_MAX: Final = 128
_MILLISECOND: Final = timedelta(milliseconds=1)


def pruned_columns(schema: pa.Schema) -> tuple[str, ...]:
    """The columns that statistics are kept of: every moment, and a few of text."""
    return tuple(
        field.name
        for field in schema
        if pa.types.is_timestamp(field.type) or field.name in PRUNED_TEXT
    )


def delta_stats(footer: pq.FileMetaData, columns: Iterable[str]) -> str:
    """Statistics of these columns over all row groups, as JSON for an add action."""
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    index = {footer.schema.column(i).path: i for i in range(footer.num_columns)}
    for name in columns:
        groups = [
            footer.row_group(group).column(index[name]).statistics
            for group in range(footer.num_row_groups)
        ]
        if any(group is None or not group.has_null_count for group in groups):
            continue
        nulls[name] = sum(group.null_count for group in groups)
        valued = [group for group in groups if group.num_values]
        if not valued or not all(group.has_min_max for group in valued):
            continue
        low = _written(min(group.min for group in valued), up=False)
        high = _written(max(group.max for group in valued), up=True)
        if low is not None and high is not None:
            least[name], greatest[name] = low, high
    stats = {
        "numRecords": footer.num_rows,
        "minValues": least,
        "maxValues": greatest,
        "nullCount": nulls,
    }
    return json.dumps(stats, separators=(",", ":"))


def parse_moment(text: str) -> datetime:
    """A moment as statistics hold it."""
    return datetime.fromisoformat(text)


def _written(value: Any, *, up: bool) -> Any:
    if isinstance(value, datetime):
        return _moment(value, up=up)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str) and len(value) > TEXT_MAX:
        return None
    return value


def _moment(value: datetime, *, up: bool) -> str:
    whole = value.replace(microsecond=value.microsecond // 1000 * 1000)
    if up and whole != value:
        whole += _MILLISECOND
    return whole.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
