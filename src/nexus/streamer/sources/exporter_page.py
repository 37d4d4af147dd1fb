"""A scraped page as readings: which samples are a GPU's, of which GPU, and in which unit.

A sample is a reading if its metric is DCGM's and its labels name a GPU, by uuid or by its index
on its host, or if it is of the host itself (its processors, its switches). The rest is counted by
reason and left out. Python looks at distinct names and label sets only.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.streamer.sources.exporter_labels import columns_of
from nexus.streamer.sources.exporter_text import Exposition
from nexus.streamer.sources.exporter_units import (
    exporter_version,
    is_gpu_metric,
    is_host_metric,
    unit_of,
)
from nexus.telemetry.reading import TIMESTAMP, encoded, source_table

NOT_GPU: Final = "not a GPU metric"
NO_GPU: Final = "no GPU in its labels"
NOT_COLLECTED: Final = "not a finite number"


@dataclass(frozen=True, slots=True)
class PageReadings:
    """The readings of one page, and how many samples were left out, by reason."""

    table: pa.Table
    left_out: Counter[str]
    hostname: str  # as its GPUs say it; "" if there are none


def readings_of(page: Exposition, *, host: str, scraped_us: int) -> PageReadings:
    """The page's GPU readings; a sample without a time of its own gets the scrape's."""
    units = _units(page)
    columns = [columns_of(labels, host) for labels in page.label_sets]
    of_gpu = pa.array([unit is not None for unit in units], pa.bool_()).take(page.names.indices)
    has_gpu = pa.array([bool(c["uuid"] or c["gpu"]) for c in columns], pa.bool_())
    of_host = pa.array([is_host_metric(name) for name in page.names.dictionary.to_pylist()])
    named = pc.and_(
        of_gpu,
        pc.or_(
            has_gpu.take(page.labels.indices), of_host.cast(pa.bool_()).take(page.names.indices)
        ),
    )
    kept = pc.and_(named, pc.is_finite(page.values))
    left_out = {
        NOT_GPU: len(page) - _count(of_gpu),
        NO_GPU: _count(of_gpu) - _count(named),
        NOT_COLLECTED: _count(named) - _count(kept),
    }
    names, sets = page.names.filter(kept), page.labels.indices.filter(kept)
    times = pc.fill_null(page.times_us.filter(kept), scraped_us)
    table = source_table(
        {
            "timestamp": times.cast(pa.timestamp("us")).cast(TIMESTAMP),
            "source_metric": encoded(names),
            "source_value": page.values.filter(kept),
            "unit": _taken([unit or "" for unit in units], names.indices),
            **{name: _taken([c[name] for c in columns], sets) for name in columns_of((), "")},
        }
    )
    hostname = columns[sets[0].as_py()]["hostname"] if len(sets) else ""
    return PageReadings(table.drop_columns(["ingested"]), +Counter(left_out), hostname)


def _units(page: Exposition) -> list[str | None]:
    """The unit of each distinct name, None for a metric that is no GPU's."""
    version = exporter_version(page)
    return [
        unit_of(name, page.family(name), version) if is_gpu_metric(name) else None
        for name in page.names.dictionary.to_pylist()
    ]


def _taken(values: list[str], indices: pa.Array) -> pa.DictionaryArray:
    """The values at the indices, encoded without making the rows' text."""
    compact = encoded(pa.array(values, pa.string()))
    return pa.DictionaryArray.from_arrays(compact.indices.take(indices), compact.dictionary)


def _count(mask: pa.Array) -> int:
    return int(pc.sum(mask).as_py() or 0)
