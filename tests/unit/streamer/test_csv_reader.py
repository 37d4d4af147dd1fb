"""A file is read in blocks of any size with the same result, from any of its positions."""

import gzip
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nexus.streamer.sources.csv_reader import CsvReader
from nexus.streamer.sources.csv_restart import Checkpoint
from nexus.telemetry.csv import rows as why
from nexus.telemetry.csv.forms import UnknownCsvForm
from support.csv_making import read, reasons, rejected
from support.csv_text import LONG_HEADER, clock, long_row, readings, values

ROWS = [
    long_row(n, extra_labels=',note=""a,\n""' if n % 3 == 0 else "", value="x" if n == 17 else None)
    for n in range(40)
]
EXPECTED = [n / 4 for n in range(40) if n != 17]


def whole(tmp_path: Path, text: str = LONG_HEADER + "".join(ROWS)) -> Path:
    path = tmp_path / "f.csv"
    path.write_text(text, newline="")
    return path


@pytest.mark.parametrize("block_bytes", [700, 1000, 1501, 4096, 1 << 20])
def test_the_size_of_a_block_makes_no_difference(tmp_path: Path, block_bytes: int) -> None:
    blocks = read(whole(tmp_path), block_bytes=block_bytes)
    assert values(blocks) == EXPECTED
    line = 2 + sum(row.count("\n") for row in ROWS[:17])
    assert reasons(blocks) == [(why.NOT_A_NUMBER, line)]
    assert len(blocks) > 1 or block_bytes > 10_000


@pytest.mark.parametrize("packed", [False, True])
def test_reading_goes_on_from_any_position(tmp_path: Path, packed: bool) -> None:
    path = whole(tmp_path)
    if packed:
        path.write_bytes(gzip.compress(path.read_bytes()))
    blocks = read(path, block_bytes=1500)
    for n, block in enumerate(blocks):
        assert block.position is not None
        checkpoint = Checkpoint.of(block.position.state)
        assert checkpoint is not None
        rest = read(path, block_bytes=1500, place=checkpoint.place)
        assert readings(rest) == readings(blocks[n + 1 :])
        assert rejected(rest) == rejected(blocks[n + 1 :])


def test_a_position_is_the_byte_and_line_where_a_row_begins(tmp_path: Path) -> None:
    path = whole(tmp_path)
    text = path.read_bytes()
    starts = {len(LONG_HEADER) + len("".join(ROWS[:n])) for n in range(len(ROWS) + 1)}
    for block in read(path, block_bytes=1500):
        assert block.position is not None
        offset = int(str(block.position.state["offset"]))
        assert offset in starts
        assert block.position.state["line"] == 1 + text[:offset].count(b"\n")


@pytest.mark.parametrize("content", [b"", b"\n", b"\xef\xbb\xbf", LONG_HEADER.encode()])
def test_a_file_of_no_rows_has_no_readings(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "f.csv"
    path.write_bytes(content)
    assert read(path) == []


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("a byte order mark", "\ufeff" + LONG_HEADER + "".join(ROWS)),
        ("CRLF", (LONG_HEADER + "".join(ROWS)).replace("\n", "\r\n")),
        ("no final line end", (LONG_HEADER + "".join(ROWS)).rstrip("\n")),
        ("empty lines", (LONG_HEADER + "\n" + "\n\n".join(ROWS)) + "\n\n"),
    ],
)
@pytest.mark.parametrize("block_bytes", [900, 1 << 20])
def test_files_differ_in_small_ways(tmp_path: Path, what: str, text: str, block_bytes: int) -> None:
    blocks = read(whole(tmp_path, text), block_bytes=block_bytes)
    assert values(blocks) == EXPECTED
    assert blocks[-1].position is not None
    assert blocks[-1].position.state["offset"] == len(text.encode())
    assert [reason for reason, _ in reasons(blocks)] == [why.NOT_A_NUMBER]


@pytest.mark.parametrize("members", [1, 3])
def test_gzip_is_read_whatever_its_name_and_however_often_appended_to(
    tmp_path: Path, members: int
) -> None:
    text = (LONG_HEADER + "".join(ROWS)).encode()
    size = len(text) // members + 1
    path = tmp_path / "readings.data"
    path.write_bytes(
        b"".join(gzip.compress(text[at : at + size]) for at in range(0, len(text), size))
    )
    assert values(read(path, block_bytes=1500)) == EXPECTED


