"""Who each GPU is as last known, from the last reading of each of its series."""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.pipeline.derive.numbered import first_of_each
from nexus.telemetry.reading import plain
from nexus.telemetry.scalars import EMPTY, scalar
from nexus.telemetry.tables import TABLES

SCHEMA: Final = TABLES["gpus"].schema
_KEY: Final = ("uuid", "mig")
_TOLD: Final = [name for name in SCHEMA.names if name != "first_seen"]
# What readings say comes before what was known. Of readings at one moment, one that names a
# holder tells more, and one of the whole device more than one of a link; the metric only makes
# the choice the same every time.
_ORDER: Final = {
    "last_seen": "descending",
    "rank": "ascending",
    "namespace": "descending",
    "pod": "descending",
    "container": "descending",
    "instance": "ascending",
    "metric": "ascending",
}


def gpus_of(last: pa.Table, seen: pa.Table, known: pa.Table) -> pa.Table:
    """The table of GPUs.

    `last` has the last reading of every series, `seen` (uuid, mig, first_seen) says since when
    there are readings that are new, and `known` is the table as it was: what it alone knows stays.
    """
    last, seen, known = (_loose(plain(table)) for table in (_of_gpus(last), seen, known))
    told = last.rename_columns({"timestamp": "last_seen"})
    choice = pa.concat_tables([_ranked(told, 0), _ranked(_without_series(known), 1)])
    newest = first_of_each(choice, _KEY, _ORDER)
    whole = newest.join(_began([seen, known]), list(_KEY), join_type="inner")
    return whole.select(SCHEMA.names).cast(SCHEMA).sort_by([(name, "ascending") for name in _KEY])


def _began(tables: Sequence[pa.Table]) -> pa.Table:
    both = pa.concat_tables([table.select([*_KEY, "first_seen"]) for table in tables])
    first = both.group_by(list(_KEY)).aggregate([("first_seen", "min")])
    return first.rename_columns({"first_seen_min": "first_seen"})


def _of_gpus(rows: pa.Table) -> pa.Table:
    """Less the readings of a host that name no GPU: their uuid is the host's name and a slash."""
    uuid, gpu, host = (rows.column(n).cast(pa.string()) for n in ("uuid", "gpu", "hostname"))
    as_host = pc.binary_join_element_wise(host, scalar("/", pa.string()), EMPTY)
    of_host = pc.and_(pc.equal(uuid, as_host), pc.equal(gpu, EMPTY))
    return rows.filter(pc.invert(of_host))


def _loose(table: pa.Table) -> pa.Table:
    """The same columns, all of which may be null as far as their fields say."""
    return pa.table(dict(zip(table.column_names, table.columns, strict=True)))


def _ranked(rows: pa.Table, rank: int) -> pa.Table:
    rows = rows.select([*_TOLD, "metric", "instance"])
    return rows.append_column("rank", pa.repeat(scalar(rank, pa.int8()), rows.num_rows))


def _without_series(known: pa.Table) -> pa.Table:
    nothing = pa.repeat(EMPTY, known.num_rows)
    return known.append_column("metric", nothing).append_column("instance", nothing)
