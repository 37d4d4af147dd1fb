"""What the upkeep decides: which files are merged, and which days go."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from nexus.lake.datafile import DataFile
from nexus.lake.plan import Merge, Sizes, Step, expired, merges
from support.lake import NOON
from support.readings import examples

SIZES = Sizes(
    steps=(Step(100, 200, 8), Step(500, 1000, 4)), archive=Step(2000, 4000, 4), least_files=4
)
PLENTY = 10**9
DAY = timedelta(days=1)


def file(
    name: str,
    rows: int = 10,
    day: str = "2025-07-18",
    written: datetime = NOON,
    ingested: datetime | None = None,
) -> DataFile:
    bounds = {} if ingested is None else {"ingested": (ingested, ingested)}
    return DataFile(
        path=name,
        size=rows,
        rows=rows,
        partition={"day": day},
        bounds=bounds,
        modified_ms=int(written.timestamp() * 1000),
    )


def names(merge: Merge) -> list[str]:
    return [file.path for file in merge.files]


# Merging


def test_few_small_files_of_a_day_that_is_written_wait_for_more() -> None:
    files = [file(f"{number}") for number in range(3)]
    assert merges(files, NOON, PLENTY, SIZES) == []
    (merge,) = merges([*files, file("3")], NOON, PLENTY, SIZES)
    assert names(merge) == ["0", "1", "2", "3"]


def test_a_day_that_has_gone_quiet_is_finished_off() -> None:
    files = [file("0"), file("1")]
    assert merges(files, NOON + timedelta(minutes=59), PLENTY, SIZES) == []
    assert len(merges(files, NOON + timedelta(hours=2), PLENTY, SIZES)) == 1


def test_files_of_different_days_are_never_merged() -> None:
    files = [file(f"{n}", day=f"2025-07-1{n % 2}") for n in range(8)]
    found = merges(files, NOON, PLENTY, SIZES)
    assert sorted(names(merge) for merge in found) == [["0", "2", "4", "6"], ["1", "3", "5", "7"]]


def test_a_large_file_is_left_alone() -> None:
    files = [file("large", rows=500), file("larger", rows=1900)]
    assert merges(files, NOON + timedelta(hours=9), PLENTY, SIZES) == []


def test_a_day_that_has_long_been_quiet_is_put_into_larger_files() -> None:
    files = [file("large", rows=500), file("larger", rows=1900), file("largest", rows=2000)]
    (merge,) = merges(files, NOON + DAY, PLENTY, SIZES)
    assert names(merge) == ["large", "larger"]


def test_on_a_quiet_day_the_last_small_file_goes_with_larger_ones() -> None:
    files = [file("small", rows=5), file("middling", rows=300)]
    (merge,) = merges(files, NOON + timedelta(hours=2), PLENTY, SIZES)
    assert names(merge) == ["small", "middling"]


def test_a_merge_is_no_larger_than_one_file_should_be() -> None:
    files = [file(f"{number}", rows=90) for number in range(9)]
    assert all(merge.rows <= 200 for merge in merges(files, NOON, PLENTY, SIZES))
    middling = [file(f"{number}", rows=400) for number in range(9)]
    assert all(merge.rows <= 1000 for merge in merges(middling, NOON, PLENTY, SIZES))


def test_one_run_does_not_do_more_than_it_may_but_always_something() -> None:
    files = [file(f"{day}-{n}", day=f"2025-07-0{day}") for day in range(1, 9) for n in range(5)]
    assert len(merges(files, NOON, 150, SIZES)) == 3
    assert len(merges(files, NOON, 1, SIZES)) == 1


def test_what_saves_most_files_comes_first() -> None:
    costly = [file(f"a{n}", rows=99, day="2025-07-01") for n in range(4)]
    cheap = [file(f"b{n}", rows=1, day="2025-07-02") for n in range(4)]
    first = merges([*costly, *cheap], NOON, PLENTY, SIZES)[0]
    assert names(first)[0] == "b0"


@examples(200)
@given(st.lists(st.integers(1, 1200), max_size=60))
def test_merging_comes_to_an_end_with_few_files(rows: list[int]) -> None:
    """However files are sized, runs on a quiet day end, lose no row, and leave few small ones."""
    files = [file(f"{n}", rows=count) for n, count in enumerate(rows)]
    later = NOON + DAY
    for run in range(200):
        found = merges(files, later, 2000, SIZES)
        if not found:
            break
        for merge in found:
            taken = set(names(merge))
            assert len(taken) == len(merge.files) >= 2
            assert taken <= {f.path for f in files}
            files = [f for f in files if f.path not in taken]
            files.append(file(f"m{run}-{min(taken)}", rows=merge.rows))
    else:
        raise AssertionError("it never ends")
    assert sum(f.rows for f in files) == sum(rows)
    assert len([f for f in files if f.rows < SIZES.archive.below]) <= 2


@examples(100)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=150))
def test_a_row_is_written_again_a_few_times_only(rows: list[int]) -> None:
    """A day written in small files, with a run after each few, costs little more than twice."""
    files: list[DataFile] = []
    again = 0
    for n, count in enumerate(rows):
        files.append(file(f"{n}", rows=count))
        for merge in merges(files, NOON, PLENTY, SIZES) if n % 5 == 4 else []:
            taken = set(names(merge))
            files = [f for f in files if f.path not in taken]
            files.append(file(f"m{n}-{min(taken)}", rows=merge.rows))
            again += merge.rows
    assert again <= 8 * sum(rows)
    assert len([f for f in files if f.rows < SIZES.steps[0].below]) < 3 * SIZES.least_files


# Retention


def test_a_day_goes_when_its_times_and_its_arrivals_are_old() -> None:
    old = file("old", day="2025-06-01", ingested=NOON - 40 * DAY)
    assert expired([old], NOON, 30 * DAY, 9) == [old]
    assert expired([old], NOON, 41 * DAY, 9) == []


def test_an_imported_archive_stays_though_its_readings_are_old() -> None:
    imported = file("imported", day="2020-01-01", ingested=NOON - DAY)
    assert expired([imported], NOON, 30 * DAY, 9) == []
    assert expired([imported], NOON + 30 * DAY, 30 * DAY, 9) == [imported]


def test_a_day_goes_as_a_whole() -> None:
    old = file("old", day="2025-06-01", ingested=NOON - 40 * DAY)
    new = file("new", day="2025-06-01", ingested=NOON)
    assert expired([old, new], NOON, 30 * DAY, 9) == []


def test_a_day_is_kept_to_its_last_moment() -> None:
    midnight = datetime(2025, 7, 18, tzinfo=UTC)
    day = file("day", day="2025-06-17", ingested=midnight - 40 * DAY)
    assert expired([day], midnight - timedelta(seconds=1), 30 * DAY, 9) == []
    assert expired([day], midnight, 30 * DAY, 9) == [day]


def test_rows_that_do_not_say_when_they_came_go_by_their_file() -> None:
    """A rollup of an imported archive stays as long as one of today does."""
    rollup = file("rollup", day="2020-01-01", written=NOON - DAY)
    assert expired([rollup], NOON, 90 * DAY, 9) == []
    assert expired([rollup], NOON + 90 * DAY, 90 * DAY, 9) == [rollup]


def test_the_oldest_days_go_first_when_there_are_many() -> None:
    days = [f"2025-01-{number:02d}" for number in range(1, 21)]
    files = [file(day, day=day, ingested=NOON - 150 * DAY) for day in reversed(days)]
    gone = expired(files, NOON, 30 * DAY, 3)
    assert [f.path for f in gone] == days[:3]
