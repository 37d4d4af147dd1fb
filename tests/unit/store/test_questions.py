"""What may be asked, what is refused, and what a question costs."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from nexus.lake import files
from nexus.lake.table import LakeTable
from nexus.store.errors import BadKey, TooMuch, Unsupported
from nexus.store.port import (
    ANY,
    QUARANTINE_KEY,
    RAW_MAX,
    READING_KEY,
    READING_ROWS,
    GroupSteps,
    Page,
    Selection,
    Span,
    last_key,
)
from nexus.store.questions import database, paging
from nexus.telemetry.tables import TABLES
from support.derived import HOUR, MINUTE, NOON, canonical
from support.lake import FENCE, written
from support.lakes import Lake, fleet_readings, opened, walked

ALL = Page(100_000)
SPAN = Span(NOON - 24 * HOUR, NOON + 24 * HOUR)
SECOND = 1_000_000


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake(tmp_path)
    made.add(fleet_readings(random.Random(1), 50, NOON, NOON + HOUR))
    return made


class Watched:
    """Notes the statements that a store runs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        plain = database.Database.ask

        def ask(this: Any, sql: str, params: Any, tables: Any = None) -> pa.Table:
            self.asked.append((sql, dict(params)))
            return plain(this, sql, params, tables)

        monkeypatch.setattr(database.Database, "ask", ask)

    def files(self) -> list[str]:
        lists = (v for _, params in self.asked for v in params.values() if isinstance(v, list))
        return [path for paths in lists for path in paths]

    def row_groups(self) -> tuple[int, int]:
        """Those that were read, and all that the opened files have."""
        read = whole = 0
        for sql, params in self.asked:
            with duckdb.connect() as plain:
                plain.execute("SET TimeZone = 'UTC'")
                said = plain.execute(f"EXPLAIN ANALYZE {sql}", params).fetchall()[0][1]
            for some, of_all in re.findall(r"Row Groups Scanned: (\d+) / (\d+)", said):
                read, whole = read + int(some), whole + int(of_all)
        return read, whole


def busy_hosts(gpus: int, minutes: int, start: int) -> pa.Table:
    """A reading of each GPU and second, in the order that files have."""
    rows = [
        {"uuid": f"GPU-{gpu:03d}", "metric": "power", "timestamp": start + second * SECOND}
        for gpu in range(gpus)
        for second in range(minutes * 60)
    ]
    return canonical(rows)


def test_one_gpus_hour_opens_only_files_that_can_hold_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(tmp_path)
    for hour in range(24):
        lake.add(busy_hosts(2, 1, NOON - hour * HOUR))
    lake.add(canonical([{"uuid": "GPU-900", "timestamp": NOON + 1}]))
    watched = Watched(monkeypatch)
    with opened(lake) as store:
        rows = store.snapshot().readings(
            Selection(uuids=("GPU-001",)), Span(NOON, NOON + HOUR), ALL
        )
    assert rows.num_rows == 60
    assert len(watched.files()) == 1


def test_one_gpus_hour_reads_only_row_groups_that_can_hold_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "ROW_GROUP_ROWS", 1000)
    lake = Lake(tmp_path)
    lake.add(busy_hosts(20, 60, NOON))
    watched = Watched(monkeypatch)
    with opened(lake) as store:
        span = Span(NOON + 10 * MINUTE, NOON + 20 * MINUTE - 1)
        rows = store.snapshot().readings(Selection(uuids=("GPU-007",)), span, ALL)
    assert rows.num_rows == 600
    read, whole = watched.row_groups()
    assert whole == 72
    assert 1 <= read <= 3


def test_a_page_of_a_long_span_does_not_read_the_span(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "SLICE_ROWS", 100)
    lake = Lake(tmp_path)
    for day in range(12):
        lake.add(busy_hosts(2, 1, NOON - day * 24 * HOUR))
    span = Span(NOON - 365 * 24 * HOUR, NOON + HOUR)
    with opened(lake) as store:
        for descending in (False, True):
            watched = Watched(monkeypatch)
            rows = store.snapshot().readings(ANY, span, Page(10, None, descending))
            assert rows.num_rows == 10
            assert len(watched.files()) <= 2
            watched = Watched(monkeypatch)
            steps = store.snapshot().rollups(ANY, span, 10, Page(5, None, descending))
            assert steps.num_rows == 5
            assert len(watched.files()) <= 2


