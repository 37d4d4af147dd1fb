"""The unit of each metric: as the catalogue has it, or as the last reading of it said."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from nexus.telemetry.catalogue import METRICS
from nexus.telemetry.reading import encoded

# Given metrics that the catalogue does not have, the units that their sources say.
Said = Callable[[Sequence[str]], Mapping[str, str]]


def with_units(rows: pa.Table, said: Said) -> pa.Table:
    """The rows with a column of their metrics' canonical units."""
    if not rows.num_rows:
        return rows.append_column("unit", pa.array([], pa.string()))
    metrics = encoded(rows.column("metric"))
    names: list[str] = metrics.dictionary.to_pylist()
    unknown = [name for name in names if name not in METRICS]
    others = said(unknown) if unknown else {}
    known = [METRICS[n].unit if n in METRICS else others.get(n, "") for n in names]
    units = pa.array(known, pa.string())
    return rows.append_column("unit", units.take(metrics.indices))


def said_in(rows: pa.Table) -> Said:
    """What rows themselves say in a column `said`, one row a metric."""
    pairs = zip(rows["metric"].to_pylist(), rows["said"].to_pylist(), strict=True)
    units = dict(pairs)
    return lambda names: units
