"""The same files give the same chunks, each known by what is in it, none too large."""

import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nexus.pipeline.backfill.archive import ArchiveFile, archive_files
from nexus.pipeline.backfill.plan import (
    Chunk,
    Limits,
    Piece,
    chunks_of,
    from_json,
    in_one_piece,
    pieces_of,
    tasks_of,
    to_json,
)
from nexus.pipeline.backfill.splits import row_start
from nexus.telemetry.csv.files import UNKNOWN_FORM, NoSuchFiles
from nexus.telemetry.csv.forms import UnknownCsvForm, detect_form
from support.csv_text import LONG_HEADER, long_row

SIMPLE = b"timestamp,metric_name,uuid,value,note\n"


def piece(file: int, size: int = 10, start: int = 0, *, last: bool = True) -> Piece:
    return Piece(file, f"/a/{file}.csv", "1", start, start + size, last, size, size)


def files_of(chunks: list[Chunk]) -> list[list[int]]:
    return [[p.file for p in chunk.pieces] for chunk in chunks]


def written(path: Path, text: str) -> Path:
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def looked_at(path: Path) -> ArchiveFile:
    (file,) = archive_files(str(path))
    return file


def test_a_chunk_is_filled_and_not_overfilled() -> None:
    pieces = [piece(n) for n in range(7)]
    assert files_of(chunks_of(pieces, Limits(30))) == [[0, 1, 2], [3, 4, 5], [6]]
    assert files_of(chunks_of(pieces, Limits(readings=25))) == [[0, 1], [2, 3], [4, 5], [6]]
    assert files_of(chunks_of(pieces, Limits(pieces=4))) == [[0, 1, 2, 3], [4, 5, 6]]
    assert files_of(chunks_of(pieces, Limits(5))) == [[n] for n in range(7)]
    assert chunks_of([], Limits()) == []


def test_a_file_is_parted_only_if_it_is_larger_than_a_chunk() -> None:
    small = [piece(0), piece(1, 10, last=False), piece(1, 10, 10)]
    large = [piece(2, 10, start, last=start == 40) for start in range(0, 50, 10)]
    chunks = chunks_of([*small, *large, piece(3)], Limits(25))
    assert files_of(chunks) == [[0], [1, 1], [2, 2], [2, 2], [2], [3]]


def test_files_that_are_added_at_the_end_leave_the_chunks_before_as_they_were() -> None:
    before = chunks_of([piece(n) for n in range(9)], Limits(30))
    after = chunks_of([piece(n) for n in range(12)], Limits(30))
    assert [chunk.app for chunk in after[:3]] == [chunk.app for chunk in before]
    assert len({chunk.app for chunk in after}) == 4


@pytest.mark.parametrize(
    "change", [{"version": "2"}, {"path": "/b"}, {"start": 1}, {"end": 9}, {"fault": "no"}]
)
def test_a_chunk_of_other_content_is_another_chunk(change: dict[str, Any]) -> None:
    same, other = Chunk((piece(0),)), Chunk((replace(piece(0), **change),))
    assert Chunk((piece(0),)).app == same.app != other.app
    # A file's number depends on its neighbours, and is no part of what it is.
    assert Chunk((replace(piece(0), file=7),)).app == same.app


def test_what_is_left_of_a_file_can_be_read_in_one_piece() -> None:
    parts = [piece(1, 10, start, last=start == 50) for start in range(0, 60, 10)]
    chunks = [
        Chunk((piece(0), *parts[:2])),
        Chunk(tuple(parts[2:4])),
        Chunk((*parts[4:], piece(2))),
    ]
    first, second, third = in_one_piece(chunks, 1, 1)
    assert (first, third) == (chunks[0], Chunk((piece(2),)))
    assert second.pieces == (replace(parts[2], end=60, last=True, size=40, readings=40),)
    only, rest = in_one_piece(chunks, 0, 1)
    assert [(p.file, p.start, p.end) for p in only.pieces] == [(0, 0, 10), (1, 0, 60)]
    assert rest == third


