"""The sparse indexes by themselves: what they find, and what of them is still sound."""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from nexus.log.index import OffsetIndex, TimeIndex


def offset_index(path: Path, entries: list[tuple[int, int]]) -> OffsetIndex:
    path.unlink(missing_ok=True)
    index = OffsetIndex(path, 0)
    for relative, position in entries:
        index.reserve()
        index.append(relative, position)
    return index


ENTRIES = [(n * 3, n * 100) for n in range(5000)]


def test_the_entry_at_or_below_is_found(tmp_path: Path) -> None:
    index = offset_index(tmp_path / "i", ENTRIES)
    offsets = [relative for relative, _ in ENTRIES]
    for wanted in range(0, 16_000, 7):
        assert index.floor(wanted) == ENTRIES[bisect_right(offsets, wanted) - 1]
    assert index.floor_position(250)[1] == 200
    assert index.floor_position(10**9)[1] == 499_900
    assert index.last() == ENTRIES[-1]


def test_an_empty_index_finds_the_start(tmp_path: Path) -> None:
    index = OffsetIndex(tmp_path / "i", 0)
    assert index.floor(5) == (-1, 0)
    assert index.floor_position(5) == (0, 0)
    assert index.last() == (-1, -1)
    assert TimeIndex(tmp_path / "t", 0).floor(5) == 0


def test_a_trimmed_index_comes_back_and_can_go_on(tmp_path: Path) -> None:
    index = offset_index(tmp_path / "i", ENTRIES)
    assert (tmp_path / "i").stat().st_size > 8 * len(ENTRIES)
    index.trim()
    index.sync()
    assert (tmp_path / "i").stat().st_size == 8 * len(ENTRIES)
    again = OffsetIndex(tmp_path / "i", OffsetIndex.entries_in(tmp_path / "i"))
    assert again.last() == ENTRIES[-1]
    again.reserve()
    again.append(20_000, 600_000)
    assert again.floor(30_000) == (20_000, 600_000)
    assert index.floor(4) == (3, 100)


def test_a_file_that_is_not_whole_entries_has_none(tmp_path: Path) -> None:
    path = tmp_path / "i"
    assert OffsetIndex.entries_in(path) == -1
    path.write_bytes(bytes(9))
    assert OffsetIndex.entries_in(path) == -1


@given(zeroed_from=st.integers(0, 50), size=st.integers(0, 6000))
def test_only_what_ascends_below_the_end_is_sound(zeroed_from: int, size: int) -> None:
    with TemporaryDirectory() as directory:
        path = Path(directory) / "i"
        offset_index(path, [(n * 2, n * 100) for n in range(50)]).trim()
        content = path.read_bytes()
        path.write_bytes(content[: zeroed_from * 8].ljust(len(content), b"\0"))
        found = OffsetIndex(path, 50).ascending(size)
    # A zero is the sound first entry of any index; after others it ends what is sound.
    assert found == min(max(zeroed_from, 1), -(-size // 100))


def test_a_time_index_says_before_which_offset_all_is_older(tmp_path: Path) -> None:
    index = TimeIndex(tmp_path / "t", 0)
    for timestamp, relative in [(10, 0), (10, 5), (20, 9), (30, 12)]:
        index.reserve()
        index.append(timestamp, relative)
    assert [index.floor(wanted) for wanted in (5, 10, 11, 20, 21, 99)] == [0, 0, 5, 5, 9, 12]
    assert index.entry(-1) == (30, 12)
    assert index.ascending(9) == 3
    index.truncate(2)
    assert index.floor(99) == 5


def test_a_removed_index_can_still_be_read_and_needs_no_sync(tmp_path: Path) -> None:
    index = offset_index(tmp_path / "i", ENTRIES[:10])
    index.remove()
    index.sync()
    assert index.last() == ENTRIES[9]
    assert not (tmp_path / "i").exists()
