"""The newest reading of each series."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus.gateway.live import newest as module
from nexus.gateway.live.columns import LIVE_SCHEMA
from nexus.gateway.live.newest import newest
from nexus.telemetry.identity import SERIES_COLUMNS
from support.live import live_rows, shown
from support.readings import NOON_US, examples

rows = st.lists(
    st.fixed_dictionaries(
        {
            "uuid": st.sampled_from(["a", "b"]),
            "pod": st.sampled_from(["", "x", "y"]),
            "namespace": st.sampled_from(["", "n"]),
            "mig": st.sampled_from(["", "1"]),
            "source_metric": st.sampled_from(["DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE"]),
            "source_value": st.sampled_from([1.0, 2.0, 3.0]),
            "timestamp": st.integers(0, 3).map(lambda n: NOON_US + n * 1_000_000),
        }
    ),
    max_size=30,
)


def by_hand(table: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Row after row: the last of the greatest time, where it stands."""
    best: dict[tuple[str, ...], int] = {}
    for number, row in enumerate(table):
        series = tuple(row[name] for name in SERIES_COLUMNS)
        before = best.get(series)
        if before is None or row["timestamp"] >= table[before]["timestamp"]:
            best[series] = number
    return [table[number] for number in sorted(best.values())]


@pytest.mark.parametrize("largest", [1 << 62, 1])
@examples(40)
@given(made=rows)
def test_each_series_keeps_its_newest_reading(largest: int, made: list[dict[str, object]]) -> None:
    table = live_rows(*made) if made else LIVE_SCHEMA.empty_table()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_KEYS_MAX", largest)  # both ways of numbering series
        assert shown(newest(table)) == by_hand(shown(table))
