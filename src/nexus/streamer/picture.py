"""The fleet as the readings on their way show it: how busy, how warm and how hungry each host is.

Keeping the newest readings costs nothing; they are summed up only when somebody looks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.telemetry.catalogue import meaning_of
from nexus.telemetry.reading import plain

HOSTS_MAX: Final = 64
_ROWS_MAX: Final = 20_000
_WANTED: Final = ("gpu_util", "power", "gpu_temperature")
_COLUMNS: Final = ("hostname", "uuid", "source_metric", "source_value", "unit")


@dataclass(frozen=True, slots=True)
class HostLine:
    """One host, as of its newest readings; None where nothing was said."""

    name: str
    gpus: int
    utilisation: float | None
    power_watts: float | None
    hottest_celsius: float | None


class Picture:
    """Takes every table that goes by, and remembers what the latest of them said of each host."""

    def __init__(self) -> None:
        self._newest: pa.Table | None = None
        self._hosts: dict[str, HostLine] = {}

    def saw(self, table: pa.Table) -> None:
        """Remember the readings to look at next."""
        if table.num_rows:
            self._newest = table

    def hosts(self) -> list[HostLine]:
        """Every host that was seen, by name."""
        newest, self._newest = self._newest, None
        if newest is not None:
            first = max(newest.num_rows - _ROWS_MAX, 0)
            for line in _host_lines(newest.slice(first)):
                if line.name in self._hosts or len(self._hosts) < HOSTS_MAX:
                    self._hosts[line.name] = line
        return [self._hosts[name] for name in sorted(self._hosts)]


def _host_lines(table: pa.Table) -> list[HostLine]:
    """Sum up one table: columns and groups, whatever its length."""
    table = plain(table.select(_COLUMNS))
    kinds = table.group_by(["source_metric", "unit"]).aggregate([]).to_pylist()
    found: dict[str, dict[str, float]] = {}
    for kind in kinds:
        meaning = meaning_of(kind["source_metric"], kind["unit"])
        if meaning.metric in _WANTED:
            scale = meaning.multiply / meaning.divide
            for host, value in _by_host(table, kind, meaning.metric).items():
                found.setdefault(host, {})[meaning.metric] = value * scale
    counted = table.group_by("hostname").aggregate([("uuid", "count_distinct")])
    return [
        HostLine(host, gpus, *(found.get(host, {}).get(metric) for metric in _WANTED))
        for host, gpus in zip(
            counted["hostname"].to_pylist(), counted["uuid_count_distinct"].to_pylist(), strict=True
        )
    ]


# A host's GPUs are busy on average, hungry together, and as hot as the hottest.
_SUMMED: Final = {"gpu_util": "mean", "power": "sum", "gpu_temperature": "max"}


def _by_host(table: pa.Table, kind: dict[str, str], metric: str) -> dict[str, float]:
    is_kind = pc.and_(
        pc.equal(table["source_metric"], kind["source_metric"]),
        pc.equal(table["unit"], kind["unit"]),
    )
    # The newest value of each GPU: a table may hold many seconds.
    latest = (
        table.filter(is_kind)
        .group_by(["hostname", "uuid"], use_threads=False)
        .aggregate([("source_value", "last")])
    )
    how = _SUMMED[metric]
    summed = latest.group_by("hostname").aggregate([("source_value_last", how)])
    values = summed[f"source_value_last_{how}"].to_pylist()
    return dict(zip(summed["hostname"].to_pylist(), values, strict=True))
