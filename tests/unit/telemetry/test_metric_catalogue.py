"""The catalogue: both generations of DCGM names lead to one metric, in one unit."""

import pytest

from nexus.telemetry.catalogue import (
    DISTINGUISHING,
    HOST_METRICS,
    METRICS,
    SOURCE_NAMES,
    Kind,
    meaning_of,
    snake_case,
    unit_for,
    usual_unit,
)

# What dcgm-exporter 4.9 renamed among its default fields, but for the driver version, a label.
RENAMED = {
    "DEV_SM_CLOCK": "DEV_SM_CLOCK_HERTZ",
    "DEV_MEM_CLOCK": "DEV_MEMORY_CLOCK_HERTZ",
    "DEV_MEMORY_TEMP": "DEV_MEMORY_TEMP_CELSIUS",
    "DEV_GPU_TEMP": "DEV_GPU_TEMP_CELSIUS",
    "DEV_POWER_USAGE": "DEV_BOARD_POWER_WATTS",
    "DEV_TOTAL_ENERGY_CONSUMPTION": "DEV_GPU_ENERGY_JOULES_TOTAL",
    "DEV_PCIE_REPLAY_COUNTER": "DEV_PCIE_REPLAY_TOTAL",
    "DEV_GPU_UTIL": "DEV_GPU_UTIL_RATIO",
    "DEV_MEM_COPY_UTIL": "DEV_MEMORY_UTIL_RATIO",
    "DEV_ENC_UTIL": "DEV_ENC_UTIL_RATIO",
    "DEV_DEC_UTIL": "DEV_DEC_UTIL_RATIO",
    "DEV_XID_ERRORS": "DEV_XID_ERROR",
    "DEV_FB_FREE": "DEV_FB_FREE_BYTES",
    "DEV_FB_USED": "DEV_FB_USED_BYTES",
    "DEV_FB_RESERVED": "DEV_FB_RESERVED_BYTES",
    "DEV_NVLINK_BANDWIDTH_TOTAL": "DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND",
    "DEV_UNCORRECTABLE_REMAPPED_ROWS": "DEV_ROW_REMAP_UNCORRECTABLE_TOTAL",
    "DEV_CORRECTABLE_REMAPPED_ROWS": "DEV_ROW_REMAP_CORRECTABLE_TOTAL",
    "DEV_ROW_REMAP_FAILURE": "DEV_ROW_REMAP_FAILED",
    "PROF_GR_ENGINE_ACTIVE": "PROF_GR_ENGINE_UTIL_RATIO",
    "PROF_PIPE_TENSOR_ACTIVE": "PROF_TENSOR_UTIL_RATIO",
    "PROF_DRAM_ACTIVE": "PROF_DRAM_UTIL_RATIO",
}


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_a_renamed_field_stays_the_same_metric(old: str, new: str) -> None:
    before, after = meaning_of(f"DCGM_FI_{old}", ""), meaning_of(f"DCGM_FI_{new}", "")
    assert before.metric == after.metric in METRICS
    assert (before.low, before.high, before.unit) == (after.low, after.high, after.unit)


def test_of_the_renamed_fields_eleven_changed_their_unit() -> None:
    changed = [
        old
        for old, new in RENAMED.items()
        if usual_unit(f"DCGM_FI_{old}") != usual_unit(f"DCGM_FI_{new}")
    ]
    assert (len(RENAMED), len(changed)) == (22, 11)


def test_the_catalogue_knows_what_a_fleet_is_asked_about() -> None:
    assert len(METRICS) >= 80
    for name in ("SM_ACTIVE", "SM_OCCUPANCY", "NVLINK_TX_BYTES"):
        assert f"DCGM_FI_PROF_{name}" in SOURCE_NAMES
    for name in ("ECC_DBE_VOL_TOTAL", "RETIRED_PENDING", "ROW_REMAP_PENDING", "POWER_VIOLATION"):
        assert f"DCGM_FI_DEV_{name}" in SOURCE_NAMES
    assert meaning_of("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "").metric == "clock_event_reasons"


def test_every_name_has_a_unit_that_measures_its_metric() -> None:
    assert [name for name in SOURCE_NAMES if meaning_of(name, "").problem] == []


def test_no_name_belongs_to_two_metrics() -> None:
    names = [source.name for metric in METRICS.values() for source in metric.sources]
    assert len(names) == len(set(names))


def test_every_metric_has_sane_bounds_and_says_what_it_is() -> None:
    for metric in METRICS.values():
        assert metric.low < metric.high
        assert metric.description
        assert set(metric.labels) <= set(DISTINGUISHING.values())
        assert (metric.kind is Kind.COUNTER) == (metric.high == float("inf"))


def test_a_name_with_the_link_in_it_is_an_instance_of_the_links_metric() -> None:
    lane = meaning_of("DCGM_FI_DEV_NVLINK_BANDWIDTH_L3", "")
    whole = meaning_of("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "")
    assert (lane.metric, lane.instance) == (whole.metric, "link=3")
    assert whole.instance == ""


def test_the_one_ambiguous_name_is_settled_by_help_then_by_version() -> None:
    name = "DCGM_FI_DEV_GPU_UTIL_RATIO"
    assert unit_for(name, "GPU utilization (in %).") == "percent"
    assert unit_for(name, "GPU utilization, 0.0 to 1.0.") == "ratio"
    assert unit_for(name, "", (4, 8, 4)) == "percent"
    assert unit_for(name, "", (4, 9, 0)) == unit_for(name) == "ratio"


def test_a_name_outweighs_a_help_text_that_is_wrong() -> None:
    assert (
        unit_for("DCGM_FI_DEV_PCIE_TX_THROUGHPUT", "bytes transmitted (in KB) via NVML.") == "KB/s"
    )
    assert unit_for("DCGM_FI_PROF_DRAM_ACTIVE", "is active (in %).") == "ratio"
    assert unit_for("node_load1") == ""
    assert unit_for("my_power", "Power (in mW)") == "mW"


def test_a_unit_that_measures_something_else_is_a_problem() -> None:
    assert "does not measure gpu_temperature" in meaning_of("DCGM_FI_DEV_GPU_TEMP", "W").problem


@pytest.mark.parametrize(
    ("name", "snake"),
    [
        ("DCGM_FI_DEV_NEW_THING", "dcgm_fi_dev_new_thing"),
        ("gpuFanSpeed", "gpu_fan_speed"),
        ("utilization.gpu [%]", "utilization_gpu"),
        ("up", "up"),
    ],
)
def test_an_unknown_name_is_kept_in_snake_case(name: str, snake: str) -> None:
    assert snake_case(name) == snake


def test_an_exporters_answer_is_a_hosts_reading() -> None:
    assert "up" in HOST_METRICS
    assert "gpu_util" not in HOST_METRICS