def test_text_is_never_part_of_a_statement(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = "x' OR 1=1; DROP TABLE readings; --$p0"
    watched = Watched(monkeypatch)
    with opened(lake) as store:
        view = store.snapshot()
        values: Any = [(hostile, '"')] * 9
        which = replace(Selection(*values), instances=((hostile, hostile),))
        assert view.readings(which, SPAN, ALL).num_rows == 0
        assert view.rollups(which, SPAN, 60, ALL).num_rows == 0
        assert view.groups(which, SPAN, GroupSteps(60, ("pod",), 10, top=3)).num_rows == 0
        assert view.latest(which, ALL).num_rows == 0
        assert view.gpus(which, (hostile,), ALL).num_rows == 0
        assert view.fleet(which, ("cluster",)).num_rows == 0
        assert view.metrics(which).num_rows == 0
        assert view.summary(which, SPAN, ("pod",)).num_rows == 0
        assert view.quarantine(SPAN, (hostile,), ALL).num_rows == 0
        assert view.gpu(hostile).num_rows == 0
        assert view.gpus_named(hostile) == []
    assert watched.asked
    assert not [sql for sql, _ in watched.asked if "DROP" in sql]


@pytest.mark.parametrize(
    "after",
    [
        (),
        (1,),
        ("now", *[""] * 7),
        (1, *[""] * 6, 5),
        (1, *[""] * 6, None),
        (True, *[""] * 7),
        (2**63, *[""] * 7),
        (1.5, *[""] * 7),
        (1, *[""] * 6, "\ud800"),
    ],
)
def test_a_key_that_no_row_can_have_is_refused(lake: Lake, after: tuple[Any, ...]) -> None:
    with opened(lake) as store:
        view = store.snapshot()
        with pytest.raises(BadKey):
            view.readings(ANY, SPAN, Page(10, after))
        with pytest.raises(BadKey):
            view.rollups(ANY, SPAN, 60, Page(10, after))


@pytest.mark.parametrize("limit", [0, -1, 100_001])
def test_a_page_has_a_bounded_number_of_rows(lake: Lake, limit: int) -> None:
    with opened(lake) as store, pytest.raises(ValueError, match="100000"):
        store.snapshot().readings(ANY, SPAN, Page(limit))


def test_groups_that_do_not_exist_are_refused(lake: Lake) -> None:
    with opened(lake) as store, pytest.raises(Unsupported, match="value"):
        store.snapshot().summary(ANY, SPAN, ("value",))


def test_a_question_that_takes_too_long_is_cut_short(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(lake) as store:
        slow = database.Database(lake.store, seconds_max=0.3)
        with pytest.raises(TooMuch, match="too long"):
            slow.ask(
                "SELECT sum(sin(a.range + b.range)) FROM range(1000000) a, range(1000000) b", {}
            )
        assert slow.ask("SELECT 1 AS one", {}).column("one").to_pylist() == [1]
        slow.close()
        monkeypatch.setattr(paging, "SLICE_ROWS", 1)
        monkeypatch.setattr(paging, "SLICE_PAGES", 0)
        monkeypatch.setattr(paging.filled, "__defaults__", (0.0,))
        with pytest.raises(TooMuch, match="shorter span"):
            store.snapshot().readings(Selection(pods=("nobody",)), SPAN, Page(10))


@pytest.mark.parametrize("span", [Span(5, 4), Span(-(2**62), 2**62), Span(NOON, NOON)])
def test_any_span_can_be_asked_for(lake: Lake, span: Span) -> None:
    with opened(lake) as store:
        view = store.snapshot()
        rows = view.readings(ANY, span, ALL)
        assert rows.schema.equals(READING_ROWS)
        view.rollups(ANY, span, 3600, ALL)
        view.summary(ANY, span, ())
        view.quarantine(span, (), ALL)


def test_only_the_columns_that_are_needed_are_read(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(monkeypatch)
    few = Page(100_000, columns=("uuid", "unit", "value", "mean"))
    with opened(lake) as store:
        view = store.snapshot()
        asks: list[Callable[[Page], pa.Table]] = [
            lambda page: view.readings(ANY, SPAN, page),
            lambda page: view.rollups(ANY, SPAN, 60, page),
            lambda page: view.latest(ANY, page),
        ]
        for ask in asks:
            whole, watched.asked[:] = ask(ALL), []
            part = ask(few)
            assert part.equals(whole.select(part.column_names))
            assert set(part.column_names) == set(few.columns) & set(whole.column_names)
            asked = [sql for sql, _ in watched.asked if "ORDER BY" in sql]
            assert asked
            assert not [sql for sql in asked if "pod" in sql.partition("FROM")[0]]


def test_many_gpus_are_selected_as_well_as_few(lake: Lake) -> None:
    wanted = ("GPU-1", "GPU-3", *(f"GPU-{number}" for number in range(100, 500)))
    with opened(lake) as store:
        found = store.snapshot().readings(Selection(uuids=wanted), SPAN, ALL)
    held = lake.readings.column("uuid").to_pylist()
    assert found.num_rows == held.count("GPU-1") + held.count("GPU-3") > 0


def test_the_machines_time_zone_does_not_matter(lake: Lake) -> None:
    script = (
        "import sys; from nexus.store.opening import open_store; from nexus.store.port import *\n"
        "store = open_store(sys.argv[1])\n"
        f"rows = store.snapshot().rollups(ANY, Span({SPAN.start_us}, {SPAN.end_us}), 86400,"
        " Page(1000))\n"
        "print(rows.column('start')[0].cast('int64'), rows.schema.field('start').type)\n"
        "store.close()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, lake.url],
        env={**os.environ, "TZ": "Asia/Kolkata"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    midnight = NOON // (24 * HOUR) * 24 * HOUR
    assert done.stdout.split() == [str(midnight), "timestamp[us,", "tz=UTC]"]


def test_a_folder_with_odd_letters_in_its_name_can_be_read(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "a[b]*c' é")
    lake.add(busy_hosts(1, 1, NOON))
    with opened(lake) as store:
        assert store.snapshot().readings(ANY, SPAN, ALL).num_rows == 60


def refused_rows(count: int, day: str = "2025-07-18", raw: bytes = b"{}") -> pa.Table:
    schema = TABLES["quarantine"].schema
    rows = [
        {
            "refused": datetime(2025, 7, 18, 12, 0, n // 3, tzinfo=UTC),
            "reason": "value" if n % 2 else "time",
            "stage": "validate",
            "topic": "t",
            "partition": n % 3,
            "offset": n,
            "row": 0,
            "content_type": "text/csv",
            "source": "s",
            "raw": raw,
            "day": datetime.fromisoformat(day).date(),
        }
        for n in range(count)
    ]
    return pa.Table.from_pylist(rows, schema)


def put_refused(lake: Lake, *tables: pa.Table) -> None:
    quarantine = LakeTable.open(lake.store, TABLES["quarantine"])
    for number, rows in enumerate(tables):
        quarantine.append([written(quarantine.files_of, rows)], "test", number, FENCE)


@pytest.mark.parametrize("descending", [False, True])
def test_what_was_refused_comes_in_pages_by_reason(lake: Lake, descending: bool) -> None:
    put_refused(lake, refused_rows(40))
    with opened(lake) as store:
        view = store.snapshot()
        found = walked(
            lambda page: view.quarantine(SPAN, ("value",), page),
            QUARANTINE_KEY,
            7,
            descending=descending,
        )
        assert found.num_rows == 20
        assert set(found.column("reason").to_pylist()) == {"value"}
        keys = list(zip(*(found.column(n).to_pylist() for n in QUARANTINE_KEY), strict=True))
        assert keys == sorted(keys, reverse=descending)
        assert view.quarantine(SPAN, (), ALL).num_rows == 40
        assert view.quarantine(Span(NOON, NOON), (), ALL).num_rows == 3


def test_of_a_large_message_that_was_refused_the_beginning_is_shown(lake: Lake) -> None:
    put_refused(lake, refused_rows(1, raw=b"\x00\xff" * RAW_MAX))
    with opened(lake) as store:
        (row,) = store.snapshot().quarantine(SPAN, (), ALL).to_pylist()
    assert row["raw"] == b"\x00\xff" * (RAW_MAX // 2)
    assert row["raw_size"] == 2 * RAW_MAX


def test_tables_are_told_with_their_size_and_span(lake: Lake) -> None:
    put_refused(lake, refused_rows(4))
    with opened(lake) as store:
        rows = {row["name"]: row for row in store.snapshot().tables().to_pylist()}
    assert rows.keys() == {"readings", "quarantine"}
    told = rows["readings"]
    moments: Sequence[datetime] = lake.readings.column("timestamp").to_pylist()
    assert (told["version"], told["rows"], told["files"]) == (1, 50, 1)
    assert told["bytes"] > 1000
    assert told["oldest"] <= min(moments)
    assert told["newest"] >= max(moments)
    assert abs((told["newest"] - max(moments)).total_seconds()) < 0.002
    age_s = (datetime.now(UTC) - told["last_commit"]).total_seconds()
    assert -1 < age_s < 100


def test_metrics_are_told_with_their_units_and_newest(lake: Lake) -> None:
    lake.add(canonical([{"metric": "odd", "unit": "furlong", "timestamp": NOON + 2 * HOUR}]))
    with opened(lake) as store:
        rows = {row["metric"]: row for row in store.snapshot().metrics(ANY).to_pylist()}
        steps = store.snapshot().rollups(Selection(metrics=("odd",)), SPAN, 60, ALL)
    assert rows.keys() == set(lake.readings.column("metric").to_pylist())
    assert rows["power"]["unit"] == "W"
    assert rows["odd"]["unit"] == "furlong"
    assert rows["odd"]["series"] == 1
    assert rows["odd"]["newest"] == datetime.fromtimestamp((NOON + 2 * HOUR) / SECOND, UTC)
    assert steps.column("unit").to_pylist() == ["furlong"]


def test_the_key_of_the_last_row_is_plain(lake: Lake) -> None:
    with opened(lake) as store:
        rows = store.snapshot().readings(ANY, SPAN, Page(3))
    key = last_key(rows, READING_KEY)
    assert key is not None
    assert [type(part) for part in key] == [int, *[str] * 7]
    assert last_key(rows.slice(0, 0), READING_KEY) is None
