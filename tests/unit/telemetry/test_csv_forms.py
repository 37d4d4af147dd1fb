"""A header tells the form of its file, or one error says why it does not."""

import pytest

from nexus.telemetry.csv.forms import UnknownCsvForm, detect_form, header_cells
from support.csv_text import LONG_HEADER

LONG = LONG_HEADER.encode()


def test_the_long_form_is_known_by_its_metric_and_value() -> None:
    form = detect_form("f", LONG, [])
    assert not form.wide
    assert form.roles["uuid"] == 4
    assert form.roles["labels"] == 11
    assert form.numbers() == (10,)
    assert form.extras == ()


def test_columns_may_come_in_any_order_and_case() -> None:
    form = detect_form("f", b'"VALUE",GPU_UUID,"Metric Name",Time\n', [])
    assert dict(form.roles) == {"source_value": 0, "uuid": 1, "source_metric": 2, "timestamp": 3}


def test_a_name_beside_a_value_is_the_metrics() -> None:
    long = detect_form("f", b"timestamp,name,uuid,value\n", [])
    assert (long.roles["source_metric"], "model" in long.roles) == (1, False)
    both = detect_form("f", b"timestamp,metric,name,uuid,value\n", [])
    assert (both.roles["source_metric"], both.roles["model"]) == (1, 2)


def test_columns_that_are_nothing_else_are_labels() -> None:
    form = detect_form("f", b"timestamp,metric,uuid,value,rack,rack\n", [])
    assert form.extras == (4, 5)


def test_the_wide_form_has_a_column_for_each_metric() -> None:
    form = detect_form("f", b"timestamp,uuid,DCGM_FI_DEV_GPU_UTIL,power\n", [["", "", "1", "2.5"]])
    assert [metric.name for metric in form.metrics] == ["DCGM_FI_DEV_GPU_UTIL", "power"]
    assert form.numbers() == (2, 3)


def test_the_wide_form_reads_units_from_the_header() -> None:
    header = b"timestamp, index, uuid, power.draw [W], temperature (C), clocks.sm [MHz]\n"
    form = detect_form("f", header, [["", "0", "u", "250.1 W", "60", "[N/A]"]])
    assert [(m.name, m.unit) for m in form.metrics] == [
        ("power.draw", "W"),
        ("temperature", "C"),
        ("clocks.sm", "MHz"),
    ]
    assert form.spaced


def test_in_the_wide_form_text_is_no_metric() -> None:
    header = b"timestamp,uuid,driver_version,state,util,slurm_job_id\n"
    rows = [["t", "u", "535.1", "P0", "3", "17"], ["t", "u", "535.1", "P2", "bad", "17"]]
    form = detect_form("f", header, rows)
    assert [metric.name for metric in form.metrics] == ["util"]
    assert [form.names[i] for i in form.extras] == ["driver_version", "state", "slurm_job_id"]


def test_a_host_and_an_index_are_an_identity() -> None:
    form = detect_form("f", b"timestamp,hostname,gpu_id,util\n", [])
    assert (form.roles["hostname"], form.roles["gpu"]) == (1, 2)


@pytest.mark.parametrize(
    ("header", "lacks"),
    [
        (b"metric_name,uuid,value\n", "no time"),
        (b"timestamp,metric_name,value\n", "which GPU"),
        (b"timestamp,gpu_id,util\n", "which GPU"),
        (b"timestamp,uuid,model\n", "no metric"),
        (b"timestamp,uuid,value\n", "belong together"),
        (b"timestamp,uuid,metric_name,reading\n", "belong together"),
        (b"open,high,low,close\n", "no time"),
        (b"%PDF-1.7\n", "no time"),
    ],
)
def test_an_unknown_header_is_one_error_that_helps(header: bytes, lacks: str) -> None:
    with pytest.raises(UnknownCsvForm) as caught:
        detect_form("/data/x.csv", header, [])
    told = str(caught.value)
    assert lacks in told
    assert "/data/x.csv" in told
    assert all(name in told for name in header.decode().strip().split(","))
    assert "long (timestamp, metric_name, value" in told
    assert "wide (timestamp" in told


def test_an_error_stays_short_however_wide_the_file() -> None:
    with pytest.raises(UnknownCsvForm) as caught:
        detect_form("x.csv", b",".join(b"column" * 100 for _ in range(5000)), [])
    assert len(str(caught.value)) < 4000
    assert "and 4960 more" in str(caught.value)


def test_a_byte_order_mark_and_odd_bytes_do_not_hide_a_name() -> None:
    assert header_cells(b'\xef\xbb\xbf"timestamp",uuid\r\n') == ["timestamp", "uuid"]
    assert header_cells(b"timestamp,temp (\xb0C)\n") == ["timestamp", "temp (°C)"]
