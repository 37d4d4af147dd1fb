"""Prometheus label sets, as they stand in a CSV's cell or an exporter's line."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus.telemetry.labels import (
    canonical_labels,
    labels_of,
    parse_label_set,
    parse_labels,
    with_labels,
)
from nexus.telemetry.reading import plain
from support.readings import readings, recording, text

REAL = (
    'DCGM_FI_DRIVER_VERSION="535.129.03",Hostname="h1",UUID="GPU-1",'
    '__name__="DCGM_FI_DEV_GPU_UTIL",device="nvidia0",gpu="0",instance="h1:9400",'
    'job="dgx",modelName="NVIDIA H100 80GB HBM3"'
)
label_names = st.from_regex(r"\A[a-zA-Z_][a-zA-Z0-9_]{0,8}\Z")


def one(labels: str) -> dict[str, str]:
    parsed = parse_labels(pa.array([labels]))
    assert parsed.error.to_pylist() == [None]
    return {name: column[0].as_py() for name, column in parsed.columns.items() if column[0].as_py()}


def test_labels_that_are_columns_are_taken_out() -> None:
    assert one(REAL) == {
        "source_metric": "DCGM_FI_DEV_GPU_UTIL",
        "uuid": "GPU-1",
        "gpu": "0",
        "device": "nvidia0",
        "model": "NVIDIA H100 80GB HBM3",
        "hostname": "h1",
        "labels": '{"DCGM_FI_DRIVER_VERSION":"535.129.03","instance":"h1:9400","job":"dgx"}',
    }


@pytest.mark.parametrize(
    ("labels", "column", "value"),
    [
        ('gpu_uuid="GPU-2"', "uuid", "GPU-2"),
        ('model_name="NVIDIA H200"', "model", "NVIDIA H200"),
        ('hostname="h2"', "hostname", "h2"),
        ('GPU_I_ID="7",GPU_I_PROFILE="1g.10gb"', "mig", "7"),
        ('exported_pod="train-0",pod="dcgm-exporter-x"', "pod", "train-0"),
        ('{pod="p",namespace="n"}', "namespace", "n"),
    ],
)
def test_every_spelling_leads_to_its_column(labels: str, column: str, value: str) -> None:
    assert one(labels)[column] == value


def test_a_spelling_that_disagrees_stays_a_label() -> None:
    found = one('exported_pod="train-0",pod="dcgm-exporter-x"')
    assert labels_of(found["labels"]) == {"pod": "dcgm-exporter-x"}


def test_a_malformed_set_costs_only_its_own_row() -> None:
    parsed = parse_labels(pa.array([REAL, 'gpu="0', "gpu=0", None, ""]))
    assert [reason is None for reason in parsed.error.to_pylist()] == [
        True,
        False,
        False,
        True,
        True,
    ]
    assert "malformed at character 0" in parsed.error[2].as_py()
    assert parsed.columns["uuid"].to_pylist() == ["GPU-1", "", "", "", ""]


@given(st.dictionaries(label_names, text.filter(bool), max_size=6))
def test_any_label_map_survives_its_prometheus_text(labels: dict[str, str]) -> None:
    def escaped(value: str) -> str:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    line = ",".join(f'{name}="{escaped(value)}"' for name, value in labels.items())
    assert parse_label_set(line) == labels
    assert parse_label_set(f"{{{line},}}" if line else "{}") == labels


def test_a_value_that_looks_like_a_name_is_not_cut_out() -> None:
    found = one('a=",__name__=",b="c",__name__="m"')
    assert labels_of(found["labels"]) == {"a": ",__name__=", "b": "c"}
    assert found["source_metric"] == "m"


def test_labels_fill_only_what_the_table_does_not_say() -> None:
    table = readings({"uuid": "GPU-9", "source_metric": "m"}, {"source_metric": ""})
    rows = plain(with_labels(table, parse_labels(pa.array([REAL, REAL])))).to_pylist()
    assert [row["uuid"] for row in rows] == ["GPU-9", "GPU-1"]
    assert [row["source_metric"] for row in rows] == ["m", "DCGM_FI_DEV_GPU_UTIL"]
    assert labels_of(rows[0]["labels"])["UUID"] == "GPU-1"
    assert "UUID" not in labels_of(rows[1]["labels"])


def test_the_recordings_labels_hold_nothing_that_is_a_column() -> None:
    assert plain(recording())["labels"].unique().to_pylist() == [
        canonical_labels(
            {
                "DCGM_FI_DRIVER_VERSION": "580.159.04",
                "instance": "h200-lab-01:9400",
                "job": "dgx_dcgm_exporter",
            }
        )
    ]


@pytest.mark.parametrize("broken", ["{", "[]", '"x"', "{} {}"])
def test_text_that_is_no_label_map_is_none(broken: str) -> None:
    assert labels_of(broken) == {}
