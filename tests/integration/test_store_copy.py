"""What a store holds is copied into any other, whole and once, however often it is cut off."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from nexus.cli.entry import run
from nexus.lake import files, table
from nexus.lake.table import LakeTable
from nexus.lake.url import parse_store_url
from nexus.pipeline.moving import delta, postgres
from nexus.pipeline.moving.copying import copied, planned
from nexus.pipeline.moving.opening import opened
from nexus.pipeline.moving.port import Slice
from nexus.store.port import ANY, Page, Span
from nexus.store.postgres.retention import sweep
from nexus.telemetry.tables import TABLES
from support.derived import HOUR, MINUTE, NOON, canonical, expected_rollup, same_rows
from support.etcd_stores import opened_at
from support.lake import FENCE, written
from support.lakes import Lake, fleet_readings
from support.moving import KINDS, Stores, contents, hostile_readings, refused_rows
from support.postgres import PostgresFilled, table_of

DAY = 24 * HOUR
ALL = Page(100_000)


@pytest.fixture
def stores(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Stores:
    monkeypatch.setattr(files, "sync", lambda path: None)
    monkeypatch.setattr(table, "sync", lambda path: None)
    return Stores(tmp_path, request.getfixturevalue)


def batches() -> list[pa.Table]:
    """Two days, and texts that are no one's idea of a name."""
    rng = random.Random(7)
    fleet = [fleet_readings(rng, 150, NOON + day * DAY, NOON + day * DAY + HOUR) for day in (0, 1)]
    return [*fleet, hostile_readings(NOON + HOUR)]