def test_of_a_gzip_cut_short_everything_before_the_cut_is_read(tmp_path: Path) -> None:
    path = tmp_path / "f.csv.gz"
    rows = [long_row(n, uuid=f"GPU-{n * 7919 % 10007}") for n in range(2000)]
    packed = gzip.compress((LONG_HEADER + "".join(rows)).encode())
    path.write_bytes(packed[: len(packed) // 2])
    blocks = read(path, block_bytes=100_000)
    found = values(blocks)
    assert found == [n / 4 for n in range(len(found))]
    assert 500 < len(found) < 2000
    assert rejected(blocks)[-1].reason == "gzip is cut short"
    assert rejected(blocks)[-1].where.startswith(f"{path}:")


def test_of_a_damaged_gzip_the_damage_is_said(tmp_path: Path) -> None:
    path = tmp_path / "f.csv.gz"
    packed = bytearray(gzip.compress((LONG_HEADER + "".join(ROWS)).encode()))
    packed[-8] ^= 0xFF  # the checksum
    path.write_bytes(packed)
    blocks = read(path)
    assert values(blocks) == EXPECTED
    assert rejected(blocks)[-1].reason == "gzip is damaged"


def test_an_opening_quote_in_a_plain_file_costs_one_row_only(tmp_path: Path) -> None:
    header = "timestamp,metric_name,uuid,value\n"
    rows = [f"1704110401,m,GPU-{n},{n}\n" for n in range(300)]
    rows[150] = '1704110401,m,"GPU-150,150\n'
    blocks = read(whole(tmp_path, header + "".join(rows)), block_bytes=1000)
    assert values(blocks) == [float(n) for n in range(300) if n != 150]
    assert reasons(blocks) == [(why.UNCLOSED_QUOTE, 152)]


def test_a_line_without_end_takes_no_more_memory_than_a_block(tmp_path: Path) -> None:
    text = LONG_HEADER + long_row(1) + "x" * 10_000 + "\n" + long_row(2)
    blocks = read(whole(tmp_path, text), block_bytes=2000)
    assert values(blocks) == [0.25, 0.5]
    assert {line for _, line in reasons(blocks)} == {3}


def test_zeros_in_the_place_of_rows_do_not_stop_it(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    torn = b"\0" * 5000
    path.write_bytes((LONG_HEADER + long_row(1)).encode() + torn + b"\n" + long_row(2).encode())
    assert values(read(path)) == [0.25, 0.5]
    assert reasons(read(path)) == [(why.NOT_TEXT, 3)]


def test_the_wide_form_can_be_large_in_readings(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    header = "timestamp,uuid," + ",".join(f"m{i}" for i in range(150)) + "\n"
    row = "1704110401,GPU-1," + ",".join(str(i) for i in range(150)) + "\n"
    path.write_text(header + row * 1500)
    blocks = read(path)
    assert sum(block.table.num_rows for block in blocks) == 225_000
    assert max(block.table.num_rows for block in blocks) <= 131_072


@settings(max_examples=60)
@example(b"\x80\r\x80", True)
@given(st.binary(max_size=400), st.booleans())
def test_no_bytes_break_it(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, amid: bool
) -> None:
    path = tmp_path_factory.mktemp("noise") / "f.csv"
    head = (LONG_HEADER + long_row(1)).encode() if amid else b""
    path.write_bytes(head + noise + (b'\n"\n' + long_row(2).encode() if amid else b""))
    try:
        blocks = read(path, block_bytes=1000)
    except UnknownCsvForm:
        assert not amid
        return
    if amid:
        assert values(blocks)[:1] == [0.25]
        assert blocks[-1].position is not None
        assert blocks[-1].position.state["offset"] == path.stat().st_size


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", id="a picture"),
        pytest.param(b"x" * 400_000, id="one long line"),
        pytest.param(b'"open\n', id="an open quote"),
    ],
)
def test_what_is_no_csv_is_one_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "f.csv"
    path.write_bytes(content)
    with pytest.raises(UnknownCsvForm, match="Known forms: long"):
        read(path)


def test_a_closed_reader_gives_nothing_more(tmp_path: Path) -> None:
    reader = CsvReader(whole(tmp_path), clock=clock, block_bytes=1000)
    assert reader.next_blocks()
    reader.close()
    reader.close()
    assert reader.next_blocks() == []
