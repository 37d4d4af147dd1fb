"""Bad rows do not stop a file: they are refused with reason, line and bytes; the rest goes on."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nexus.telemetry.csv import rows as why
from nexus.telemetry.csv.forms import detect_form
from nexus.telemetry.csv.times import IN_THE_FUTURE, NOT_A_TIME, TOO_OLD
from nexus.telemetry.reading import SOURCE_SCHEMA
from support.csv_text import (
    LONG_HEADER,
    clock,
    long_row,
    read_rows,
    readings,
    refused,
    values,
    why_refused,
)

BAD = {
    "wrong columns": ('"2025-07-18T20:42:34Z","only","three"\n', why.WRONG_COLUMNS),
    "too many": (long_row(end="") + ',"more"\n', why.WRONG_COLUMNS),
    "no number": (long_row(value="N/A"), why.NOT_A_NUMBER),
    "empty value": (long_row(value=""), why.NOT_A_NUMBER),
    "nan": (long_row(value="NaN"), why.NOT_A_NUMBER),
    "infinite": (long_row(value="+Inf"), why.NOT_A_NUMBER),
    "hex": (long_row(value="0x10"), why.NOT_A_NUMBER),
    "no time": (long_row(time="soon"), NOT_A_TIME),
    "too old": (long_row(time="1999-12-31T23:59:59Z"), TOO_OLD),
    "in the future": (long_row(time="2031-01-01T00:00:00Z"), IN_THE_FUTURE),
    "no identity": (long_row(uuid="", host="", gpu=""), why.NO_IDENTITY),
    "no metric": (long_row(metric=""), why.NO_METRIC),
    "bad labels": (long_row(extra_labels=',x=""'), why.BAD_LABELS),
    "again the header": (LONG_HEADER, NOT_A_TIME),
}


def long_file(tmp_path: Path, *rows: str | bytes) -> Path:
    path = tmp_path / "long.csv"
    encoded = (row.encode() if isinstance(row, str) else row for row in rows)
    path.write_bytes(LONG_HEADER.encode() + b"".join(encoded))
    return path


def test_a_reading_is_what_the_row_says(tmp_path: Path) -> None:
    (block,) = read_rows(long_file(tmp_path, long_row(5, value="85.25")))
    assert block.table.column_names == [n for n in SOURCE_SCHEMA.names if n != "ingested"]
    (reading,) = readings([block])
    assert reading.pop("timestamp").isoformat() == "2025-07-18T20:00:05+00:00"
    assert reading == {
        "source_metric": "DCGM_FI_DEV_GPU_UTIL",
        "source_value": 85.25,
        "unit": "",
        "uuid": "GPU-00000005",
        "gpu": "5",
        "device": "nvidia5",
        "model": "NVIDIA H100 80GB HBM3",
        "hostname": "host-0",
        "cluster": "",
        "mig": "",
        "namespace": "",
        "pod": "",
        "container": "",
        "labels": '{"DCGM_FI_DRIVER_VERSION":"535.129.03","instance":"host-0:9400"}',
    }


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_row_is_refused_and_its_neighbours_are_not(tmp_path: Path, kind: str) -> None:
    row, reason = BAD[kind]
    path = long_file(tmp_path, long_row(1), row, long_row(2))
    blocks = read_rows(path)
    assert values(blocks) == [0.25, 0.5]
    (bad,) = refused(blocks)
    assert (bad.reason, bad.line, bad.offset) == (reason, 3, len(long_row(1)))
    assert bad.raw == row.rstrip("\n").encode()


def test_lines_are_right_after_cells_with_line_ends(tmp_path: Path) -> None:
    two_lines = long_row(1, extra_labels=',note=""a\nb""')
    path = long_file(tmp_path, two_lines, two_lines, long_row(value="x"), "a,b\n", two_lines)
    blocks = read_rows(path)
    assert values(blocks) == [0.25, 0.25, 0.25]
    assert why_refused(blocks) == [(why.NOT_A_NUMBER, 6), (why.WRONG_COLUMNS, 7)]


def test_the_first_reason_counts_and_each_row_is_refused_once(tmp_path: Path) -> None:
    blocks = read_rows(long_file(tmp_path, long_row(time="x", value="y", uuid="", host="", gpu="")))
    assert why_refused(blocks) == [(NOT_A_TIME, 2)]


def test_a_block_may_have_no_good_row(tmp_path: Path) -> None:
    blocks = read_rows(long_file(tmp_path, "a,b\n"))
    assert values(blocks) == []
    assert why_refused(blocks) == [(why.WRONG_COLUMNS, 2)]


def test_an_empty_line_is_nothing(tmp_path: Path) -> None:
    blocks = read_rows(
        long_file(tmp_path, "\n", long_row(1), "\r\n", "\n", long_row(value="x"), "\n")
    )
    assert values(blocks) == [0.25]
    assert why_refused(blocks) == [(why.NOT_A_NUMBER, 6)]


@settings(max_examples=40)
@given(st.lists(st.sampled_from(["good", "two lines", *BAD])), st.integers(200, 3000))
def test_every_row_comes_out_once_as_a_reading_or_refused(
    tmp_path_factory: pytest.TempPathFactory, kinds: list[str], block_bytes: int
) -> None:
    good = {"good": long_row(4), "two lines": long_row(4, extra_labels=',n=""\n,\n""')}
    rows = [good.get(kind) or BAD[kind][0] for kind in kinds]
    lines = [2 + "".join(rows[:n]).count("\n") for n in range(len(rows))]
    path = long_file(tmp_path_factory.mktemp("rows"), *rows)
    blocks = read_rows(path, block_bytes=2000 + block_bytes)
    assert len(values(blocks)) == sum(kind in good for kind in kinds)
    assert why_refused(blocks) == [
        (BAD[kind][1], line) for kind, line in zip(kinds, lines, strict=True) if kind in BAD
    ]


@pytest.mark.parametrize("odd", [b"caf\xe9", b"nul\0nul", b"\xff\xfe", b"\x00"])
def test_rows_that_are_no_text_are_refused(tmp_path: Path, odd: bytes) -> None:
    row = long_row(1).encode().replace(b"nvidia1", odd)
    umlaut = long_row(3, host="knoten-\u00fc")
    blocks = read_rows(long_file(tmp_path, long_row(1), row, umlaut, row, long_row(2)))
    assert values(blocks) == [0.25, 0.75, 0.5]
    assert why_refused(blocks) == [(why.NOT_TEXT, 3), (why.NOT_TEXT, 5)]
    assert refused(blocks)[0].raw == row.rstrip(b"\n")
    assert readings(blocks)[1]["hostname"] == "knoten-\u00fc"


def test_numbers_are_read_in_every_way_they_are_written(tmp_path: Path) -> None:
    texts = ["1", "-2.5", "1e3", ".5", "7.", " 8 ", "18446744073709551615"]
    expected = [1.0, -2.5, 1000.0, 0.5, 7.0, 8.0, 18446744073709551615.0]
    rows = [long_row(value=text) for text in texts]
    assert values(read_rows(long_file(tmp_path, *rows))) == expected
    # A cell that is no number makes the block go another way: with the same result.
    assert values(read_rows(long_file(tmp_path, *rows, long_row(value="x")))) == expected


def test_without_uuid_the_identity_is_host_and_index(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text(
        "timestamp,metric_name,Hostname,gpu_id,value\n"
        "2024-01-01 12:00:01,util,node-7,3,1\n"
        "2024-01-01 12:00:01,util,,3,2\n"
        "2024-01-01 12:00:01,util,,GPU-abc,3\n"
    )
    blocks = read_rows(path)
    assert [r["uuid"] for r in readings(blocks)] == ["node-7/3", "GPU-abc"]
    assert why_refused(blocks) == [(why.NO_IDENTITY, 3)]


def test_the_wide_form_gives_a_reading_for_each_cell_in_the_rows_order(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    path.write_text(
        "timestamp,hostname,gpu_id,util,power [W],rack\n"
        "1704110401.5,h1,0,10,250.5 W,r1\n"
        "1704110401.5,h1,1,,300,r1\n"
        "1704110402.5,h1,0,oops,251,r2\n"
        "never,h1,0,1,2,r1\n"
        "1704110402.5,h1,1,12,[N/A],r1\n"
    )
    blocks = read_rows(path)
    rows = [
        (r["source_metric"], r["source_value"], r["unit"], r["uuid"], r["labels"])
        for r in readings(blocks)
    ]
    assert rows == [
        ("util", 10.0, "", "h1/0", '{"rack":"r1"}'),
        ("power", 250.5, "W", "h1/0", '{"rack":"r1"}'),
        ("power", 300.0, "W", "h1/1", '{"rack":"r1"}'),
        ("power", 251.0, "W", "h1/0", '{"rack":"r2"}'),
        ("util", 12.0, "", "h1/1", '{"rack":"r1"}'),
    ]
    assert why_refused(blocks) == [(why.NOT_A_NUMBER, 4), (NOT_A_TIME, 5)]


def test_what_nvidia_smi_writes_is_a_wide_file(tmp_path: Path) -> None:
    path = tmp_path / "smi.csv"
    path.write_text(
        "timestamp, name, index, uuid, utilization.gpu [%], memory.used [MiB], ecc\n"
        "2025/07/18 20:42:34.120, NVIDIA H200, 0, GPU-1, 45 %, 1024 MiB, [N/A]\n"
    )
    first, second = readings(read_rows(path))
    assert (first["source_metric"], first["source_value"], first["unit"]) == (
        "utilization.gpu",
        45.0,
        "%",
    )
    assert (second["source_value"], second["unit"], second["uuid"]) == (1024.0, "MiB", "GPU-1")
    assert second["model"] == "NVIDIA H200"
    assert second["timestamp"].isoformat() == "2025-07-18T20:42:34.120000+00:00"


def test_a_parser_refuses_a_line_that_cannot_be_a_row() -> None:
    parser = why.RowParser(detect_form("f", LONG_HEADER.encode(), []), clock)
    data = bytearray(b'"abc\nrest') + bytes(why.ROOM_BYTES)
    assert parser.take(data, 9, final=False, full=False) is None
    taken = parser.take(data, 9, final=False, full=True)
    assert taken is not None
    rows = parser.rows(taken, 9)
    assert (taken.size, rows.lines, rows.table.num_rows) == (5, 1, 0)
    assert rows.refused == [why.Refused(why.UNCLOSED_QUOTE, 9, 0, b'"abc')]