def told(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Any:
    """What a command says in JSON."""
    found = run(["store", *words, "--json"])
    out, err = capsys.readouterr()
    assert found == code, (out, err)
    return json.loads(out)


def test_all_that_a_store_says_goes_the_round_of_all_stores_in_both_directions(
    stores: Stores, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "READ_ROWS", 64)  # so that a day is read in several pieces
    monkeypatch.setattr(postgres, "REFUSED_ROWS", 8)
    monkeypatch.setattr(postgres.PostgresWriter, "portion_rows", 100)
    first = stores.new("delta")
    stores.fill(first, batches(), refused_rows(30))
    wanted = contents(first)
    assert (len(wanted["readings"]), len(wanted["quarantine"])) == (320, 30)
    rounds = ("postgres", "influx", "etcd", "delta"), ("etcd", "influx", "postgres", "delta")
    for round_ in rounds:
        last, sums = first, []
        for kind in round_:
            said = told(capsys, "copy", last, (last := stores.new(kind)))
            assert said["ok"]
            assert [day["added"] for day in said["days"]] == [day["rows"] for day in said["days"]]
            sums.append([(d["table"], d["day"], d["target_checksum"]) for d in said["days"]])
            assert contents(last) == wanted, kind
        assert all(each == sums[0] for each in sums), "a reading has one checksum, wherever it is"
        again = told(capsys, "copy", first, last)
        assert [day["added"] for day in again["days"]] == [0, 0, 0]
        assert told(capsys, "verify", first, "--against", last)["ok"]
        assert told(capsys, "verify", last)["ok"]


def test_a_copy_that_was_killed_goes_on_where_it_was(
    stores: Stores, capsys: pytest.CaptureFixture[str]
) -> None:
    first, targets = stores.new("delta"), [stores.new(kind) for kind in KINDS]
    stores.fill(first, batches(), refused_rows(30))
    script = Path(__file__).parents[1] / "support" / "dying_copy.py"
    subprocess.run([sys.executable, str(script), first, *targets], check=True, timeout=110)
    for second in targets:
        there = len(contents(second)["readings"])
        assert 170 < there < 320, "the first day, and some of the second"
        said = told(capsys, "copy", first, second, "--wait")
        assert {(day["table"], day["day"]): day["added"] for day in said["days"]} == {
            ("readings", "2025-07-18"): 0,
            ("readings", "2025-07-19"): 320 - there,
            ("quarantine", "2025-07-18"): 30,
        }
        assert contents(second) == contents(first)


def test_one_changed_value_and_one_missing_row_are_found(
    stores: Stores, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = stores.new("delta"), stores.new("postgres")
    stores.fill(first, batches(), refused_rows(30))
    told(capsys, "copy", first, second)
    with psycopg.connect(second) as broken:
        first_and_last = 'SELECT ctid FROM readings_20250718 ORDER BY "timestamp" {} LIMIT 1'
        one, other = (broken.execute(first_and_last.format(w)).fetchone() for w in ("", "DESC"))
        broken.execute(
            "UPDATE readings_20250718 SET ingested = ingested + '1 us'::interval WHERE ctid = %s",
            one,
        )
        broken.execute("DELETE FROM readings_20250718 WHERE ctid = %s", other)
    differs = told(capsys, "verify", first, "--against", second, code=1)
    (day,) = [day for day in differs["days"] if not day["same"]]
    assert (day["day"], day["rows"], day["missing"]) == ("2025-07-18", [170, 169], 1)
    assert (day["extra"], day["differing"]) == (0, 1)
    assert run(["store", "verify", second]) == 1
    assert "has 19 rows, and 20 were counted" in capsys.readouterr().out
    said = told(capsys, "copy", first, second, code=1)
    assert [(day["added"], day["differing"]) for day in said["days"]] == [(1, 1), (0, 0), (0, 0)]


def test_files_that_are_not_as_the_log_says_and_readings_that_are_there_twice_are_found(
    stores: Stores, capsys: pytest.CaptureFixture[str]
) -> None:
    url = stores.new("delta")
    days = [
        fleet_readings(random.Random(n), 50, NOON + n * DAY, NOON + n * DAY + HOUR)
        for n in range(4)
    ]
    stores.fill(url, days)
    lake = LakeTable.open(parse_store_url(url), TABLES["readings"])
    gone, cut, spoiled, twice = sorted(lake.files(), key=lambda file: file.partition["day"])
    folder = Path(lake.store.table_uri("readings"))
    (folder / gone.path).unlink()
    (folder / cut.path).write_bytes((folder / cut.path).read_bytes()[:-10])
    data = bytearray((folder / spoiled.path).read_bytes())
    data[len(data) // 3 : len(data) // 2] = bytes(len(data) // 2 - len(data) // 3)
    (folder / spoiled.path).write_bytes(data)
    copy = written(lake.files_of, days[3].slice(0, 2), twice.partition["day"])
    lake.append([copy], "again", 0, FENCE)
    said = told(capsys, "verify", url, code=1)
    problems = [" ".join(day["problems"]) for day in said["days"]]
    assert "not there" in problems[0]
    assert "bytes, and the log says" in problems[1]
    assert problems[2], "what cannot be read is told"
    assert problems[3] == "2 readings are there more than once"


@pytest.mark.parametrize("kind", ["delta", "postgres"])
def test_rollups_that_do_not_say_what_the_readings_say_are_found(
    stores: Stores, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    early = fleet_readings(random.Random(3), 200, NOON, NOON + HOUR)
    late = canonical([{"uuid": "GPU-9", "timestamp": NOON + 7 * MINUTE}])
    url = stores.new(kind)
    closed = NOON + HOUR
    if kind == "delta":
        lake = Lake(parse_store_url(url))
        version = lake.add(early)
        for name in ("rollup_1m", "rollup_1h"):
            lake.derive(name, version, closed)
        lake.add(late)
        assert told(capsys, "verify", url)["ok"], "what came since makes a window stale, not wrong"
        wrong = Lake(parse_store_url(url))
        wrong.mark(version)
        wrong.readings = early.slice(1)
        wrong.mark(version)
        wrong.derive("rollup_1m", version, closed)
    else:
        with PostgresFilled(url) as store:
            store.add(early)
            store.roll()
            store.add(late)
            assert told(capsys, "verify", url)["ok"]
            store.connection.execute(
                "UPDATE rollup_1m_stored SET mean = mean + 1e-3 WHERE (series_id, start) ="
                " (SELECT series_id, start FROM rollup_1m_stored"
                "  WHERE count > 0 AND abs(mean) < 1000 ORDER BY 1, 2 LIMIT 1)"
            )
    said = told(capsys, "verify", url, code=1)
    assert {day["table"] for day in said["days"] if day["problems"]} == {"rollup_1m"}


def test_what_is_copied_to_postgresql_is_rolled_up_there(
    stores: Stores, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = stores.new("delta"), stores.new("postgres")
    rows = fleet_readings(random.Random(5), 300, NOON, NOON + 2 * HOUR)
    stores.fill(first, [rows.slice(0, 200), rows.slice(200)])
    half = told(capsys, "copy", first, second, "--from", "2025-07-18T13:00:00Z")
    (day,) = half["days"]
    assert 0 < day["rows"] == day["added"] < 300
    said = told(capsys, "copy", first, second, "--to", "2025-07-19")
    assert said["days"][0]["added"] == 300 - day["rows"]
    assert said["derived"]
    newest = max(rows.column("timestamp").cast(pa.int64()).to_pylist())
    with psycopg.connect(second) as connection:
        for name, width in (("rollup_1m", MINUTE), ("rollup_1h", HOUR)):
            found = table_of(connection, name, TABLES[name].schema)
            same_rows(found, expected_rollup(rows, width, newest - newest % width + width), name)
    with opened_at(first) as old, opened_at(second) as new:
        before, after = old.snapshot(), new.snapshot()
        assert after.gpus(ANY, (), ALL).equals(before.gpus(ANY, (), ALL))
        assert after.latest(ANY, ALL).equals(before.latest(ANY, ALL))


def test_rollups_whose_readings_are_gone_are_copied_and_can_be_asked(
    stores: Stores, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, third = stores.new("postgres"), stores.new("delta"), stores.new("postgres")
    old = fleet_readings(random.Random(6), 200, NOON - 40 * DAY, NOON - 40 * DAY + HOUR)
    new = fleet_readings(random.Random(7), 100, NOON, NOON + HOUR)
    with PostgresFilled(first) as store:
        store.add(old)
        store.add(new)
        store.roll()
        now = datetime.fromtimestamp(NOON / 1e6, UTC) + timedelta(days=1)
        sweep(store.connection, store.turn, {"readings": timedelta(days=30)}, now)
    span = Span(NOON - 40 * DAY, NOON - 40 * DAY + HOUR - 1)
    with opened_at(first) as asked:
        wanted = asked.snapshot().rollups(ANY, span, 60, ALL)
    assert wanted.num_rows > 100
    for source, target in ((first, second), (second, third)):
        for added in (True, False):
            days = told(capsys, "copy", source, target)["days"]
            rolled = [day for day in days if day["table"].startswith("rollup")]
            assert [day["day"] for day in rolled] == ["2025-06-08"] * 2
            assert [bool(day["added"]) for day in rolled] == [added] * 2
        with opened_at(target) as asked:
            assert asked.snapshot().rollups(ANY, span, 60, ALL).equals(wanted)
            assert asked.snapshot().readings(ANY, Span(0, 2**62), ALL).num_rows == 100
        assert told(capsys, "verify", target)["ok"]


def test_what_the_target_has_stays_and_what_it_cannot_hold_is_told(
    stores: Stores, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = stores.new("delta"), stores.new("postgres")
    one: dict[str, Any] = {"uuid": "GPU-1", "metric": "power", "timestamp": NOON, "value": 1.0}
    stores.fill(
        first, [canonical([one, {**one, "timestamp": NOON + 1}, {**one, "pod": "nul \0 inside"}])]
    )
    stores.fill(second, [canonical([{**one, "value": 2.0}])])
    for added in (1, 0):
        said = told(capsys, "copy", first, second, code=1)
        (day,) = said["days"]
        assert (day["added"], day["differing"], day["left_out"]) == (added, 1, 1)
        assert day["problem"] == ""
    with opened_at(second) as store:
        rows = store.snapshot().readings(ANY, Span(0, 2**62), ALL)
    assert rows.column("value").to_pylist() == [2.0, 1.0]
    assert run(["store", "copy", first, second]) == 1
    assert "with other values, and stay" in capsys.readouterr().err


def test_a_day_is_copied_in_rounds_where_memory_does_not_hold_what_is_there(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = stores.new("delta"), stores.new("delta")
    stores.fill(first, batches(), refused_rows(30, twice=1))
    stores.fill(second, [rows.slice(0, 100) for rows in batches()])
    with opened(first) as old, opened(second) as new, new.writer("test", None) as writer:
        done = list(copied(old, new, writer, planned(old, None, None), at_once=16))
    assert [day.added for day in done] == [320 - 100 - 100 - 20 - 50, 50, 30]
    assert all(day.is_whole for day in done)
    assert contents(second) == contents(first)


@pytest.mark.parametrize("kind", KINDS)
def test_a_store_with_a_writer_is_not_written_to(
    stores: Stores, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = stores.new("delta"), stores.new(kind)
    stores.fill(first, batches()[:1])
    with opened(second) as place, place.writer("collector-1", None):
        assert run(["store", "copy", first, second]) == 1
    said = capsys.readouterr().err
    assert "collector-1" in said
    assert "writes to it" in said
    assert run(["store", "copy", first, first]) == 2
    assert "the same store" in capsys.readouterr().err


@pytest.mark.parametrize("kind", KINDS)
def test_stats_and_vacuum_work_on_every_store_and_leave_its_rows_alone(
    stores: Stores, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    url = stores.new(kind)
    for command in ("stats", "verify", *(["vacuum"] if kind in ("delta", "postgres") else [])):
        assert run(["store", command, url]) == 1, "nothing is there"
    stores.fill(url, batches(), refused_rows(30))
    wanted = contents(url)
    capsys.readouterr()
    tables = {table["table"]: table for table in told(capsys, "stats", url)["tables"]}
    assert tables["readings"]["days"] == {"2025-07-18": 170, "2025-07-19": 150}
    assert (tables["readings"]["rows"], tables["readings"]["rows_a_day"]) == (320, 170)
    assert (tables["quarantine"]["rows"], tables["quarantine"]["days"]) == (30, {"2025-07-18": 30})
    assert kind == "influx" or tables["quarantine"]["bytes"] > 0  # it counts when it compacts
    would, did = (told(capsys, "vacuum", url, flag) for flag in ("--dry-run", "--yes"))
    assert would["ok"]
    assert did["ok"]
    assert would["steps"]
    if kind == "postgres":
        dropped = {step["what"] for step in did["steps"] if "removed" in step["said"]}
        assert {name.rpartition("_")[0] for name in dropped} == {
            "staged_readings",
            "staged_latest",
            "staged_quarantine",
        }
        again = told(capsys, "vacuum", url)
        assert not any("parted" in s["said"] or "removed" in s["said"] for s in again["steps"])
    assert run(["store", "stats", url]) == 0
    assert "in all" in capsys.readouterr().out
    assert contents(url) == wanted


def test_the_documented_move_works_as_it_is_written(
    stores: Stores, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Collector and gateway are not started but asked which stores they were given; what they
    # would do with them is done here.
    started: list[tuple[str, ...]] = []

    def collect(settings: Any, **_: object) -> int:
        started.append(settings.collector.stores)
        if len(started) == 1:  # the new store's stream begins with the oldest message
            stores.fill(old, [later])
            stores.fill(new, [*batches(), later])
        return 0

    def serve(settings: Any, **_: object) -> int:
        with opened_at(settings.gateway.store) as store:
            assert store.snapshot().readings(ANY, Span(0, 2**62), ALL).num_rows == 360
        return 0

    monkeypatch.setattr("nexus.pipeline.collector.main.run", collect)
    monkeypatch.setattr("nexus.gateway.main.run", serve)
    later = fleet_readings(random.Random(8), 40, NOON + 2 * DAY, NOON + 2 * DAY + HOUR)
    old, new = stores.new("delta"), stores.new("postgres")
    stores.fill(old, batches(), refused_rows(30))
    for words in documented("Moving to another store without downtime"):
        known = {"delta:///var/lib/nexus": old, "postgresql://nexus@db.example/telemetry": new}
        assert run([known.get(word, word) for word in words]) == 0, (words, capsys.readouterr())
    assert started == [(old, new), (new,)]


def documented(heading: str) -> list[list[str]]:
    """The commands under a heading of the page on stores, without the word nexus."""
    page = (Path(__file__).parents[2] / "docs" / "stores.md").read_text()
    section = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line.strip() for line in section.splitlines()]
    found = [line.split()[1:] for line in lines if line.startswith("nexus ")]
    assert len(found) == 6
    return found


@pytest.mark.parametrize("kept", ["all but one", "all, one of them changed"])
def test_a_target_that_does_not_keep_what_it_was_given_is_found_out(
    stores: Stores, kept: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    add = delta.DeltaWriter.add

    def careless(writer: delta.DeltaWriter, part: Slice, rows: pa.Table) -> pa.Table:
        at = rows.schema.get_field_index("source_value")
        field, other = rows.schema.field(at), pa.array([0.125])
        changed = rows.slice(0, 1).set_column(at, field, other)
        rest = rows.slice(1)
        add(writer, part, rest if kept == "all but one" else pa.concat_tables([changed, rest]))
        return rows.slice(0, 0)

    monkeypatch.setattr(delta.DeltaWriter, "add", careless)
    first, second = stores.new("delta"), stores.new("delta")
    stores.fill(first, batches()[:1])
    (day,) = told(capsys, "copy", first, second, code=1)["days"]
    wanted = "149 rows are there, and 150 should be" if kept == "all but one" else "checksum"
    assert wanted in day["problem"]
