"""Why a reading is refused before it is published; old archives are normal, so age is no reason.

A value that is NaN or infinite is "no number": DCGM has no such values, JSON cannot carry them,
and an average over one is worthless. It is refused here, never turned into "not collected".
"""

from datetime import UTC, datetime
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.telemetry.catalogue import HOST_METRICS, meaning_of
from nexus.telemetry.reading import encoded
from nexus.telemetry.scalars import EMPTY, NO, YES, scalar, whole

NO_TIME: Final = "no time"
TOO_EARLY: Final = "time before 2000"
TOO_LATE: Final = "time in the future"
NO_NUMBER: Final = "value is no number"
NO_METRIC: Final = "no metric name"
NO_IDENTITY: Final = "no identity: neither a uuid nor a host with a GPU's index"
REASONS: Final = (NO_TIME, TOO_EARLY, TOO_LATE, NO_NUMBER, NO_METRIC, NO_IDENTITY)

_EARLIEST_US: Final = int(datetime(2000, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
_AHEAD_US: Final = 10 * 60 * 1_000_000


def refusals(table: pa.Table, now_us: int) -> pa.Array:
    """For each reading of a source table, why it is refused; null where it is good."""
    time = pc.fill_null(table.column("timestamp").cast(pa.int64()), whole(_EARLIEST_US))
    tests = (
        (NO_TIME, pc.is_null(table.column("timestamp"))),
        (TOO_EARLY, pc.less(time, whole(_EARLIEST_US))),
        (TOO_LATE, pc.greater(time, whole(now_us + _AHEAD_US))),
        (NO_NUMBER, pc.invert(pc.fill_null(pc.is_finite(table.column("source_value")), NO))),
        (NO_METRIC, _is_empty(table, "source_metric")),
        (NO_IDENTITY, _is_nameless(table)),
    )
    failed = [(reason, test) for reason, test in tests if pc.any(test).as_py()]
    if not failed:
        return pa.nulls(table.num_rows, pa.string())
    conditions = pc.make_struct(
        *(_whole(test) for _, test in failed), field_names=[str(n) for n in range(len(failed))]
    )
    return pc.case_when(conditions, *(scalar(reason, pa.string()) for reason, _ in failed))


def _is_nameless(table: pa.Table) -> pa.Array:
    no_uuid, no_host, no_gpu = (_is_empty(table, name) for name in ("uuid", "hostname", "gpu"))
    if not pc.any(no_uuid).as_py():
        return no_uuid
    metrics = encoded(table.column("source_metric"))
    of_host = [
        meaning_of(n or "", "").metric in HOST_METRICS for n in metrics.dictionary.to_pylist()
    ]
    needs_gpu = pc.invert(pa.array(of_host, pa.bool_()).take(metrics.indices))
    return pc.and_(no_uuid, pc.or_(no_host, pc.and_(no_gpu, needs_gpu)))


def _is_empty(table: pa.Table, name: str) -> pa.Array:
    column = encoded(table.column(name))
    empty = pc.equal(column.dictionary, EMPTY).take(column.indices)
    return pc.fill_null(empty, YES)


def _whole(test: pa.Array | pa.ChunkedArray) -> pa.Array:
    return test.combine_chunks() if isinstance(test, pa.ChunkedArray) else test