def test_small_pieces_share_a_task() -> None:
    tasks = tasks_of([piece(n) for n in range(5)], 20)
    assert [[p.file for p in task] for task in tasks] == [[0, 1], [2, 3], [4]]


def test_a_plan_survives_being_text() -> None:
    pieces = [piece(0), Piece(1, "/ä.csv", "1", end=None, fault="f", problem="p\n")]
    assert from_json(to_json(pieces)) == pieces


def test_parts_of_a_plain_file_begin_where_rows_do(tmp_path: Path) -> None:
    rows = [long_row(n, extra_labels=',note=""a\nb""') for n in range(200)]
    path = written(tmp_path / "f.csv", LONG_HEADER + "".join(rows))
    starts = {len(LONG_HEADER) + len("".join(rows[:n])) for n in range(200)}
    parts = pieces_of(looked_at(path), 5000)
    assert len(parts) > 10
    assert parts[0].start == 0
    assert {part.start for part in parts[1:]} <= starts
    assert [part.end for part in parts[:-1]] == [part.start for part in parts[1:]]
    assert [part.last for part in parts] == [*(False for _ in parts[1:]), True]
    assert parts[-1].end == path.stat().st_size == sum(part.size for part in parts)
    assert sum(part.readings for part in parts) == pytest.approx(200, rel=0.1)
    assert len(pieces_of(looked_at(path), 0)) == 1


def test_a_gzip_is_one_piece_and_a_file_without_rows_none(tmp_path: Path) -> None:
    packed = written(tmp_path / "f.csv.gz", LONG_HEADER + "".join(map(long_row, range(100))))
    (whole,) = pieces_of(looked_at(packed), 1000)
    assert (whole.start, whole.end, whole.last) == (0, None, True)
    assert pieces_of(looked_at(written(tmp_path / "empty.csv", "\n")), 1000) == []


def test_the_wide_form_has_more_readings_than_rows(tmp_path: Path) -> None:
    header = "timestamp,uuid," + ",".join(f"m{n}" for n in range(50)) + "\n"
    path = written(tmp_path / "f.csv", header + ("1704110401,GPU-1" + ",1" * 50 + "\n") * 400)
    (whole,) = pieces_of(looked_at(path), 1 << 20)
    assert whole.readings == pytest.approx(20_000, rel=0.1)


def test_no_row_begins_where_none_looks_like_one(tmp_path: Path) -> None:
    form = detect_form("f", SIMPLE, [])
    path = written(tmp_path / "f.csv", "1,m,GPU-1,2,x\n" * 10 + "some\nnotes,a\n" * 100)
    with path.open("rb") as file:
        assert row_start(file.fileno(), form, 20) == 28
        assert row_start(file.fileno(), form, 28) == 28
        assert row_start(file.fileno(), form, 150) is None


def test_of_several_files_one_that_is_no_csv_is_told_and_the_others_are_read(
    tmp_path: Path,
) -> None:
    written(tmp_path / "a.csv", LONG_HEADER + long_row(1))
    written(tmp_path / "b.csv", "open,high,low,close\n1,2,3,4\n")
    first, second = archive_files(f"csv://{tmp_path}")
    assert (first.number, first.fault, second.number) == (0, "", 1)
    (told,) = pieces_of(second, 100)
    assert told.fault == UNKNOWN_FORM
    assert "open, high, low, close" in told.problem


def test_an_archive_of_nothing_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(NoSuchFiles, match=r"no CSV file at .*nothing"):
        archive_files(f"csv://{tmp_path}/nothing*.csv")
    written(tmp_path / "b.csv", "open,high,low,close\n1,2,3,4\n")
    with pytest.raises(UnknownCsvForm, match="open, high, low, close"):
        archive_files(str(tmp_path))


def test_a_changed_file_has_another_version(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", LONG_HEADER + long_row(1))
    before = looked_at(path).version
    assert looked_at(path).version == before
    written(path, LONG_HEADER + long_row(1) + long_row(2))
    assert looked_at(path).version != before
