"""Read in whatever pieces, a file gives the same readings and refuses the same lines, once each."""

import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nexus.pipeline.backfill.archive import archive_files
from nexus.pipeline.backfill.errors import ArchiveError, WrongSplit, plain_error, wrong_split
from nexus.pipeline.backfill.pieces import PieceReader, Stamp
from nexus.pipeline.backfill.plan import Piece, pieces_of
from nexus.pipeline.narrow import CONTEXT, NARROW_SCHEMA, READING, UNREADABLE, Widener
from nexus.telemetry.csv.rows import NOT_A_NUMBER, WRONG_COLUMNS
from support.csv_text import LONG_HEADER, clock, long_row

HEADER = "timestamp,metric_name,uuid,value,note\n"
INGESTED_US = 1_790_000_000_000_000
KINDS = {
    "good": "1704110401,DCGM_FI_DEV_GPU_TEMP,GPU-{n},{n},x\n",
    "two lines": '1704110401,DCGM_FI_DEV_GPU_TEMP,GPU-{n},{n},"a\nb"\n',
    # The line end inside looks just like one between rows.
    "a row in a cell": '1704110401,m,GPU-{n},{n},"a\n1704110402,m,GPU-9,9,y\n1,m,GPU-9,9,z"\n',
    "no number": "1704110401,m,GPU-{n},lots,x\n",
    "misshapen": "1704110401,m,{n}\n",
    "empty": "\n",
    "open quote": '1704110401,m,"GPU-{n},{n},x\n',
}


def written(path: Path, text: str) -> Path:
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def planned(path: Path, split_bytes: int = 0) -> list[Piece]:
    return [piece for file in archive_files(str(path)) for piece in pieces_of(file, split_bytes)]


def read(pieces: list[Piece]) -> pa.Table:
    reader = PieceReader(Stamp(INGESTED_US, "ours"), clock)
    batches = [batch for piece in pieces for batch in reader.read(piece)]
    return pa.Table.from_batches(batches, NARROW_SCHEMA)


def of_kind(rows: pa.Table, kind: int) -> pa.Table:
    return rows.filter(pc.equal(rows.column("kind"), kind))


def readings(rows: pa.Table) -> list[dict[str, Any]]:
    widener = Widener()
    widener.learn(of_kind(rows, CONTEXT))
    found: list[dict[str, Any]] = widener.readings(of_kind(rows, READING)).to_pylist()
    return found


def refused(rows: pa.Table) -> list[tuple[int, str, bytes]]:
    columns = ("offset", "fault", "text")
    told = of_kind(rows, UNREADABLE).select(columns).to_pylist()
    return [(row["offset"], row["fault"], row["text"]) for row in told]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from(sorted(KINDS)), max_size=40), st.integers(30, 400))
def test_the_pieces_make_no_difference(
    tmp_path_factory: pytest.TempPathFactory, kinds: list[str], split_bytes: int
) -> None:
    rows = [KINDS[kind].format(n=n) for n, kind in enumerate(kinds)]
    path = written(tmp_path_factory.mktemp("pieces") / "f.csv", HEADER + "".join(rows))
    whole, pieces = read(planned(path)), planned(path, split_bytes)
    try:
        parted = read(pieces)
    except WrongSplit:
        # Found out, never passed over; and only where a cell has a line end, or seems to.
        assert {"two lines", "a row in a cell", "open quote"} & set(kinds)
        return
    assert readings(parted) == readings(whole)
    assert refused(parted) == refused(whole)


def test_a_reading_is_canonical_and_stamped(tmp_path: Path) -> None:
    text = LONG_HEADER + long_row(5, value="85")
    (reading,) = readings(read(planned(written(tmp_path / "f.csv", text))))
    assert reading["timestamp"].isoformat() == "2025-07-18T20:00:05+00:00"
    assert reading["ingested"].timestamp() * 1e6 == INGESTED_US
    assert (reading["source_value"], reading["value"]) == (85.0, 0.85)
    assert (reading["cluster"], reading["uuid"]) == ("ours", "GPU-00000005")


