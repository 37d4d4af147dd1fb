"""What the table of readings holds already: how far each series goes, and which readings are there.

Neither costs more as the table grows: how far series go is in `latest` and in the few files that
came after it, and a reading is looked for only in files whose times span its own.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from nexus.lake.datafile import DataFile, file_of_add
from nexus.lake.errors import HistoryGone
from nexus.lake.fence import READINGS_APP
from nexus.lake.files import NewFile
from nexus.lake.table import LakeTable
from nexus.lake.url import StoreUrl
from nexus.pipeline.frontier import FRONTIER_SCHEMA, Frontier, ends_of
from nexus.pipeline.narrow import series_numbers
from nexus.pipeline.validate import CHECKED
from nexus.telemetry.identity import IDENTITY_COLUMNS
from nexus.telemetry.tables import TABLES

_TICK: Final = timedelta(microseconds=1)
_OPEN: Final = (None, None)
_KEY: Final = ["series_a", "series_b", "timestamp"]


def load_frontier(store: StoreUrl, readings: LakeTable) -> Frontier:
    """How far every series is stored, from `latest` and what was added since."""
    latest = LakeTable.open(store, TABLES["latest"])
    version = latest.transaction_version(READINGS_APP)
    if version is None:
        return Frontier().advanced(_ends(readings, readings.files()))
    try:
        added = readings.added_between(version, readings.version)
    except HistoryGone:
        return Frontier().advanced(_ends(readings, readings.files()))
    return Frontier().advanced([*_ends(latest, latest.files()), *_ends(readings, added)])


def not_stored(
    spark: SparkSession, store: StoreUrl, readings: LakeTable, late: Sequence[NewFile]
) -> DataFrame:
    """Of the readings in these files, those that the table does not hold, in the checked form."""
    spans = [_span(file) for file in late]
    rows = _rows(spark, store, [file.path for file in late])
    stored = _rows(spark, store, sorted(_candidates(readings, spans)), _times(spans)).select(*_KEY)
    new = rows.join(stored, _KEY, "left_anti")
    return new.withColumn("reason", F.lit(None).cast("string")).select(*CHECKED)


def _candidates(readings: LakeTable, spans: Sequence[DataFile]) -> set[str]:
    """The files that can hold what these files hold."""
    return {
        found.path
        for span in spans
        for found in readings.files(span.low, span.high, {"uuid": span.bounds.get("uuid", _OPEN)})
    }


def _times(spans: Sequence[DataFile]) -> dict[str, datetime]:
    """The time that these files span, for readers who need no more."""
    lows = [span.low for span in spans if span.low is not None]
    highs = [span.high for span in spans if span.high is not None]
    if len(lows) < len(spans) or len(highs) < len(spans):
        return {}
    return {"low": min(lows), "high": max(highs) + _TICK}


def _span(file: NewFile) -> DataFile:
    action: dict[str, Any] = {
        "path": file.path,
        "size": file.size,
        "stats": file.stats,
        "modificationTime": file.modified_ms,
    }
    return file_of_add(action, TABLES["readings"])


def _rows(
    spark: SparkSession,
    store: StoreUrl,
    paths: Iterable[str],
    times: Mapping[str, datetime] = MappingProxyType({}),
) -> DataFrame:
    source = spark.read.format("nexus-table").option("store", str(store))
    options = {"table": "readings", "files": json.dumps(list(paths)), "form": "narrow"}
    bounds = {name: moment.isoformat() for name, moment in times.items()}
    return source.options(**options, **bounds).load()


def _ends(table: LakeTable, files: Sequence[DataFile]) -> Iterator[pa.Table]:
    paths = [file.path for file in files]
    for batch in table.files_of.read(paths, IDENTITY_COLUMNS, encoded=True):
        yield ends_of(_numbered(batch))


def _numbered(batch: pa.RecordBatch) -> pa.Table:
    """Readings with their series' number, as the frontier knows it."""
    table = pa.Table.from_batches([batch])
    first, _ = series_numbers(table)
    return pa.table([pa.array(first), table.column("timestamp")], schema=FRONTIER_SCHEMA)
