"""The text of a file from any byte to any other, and its head as soon as that is whole."""

import gzip
from pathlib import Path

import pytest

from nexus.telemetry.csv.head import Place, read_head
from nexus.telemetry.csv.text import PlainBytes, open_text
from support.csv_text import LONG_HEADER, long_row, read_rows, values

TEXT = b"0123456789" * 20


def written(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "f.csv"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("packed", [False, True])
def test_text_is_read_from_any_byte(tmp_path: Path, packed: bool) -> None:
    path = written(tmp_path, gzip.compress(TEXT) if packed else TEXT)
    with path.open("rb") as file:
        for offset in (0, 1, 99, 200, 300):
            assert open_text(file.fileno(), offset).read(1000) == TEXT[offset:]


def test_a_part_of_a_file_ends_where_it_is_told(tmp_path: Path) -> None:
    with written(tmp_path, TEXT).open("rb") as file:
        part = PlainBytes(file.fileno(), 5, 25)
        assert part.read(12) == TEXT[5:17]
        room = bytearray(100)
        assert part.read_into(memoryview(room)) == 8
        assert room[:8] == TEXT[17:25]
        assert part.read(1) == b""
        assert part.read_into(memoryview(room)) == 0
        assert PlainBytes(file.fileno(), 50, 40).read(10) == b""


def test_rows_can_be_read_from_any_of_them(tmp_path: Path) -> None:
    rows = [long_row(n) for n in range(10)]
    path = written(tmp_path, (LONG_HEADER + "".join(rows)).encode())
    for n in range(10):
        place = Place(len(LONG_HEADER + "".join(rows[:n])), 2 + n)
        assert values(read_rows(path, place=place)) == [m / 4 for m in range(n, 10)]


@pytest.mark.parametrize(
    ("content", "now", "at_the_end"),
    [
        (b"", None, None),
        (b"\n\n", None, None),
        (b"timestamp,uuid,metric,value", None, 28),
        (b"timestamp,uuid,metric,value\n", 28, 28),
        (b'timestamp,"uu\nid",metric,value\n', 31, 31),
        (b"timestamp,uuid,power\n", None, 21),
        (b"timestamp,uuid,power\n1704110401,GPU-1,2\n", 21, 21),
    ],
)
def test_a_head_is_there_once_it_is_whole(
    tmp_path: Path, content: bytes, now: int | None, at_the_end: int | None
) -> None:
    path = written(tmp_path, content)
    with path.open("rb") as file:
        for final, expected in ((False, now), (True, at_the_end)):
            head = read_head("f", open_text(file.fileno()), final=final)
            assert (None if head is None else head.rows.offset) == expected