def test_a_cluster_that_a_row_names_stands(tmp_path: Path) -> None:
    header = "timestamp,metric_name,uuid,value,cluster\n"
    rows = "1704110401,m,GPU-1,1,theirs\n1704110401,m,GPU-1,1,\n"
    found = readings(read(planned(written(tmp_path / "f.csv", header + rows))))
    assert [reading["cluster"] for reading in found] == ["theirs", "ours"]


@pytest.mark.parametrize("name", ["f.csv", "f.csv.gz"])
def test_a_refused_line_is_told_with_its_file_and_byte(tmp_path: Path, name: str) -> None:
    written(tmp_path / "a.csv", LONG_HEADER + long_row(1))
    rows = [long_row(1), long_row(2, value="lots"), long_row(3), "a,b\n", long_row(4)]
    written(tmp_path / name, LONG_HEADER + "".join(rows))
    found = read(planned(tmp_path))
    starts = [len(LONG_HEADER + "".join(rows[:n])) for n in range(len(rows))]
    assert refused(found) == [
        (starts[1], NOT_A_NUMBER, rows[1].rstrip("\n").encode()),
        (starts[3], WRONG_COLUMNS, b"a,b"),
    ]
    assert pc.unique(of_kind(found, UNREADABLE).column("partition")).to_pylist() == [1]
    assert len(readings(found)) == 4


def test_no_two_places_are_the_same(tmp_path: Path) -> None:
    rows = [long_row(n, value="x" if n % 7 == 0 else None) for n in range(100)]
    written(tmp_path / "a.csv", LONG_HEADER + "".join(rows))
    written(tmp_path / "b.csv.gz", LONG_HEADER + "".join(rows))
    found = read(planned(tmp_path, 3000))
    placed = found.filter(pc.not_equal(found.column("kind"), CONTEXT))
    places = placed.select(["partition", "offset", "row"])
    assert places.group_by(places.column_names).aggregate([]).num_rows == 200


def test_a_context_is_told_once_a_task(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", LONG_HEADER + "".join(long_row(3) for _ in range(100)))
    pieces = planned(path, 3000)
    assert len(pieces) > 5
    assert of_kind(read(pieces), CONTEXT).num_rows == 1


def test_the_wide_form_is_read_too(tmp_path: Path) -> None:
    header = "timestamp,hostname,gpu_id,power [W],util\n"
    rows = "".join(f"17041104{n:02d},h1,0,{n} W,\n" for n in range(60))
    found = read(planned(written(tmp_path / "f.csv", header + rows), 200))
    assert [reading["value"] for reading in readings(found)] == [float(n) for n in range(60)]


def test_a_file_that_is_no_csv_is_one_refused_row(tmp_path: Path) -> None:
    written(tmp_path / "a.csv", LONG_HEADER + long_row(1))
    written(tmp_path / "b.csv", "open,high,low,close\n1,2,3,4\n")
    ((offset, fault, text),) = refused(read(planned(tmp_path)))
    assert (offset, fault) == (0, "file is not a CSV of readings")
    assert b"open, high, low, close" in text


def test_a_file_that_changed_since_the_plan_is_a_clear_error(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", LONG_HEADER + long_row(1) + long_row(2))
    pieces = planned(path)
    written(path, LONG_HEADER + long_row(1))
    with pytest.raises(ArchiveError, match=r"f\.csv became shorter"):
        read(pieces)
    path.unlink()
    with pytest.raises(ArchiveError, match=r"f\.csv cannot be read: No such file"):
        read(pieces)


def test_a_split_inside_of_a_cell_is_found_by_whoever_reads_up_to_it(tmp_path: Path) -> None:
    row = KINDS["a row in a cell"].format(n=1)
    path = written(tmp_path / "f.csv", HEADER + row * 3)
    inside = len(HEADER) + row.index("\n") + 1
    (whole,) = planned(path)
    first, second = replace(whole, end=inside, last=False), replace(whole, start=inside)
    assert len(readings(read([second]))) > 2  # it cannot know
    with pytest.raises(WrongSplit, match=f"after byte {inside}") as raised:
        read([first])
    said = RuntimeError(f"Traceback …\nnexus.…WrongSplit: {raised.value}\n at org.apache…")
    assert wrong_split(said) == 0
    assert str(plain_error(said)) == str(raised.value)
    assert wrong_split(RuntimeError("something else")) is None
    assert plain_error(RuntimeError("something else")) is None
