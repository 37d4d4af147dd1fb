"""From what sources say to what tables hold."""

import pyarrow as pa
import pytest
from hypothesis import given

from nexus.telemetry.labels import canonical_labels
from nexus.telemetry.normalise import (
    BLANK_FP64,
    BLANK_INT32,
    BLANK_INT64,
    bounds_reason,
    normalise,
)
from nexus.telemetry.reading import READING_SCHEMA, SOURCE_SCHEMA, plain
from support.readings import any_readings, examples, fleet, readings, recording


def canonical(**row: object) -> dict[str, object]:
    """One reading, normalised."""
    found: dict[str, object] = plain(normalise(readings(row))).to_pylist()[0]
    return found


@pytest.mark.parametrize(
    ("name", "said", "metric", "value"),
    [
        ("DCGM_FI_DEV_GPU_UTIL", 85.0, "gpu_util", 0.85),
        ("DCGM_FI_DEV_GPU_UTIL_RATIO", 0.85, "gpu_util", 0.85),
        ("DCGM_FI_DEV_SM_CLOCK", 1980.0, "sm_clock", 1.98e9),
        ("DCGM_FI_DEV_SM_CLOCK_HERTZ", 1.98e9, "sm_clock", 1.98e9),
        ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 1500.0, "energy", 1.5),
        ("DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", 1.5, "energy", 1.5),
        ("DCGM_FI_DEV_FB_USED", 2.0, "memory_used", 2097152.0),
        ("DCGM_FI_DEV_FB_USED_BYTES", 2097152.0, "memory_used", 2097152.0),
        ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", 3.0, "nvlink_throughput", 3e6),
        ("DCGM_FI_DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND", 3e6, "nvlink_throughput", 3e6),
        ("DCGM_FI_DEV_POWER_VIOLATION", 2.5e9, "slowed_by_power", 2.5),
        ("DCGM_FI_DEV_POWER_USAGE", 118.78, "power", 118.78),
        ("dcgm_gpu_utilization", 7.0, "gpu_util", 0.07),
        ("gpu_util", 0.07, "gpu_util", 0.07),
    ],
)
def test_both_generations_become_one_metric_in_one_unit(
    name: str, said: float, metric: str, value: float
) -> None:
    row = canonical(source_metric=name, source_value=said)
    assert (row["metric"], row["value"]) == (metric, value)
    assert (row["source_metric"], row["source_value"], row["unit"]) == (name, said, "")


def test_the_unit_that_was_stamped_outweighs_the_usual_one() -> None:
    said = {"source_metric": "DCGM_FI_DEV_GPU_UTIL_RATIO", "source_value": 85.0}
    assert canonical(**said, unit="percent")["value"] == 0.85
    assert canonical(**said, unit="ratio")["value"] == 85.0


