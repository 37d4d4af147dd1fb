"""Files: whole writes, replacement at once, and descriptors that close with their last holder."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from nexus.log.files import FileSlice, OpenFile, read_at, write_at, write_file


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_descriptor_closes_when_the_last_holder_lets_go(tmp_path: Path) -> None:
    gc.collect()
    before = descriptors()
    file = OpenFile(tmp_path / "f", os.O_RDWR | os.O_CREAT)
    held = FileSlice(file, 0, 0)
    del file
    assert descriptors() == before + 1
    del held
    assert descriptors() == before


def test_a_file_that_cannot_be_opened_leaves_nothing_open(tmp_path: Path) -> None:
    before = descriptors()
    with pytest.raises(FileNotFoundError):
        OpenFile(tmp_path / "missing")
    assert descriptors() == before


def test_a_slice_reads_its_bytes_and_knows_that_they_are_cached(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"0123456789" * 100_000)
    piece = FileSlice(OpenFile(tmp_path / "f"), 5, 500_000)
    assert piece.read() == (b"5678901234" * 50_000)
    assert piece.fd == piece.file.fd
    assert piece.resident()
    assert FileSlice(piece.file, 0, 0).resident()


def test_bytes_that_only_the_disk_has_are_not_resident(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(bytes(1 << 20))
    file = OpenFile(path)
    os.fsync(file.fd)
    os.posix_fadvise(file.fd, 0, 0, os.POSIX_FADV_DONTNEED)
    piece = FileSlice(file, 0, 1 << 20)
    if piece.resident():
        pytest.skip("this file system keeps everything in memory")
    piece.read()
    assert piece.resident()


def test_reading_beyond_the_end_gives_what_there_is(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    file = OpenFile(tmp_path / "f")
    assert read_at(file.fd, 10, 1) == b"bc"
    assert read_at(file.fd, 10, 5) == b""


def test_a_write_lands_where_it_should(tmp_path: Path) -> None:
    file = OpenFile(tmp_path / "f", os.O_RDWR | os.O_CREAT)
    write_at(file.fd, memoryview(b"abc"), 2)
    assert (tmp_path / "f").read_bytes() == b"\0\0abc"


@pytest.mark.parametrize("durable", [True, False])
def test_a_file_is_replaced_at_once(tmp_path: Path, durable: bool) -> None:
    path = tmp_path / "f"
    write_file(path, b"old", durable=durable)
    before = path.stat().st_ino
    write_file(path, b"new", durable=durable)
    assert path.read_bytes() == b"new"
    assert path.stat().st_ino != before
    assert [one.name for one in tmp_path.iterdir()] == ["f"]
