"""Units and names: canonical ones, and those of the source, exactly as they came."""

import pyarrow as pa
import pytest

from nexus.gateway.metric_names import metric_names
from nexus.gateway.views import READING_COLUMNS, reading_view, rollup_view
from nexus.store.port import ROLLUP_ROWS
from nexus.telemetry.normalise import normalise
from nexus.telemetry.reading import plain
from support.readings import readings

ROWS = plain(
    normalise(
        readings(
            {"source_metric": "DCGM_FI_DEV_GPU_UTIL", "source_value": 7.0},
            {"source_metric": "DCGM_FI_DEV_GPU_UTIL_RATIO", "source_value": 0.3, "unit": "ratio"},
            {"source_metric": "DCGM_FI_DEV_FB_USED", "source_value": 81_559.0},
            {"source_metric": "DCGM_FI_DEV_GPU_TEMP", "source_value": float(0x7FFFFFF0)},
            {"source_metric": "vendorThing", "source_value": 2.5, "unit": "V"},
        )
    )
)


def values(table: pa.Table) -> list[tuple[str, float | None, str]]:
    names = ("metric", "value", "unit")
    return list(zip(*(table.column(name).to_pylist() for name in names), strict=True))


def rolled_up(metric: str, mean: float, unit: str, instance: str = "") -> pa.Table:
    row = {f.name: "" for f in ROLLUP_ROWS if pa.types.is_string(f.type)}
    measures = {"min": mean, "max": mean, "mean": mean, "last": None}
    moments = {"start": 0, "last_timestamp": 0, "count": 1, "missing": 0}
    said = {**row, **measures, **moments, "metric": metric, "unit": unit, "instance": instance}
    return pa.Table.from_pylist([said], ROLLUP_ROWS)


def test_canonical_units_are_those_of_the_catalogue() -> None:
    view = reading_view(ROWS, "canonical")
    assert view.column_names == list(READING_COLUMNS)
    assert values(view) == [
        ("gpu_util", 0.07, "ratio"),
        ("gpu_util", 0.3, "ratio"),
        ("memory_used", 81_559.0 * 1024**2, "B"),
        ("gpu_temperature", None, "C"),
        ("vendor_thing", 2.5, "V"),
    ]


def test_dcgm_units_are_what_the_source_said() -> None:
    assert values(reading_view(ROWS, "dcgm")) == [
        ("DCGM_FI_DEV_GPU_UTIL", 7.0, "percent"),
        ("DCGM_FI_DEV_GPU_UTIL_RATIO", 0.3, "ratio"),
        ("DCGM_FI_DEV_FB_USED", 81_559.0, "MiB"),
        ("DCGM_FI_DEV_GPU_TEMP", None, "C"),
        ("vendorThing", 2.5, "V"),
    ]


@pytest.mark.parametrize(
    ("asked", "row", "shown"),
    [
        ([], rolled_up("gpu_util", 0.5, "ratio"), ("DCGM_FI_DEV_GPU_UTIL", 50.0, "percent")),
        (
            ["DCGM_FI_DEV_GPU_UTIL_RATIO"],
            rolled_up("gpu_util", 0.5, "ratio"),
            ("DCGM_FI_DEV_GPU_UTIL_RATIO", 0.5, "ratio"),
        ),
        ([], rolled_up("memory_used", 1024.0**3, "B"), ("DCGM_FI_DEV_FB_USED", 1024.0, "MiB")),
        ([], rolled_up("energy", 1.5, "J"), ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 1500.0, "mJ")),
        (
            [],
            rolled_up("nvlink_throughput", 3e6, "B/s", "link=3"),
            ("DCGM_FI_DEV_NVLINK_BANDWIDTH_L3", 3.0, "MB/s"),
        ),
        (
            ["DCGM_FI_DEV_NVLINK_THROUGHPUT_L3", "DCGM_FI_DEV_NVLINK_BANDWIDTH_L4"],
            rolled_up("nvlink_throughput", 3e6, "B/s", "link=3"),
            ("DCGM_FI_DEV_NVLINK_THROUGHPUT_L3", 3.0, "MB/s"),
        ),
        ([], rolled_up("vendor_thing", 2.5, "V"), ("vendor_thing", 2.5, "V")),
    ],
)
def test_what_was_put_together_is_converted(
    asked: list[str], row: pa.Table, shown: tuple[str, float, str]
) -> None:
    view = rollup_view(row, "dcgm", metric_names(asked))
    assert values(view) == [shown]
    assert view.column("min").to_pylist() == [shown[1]]
    assert view.column("last").to_pylist() == [None]


def test_no_rows_are_no_trouble() -> None:
    assert reading_view(ROWS.slice(0, 0), "dcgm").num_rows == 0
    empty = rollup_view(ROLLUP_ROWS.empty_table(), "dcgm", metric_names([]))
    assert empty.num_rows == 0


def test_names_of_every_kind_lead_to_the_metric() -> None:
    names = metric_names(["DCGM_FI_DEV_POWER_USAGE", "power", "gpu_util", "VendorThing"])
    assert names.canonical == ("power", "gpu_util", "vendor_thing")


def test_a_name_with_a_link_in_it_means_that_link_alone() -> None:
    third, fourth = (f"DCGM_FI_DEV_NVLINK_BANDWIDTH_L{link}" for link in (3, 4))
    names = metric_names([third, "power", fourth])
    assert names.canonical == ("nvlink_throughput", "power")
    assert names.instances == (("nvlink_throughput", "link=3"), ("nvlink_throughput", "link=4"))
    assert metric_names([third, "nvlink_throughput"]).instances == ()