@pytest.mark.parametrize("first", [BLANK_INT32, BLANK_FP64, BLANK_INT64])
@pytest.mark.parametrize("which", range(4))
@pytest.mark.parametrize("name", ["DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "mine"])
def test_a_blank_is_not_collected_whatever_its_width(first: float, which: int, name: str) -> None:
    row = canonical(source_metric=name, source_value=first + which)
    assert row["value"] is None
    assert row["source_value"] == first + which


def test_a_counter_passes_the_small_blanks_and_stays_a_count() -> None:
    hours = 40 * 3600 * 1e9  # more nanoseconds than the blank of doubles
    row = canonical(source_metric="DCGM_FI_DEV_POWER_VIOLATION", source_value=hours)
    assert row["value"] == 40 * 3600
    clock = canonical(source_metric="DCGM_FI_DEV_MEMORY_CLOCK_HERTZ", source_value=3.2e9)
    assert clock["value"] == 3.2e9


def test_what_no_temperature_can_be_is_a_blank() -> None:
    assert canonical(source_value=BLANK_INT32 + 200)["value"] is None
    assert canonical(source_value=1000.0)["value"] == 1000.0


def test_a_value_that_is_no_number_does_not_hide_a_blank_beside_it() -> None:
    table = normalise(
        readings(
            {"source_value": float("nan")},
            {"source_metric": "mine", "source_value": BLANK_FP64},
        )
    )
    assert table["value"].to_pylist()[1] is None


def test_zero_is_a_value() -> None:
    assert canonical(source_value=0.0)["value"] == 0.0


@pytest.mark.parametrize(
    ("labels", "column", "value"),
    [
        ({"gpu_uuid": "GPU-1"}, "uuid", "GPU-1"),
        ({"UUID": "GPU-1"}, "uuid", "GPU-1"),
        ({"model_name": "NVIDIA H200"}, "model", "NVIDIA H200"),
        ({"modelName": "NVIDIA H200"}, "model", "NVIDIA H200"),
        ({"Hostname": "h1"}, "hostname", "h1"),
        ({"hostname": "h1"}, "hostname", "h1"),
        ({"GPU_I_ID": "3"}, "mig", "3"),
    ],
)
def test_label_variants_become_columns(labels: dict[str, str], column: str, value: str) -> None:
    row = canonical(labels=canonical_labels(labels | {"job": "x"}))
    assert row[column] == value
    assert row["labels"] == '{"job":"x"}'


def test_links_are_told_apart_by_their_labels_and_by_their_names() -> None:
    name = "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL"
    said = canonical(source_metric=name, labels='{"job":"x","nvlink":"3"}')
    named = canonical(source_metric="DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L3")
    assert said["metric"] == named["metric"] == "nvlink_replays"
    assert said["instance"] == named["instance"] == "link=3"
    assert said["labels"] == '{"job":"x","nvlink":"3"}'


def test_xids_of_one_gpu_are_readings_of_their_own() -> None:
    name = "DCGM_EXP_XID_ERRORS_COUNT"
    assert canonical(source_metric=name, labels='{"xid":"79"}')["instance"] == "xid=79"


def test_a_label_that_does_not_distinguish_makes_no_instance() -> None:
    assert canonical(labels='{"nvlink":"3"}')["instance"] == ""
    assert canonical(source_metric="DCGM_FI_DEV_XID_ERRORS", labels='{"xid":"1"}')["instance"] == ""


def test_an_unknown_metric_passes_with_its_own_name_and_unit() -> None:
    row = canonical(
        source_metric="DCGM_FI_DEV_NEW", unit="furlongs", source_value=3.5, labels='{"nvlink":"1"}'
    )
    assert (row["metric"], row["value"], row["unit"]) == ("dcgm_fi_dev_new", 3.5, "furlongs")
    assert row["instance"] == "link=1"


@pytest.mark.parametrize(
    ("said", "uuid", "gpu"),
    [
        ({"uuid": "GPU-1", "gpu": "3", "hostname": "h"}, "GPU-1", "3"),
        ({"gpu": "GPU-1", "hostname": "h"}, "GPU-1", ""),
        ({"gpu": "3", "hostname": "h"}, "h/3", "3"),
        ({"hostname": "h", "source_metric": "up"}, "h/", ""),
    ],
)
def test_every_reading_has_an_identity(said: dict[str, object], uuid: str, gpu: str) -> None:
    row = canonical(**said)
    assert (row["uuid"], row["gpu"]) == (uuid, gpu)


def test_normalised_readings_have_the_tables_schema() -> None:
    table = normalise(fleet(500, gpus=16))
    assert plain(table).schema.equals(READING_SCHEMA)
    plain(table).validate(full=True)
    assert plain(normalise(SOURCE_SCHEMA.empty_table())).schema.equals(READING_SCHEMA)
    assert normalise(readings({}).to_batches()[0]).num_rows == 1


@examples(50)
@given(any_readings)
def test_any_reading_normalises_the_same_alone_as_among_others(table: pa.Table) -> None:
    together = plain(normalise(table)).to_pylist()
    alone = [plain(normalise(table.slice(n, 1))).to_pylist()[0] for n in range(table.num_rows)]
    assert [str(row) for row in together] == [str(row) for row in alone]


@examples(50)
@given(any_readings)
def test_what_the_source_said_stays_as_it_was(table: pa.Table) -> None:
    kept = ["timestamp", "source_metric", "source_value", "unit", "ingested", "cluster"]
    assert plain(normalise(table)).select(kept).equals(table.select(kept))


def test_values_that_cannot_be_are_named_and_left_as_they_are() -> None:
    table = normalise(
        readings(
            {"source_value": 55.0},
            {"source_value": 900.0},
            {"source_metric": "DCGM_FI_DEV_GPU_UTIL", "source_value": -1.0},
            {"unit": "W"},
            {"source_value": float("nan")},
            {"source_value": BLANK_INT64},
            {"source_metric": "mine", "source_value": -1e300},
        )
    )
    assert bounds_reason(table).to_pylist() == [
        None,
        "gpu_temperature is outside of -50 to 200 C",
        "gpu_util is outside of 0 to 1 ratio",
        "the unit 'W' does not measure gpu_temperature",
        "the value is no number",
        None,
        None,
    ]
    assert table["value"].to_pylist()[1] == 900.0


def test_a_real_recording_is_all_known_and_within_bounds() -> None:
    table = normalise(recording())
    assert table.num_rows == 3684
    assert bounds_reason(table).null_count == 3684
    assert table["value"].null_count == 0
    assert len(plain(table)["metric"].unique()) == 12
