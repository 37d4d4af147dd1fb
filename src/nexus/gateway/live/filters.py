"""Which readings a client wants; decided for each distinct text, not for each reading."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.gateway.live.columns import quoted
from nexus.store.port import Selection
from nexus.telemetry.reading import encoded

# The columns that a selection speaks of.
_COLUMNS: Final = {
    "uuid": "uuids",
    "mig": "migs",
    "gpu": "gpus",
    "hostname": "hostnames",
    "cluster": "clusters",
    "model": "models",
    "namespace": "namespaces",
    "pod": "pods",
    "metric": "metrics",
}


def selected(table: pa.Table, which: Selection) -> pa.Table:
    """The readings (LIVE_SCHEMA) that a selection names."""
    for column, names in _COLUMNS.items():
        wanted: tuple[str, ...] = getattr(which, names)
        if wanted and table.num_rows:
            table = _those(table, column, wanted)
    for metric, instances in which.instances_by_metric().items():
        others = pc.invert(_fits(table, "metric", [metric]))
        table = table.filter(pc.or_(others, _fits(table, "instance", instances)))
    return table


def _fits(table: pa.Table, column: str, wanted: Sequence[str]) -> pa.Array:
    """Whether each reading has one of these texts."""
    texts = encoded(table.column(column))
    named = quoted(pa.array(wanted, pa.string()))
    return pc.is_in(texts.dictionary, value_set=named).take(texts.indices)


def _those(table: pa.Table, column: str, wanted: tuple[str, ...]) -> pa.Table:
    texts = encoded(table.column(column))
    named = quoted(pa.array(wanted, pa.string()))
    fits = pc.is_in(texts.dictionary, value_set=named)
    if not pc.any(fits).as_py():
        return table.slice(0, 0)
    if pc.all(fits).as_py():
        return table
    return table.filter(fits.take(texts.indices))
