"""A store in PostgreSQL keeps each reading once, whatever it says and whoever else writes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from nexus.bench.local_postgres import LocalPostgres
from nexus.cli.entry import run
from nexus.lake.errors import BatchesLost, Fenced, StoreError, StoreOut
from nexus.store.port import ANY, Page, Selection, Span
from nexus.store.postgres import pinned
from nexus.store.postgres.lock import PostgresLock
from nexus.store.postgres.retention import sweep
from nexus.store.postgres.staging import last_batch, merge, staging_name
from nexus.store.postgres.url import parse_postgres_url
from nexus.store.postgres.writing import parts_of
from nexus.telemetry.reading import READING_SCHEMA
from nexus.telemetry.tables import TABLES
from support.derived import (
    HOUR,
    MINUTE,
    NOON,
    any_readings,
    canonical,
    expected_gpus,
    expected_latest,
    expected_rollup,
    same_rows,
)
from support.etcd_stores import opened_at
from support.lakes import without
from support.postgres import PostgresFilled, new_database, staged, table_of

ALL = Page(100_000)
ALWAYS = Span(-(2**62), 2**62)
HOSTILE = [
    "quote \" and ' and `",
    "comma, semicolon; tab\tand \\ backslash \\. \\N",
    "line\nbreak\r\nand \r return",
    "über 温度 🌡 \u202e\ufeff\x7f\x01",
    "'; DROP TABLE readings_stored; --",
    "%s %(p0)s $1 $p0 {} ${x} NULL",
    '{"json": "\\u0041", "a": [1]}',
    " leading and trailing ",
]


@pytest.fixture
def store(postgres: LocalPostgres) -> Iterator[PostgresFilled]:
    with PostgresFilled(new_database(postgres, "store")) as made:
        yield made


def asked(store: PostgresFilled, which: Selection = ANY) -> pa.Table:
    with opened_at(store.url) as opened:
        return opened.snapshot().readings(which, ALWAYS, ALL)


def reading(**said: Any) -> dict[str, Any]:
    return {"uuid": "GPU-1", "metric": "power", "timestamp": NOON, "value": 1.0, **said}


def test_whatever_a_label_says_comes_back_as_it_was(store: PostgresFilled) -> None:
    columns = ("uuid", "hostname", "pod", "labels", "instance", "metric", "namespace", "device")
    rows = [reading(**dict.fromkeys(columns, text)) for text in HOSTILE]
    sent = canonical(rows)
    assert store.add(sent) == len(HOSTILE)
    found = asked(store)
    key = [("uuid", "ascending")]
    assert (
        found.sort_by(key).to_pylist() == sent.select(READING_SCHEMA.names).sort_by(key).to_pylist()
    )
    for text in HOSTILE:
        which = Selection(uuids=(text,), pods=(text,), metrics=(text,))
        assert asked(store, which).column("labels").to_pylist() == [text]
    assert store.connection.execute("SELECT count(*) FROM readings").fetchone() == (len(rows),)


def test_a_text_that_postgresql_does_not_take_is_refused_and_the_rest_is_stored(
    store: PostgresFilled,
) -> None:
    bad = reading(pod="a\0b", timestamp=NOON + 1)
    assert store.add(canonical([reading(), bad, reading(uuid="GPU-2")])) == 2
    with opened_at(store.url) as opened:
        (row,) = opened.snapshot().quarantine(ALWAYS, (), ALL).to_pylist()
    assert "NUL" in row["reason"]
    assert (row["partition"], row["offset"], row["stage"]) == (0, 1, "validate")
    assert b"a\\u0000b" in row["raw"]


def test_of_two_readings_with_one_identity_the_first_is_kept(store: PostgresFilled) -> None:
    assert store.add(canonical([reading()])) == 1
    assert store.add(canonical([reading(value=2.0, hostname="other")])) == 0
    assert store.add(canonical([reading(value=3.0, pod="another")])) == 1
    assert sorted(asked(store).column("value").to_pylist()) == [1.0, 3.0]


def test_a_batch_is_stored_once_and_in_its_turn(store: PostgresFilled) -> None:
    part = parts_of([staged(store.connection, store.turn, canonical([reading()]))])
    merge(store.connection, store.turn, "app", 0, part)
    with pytest.raises(BatchesLost):
        merge(store.connection, store.turn, "app", 0, part)
    with pytest.raises(BatchesLost):
        merge(store.connection, store.turn, "app", 2, part)
    assert last_batch(store.connection, "app") == 0
    assert asked(store).num_rows == 1


def test_rows_that_a_crash_took_out_of_staging_are_missed(store: PostgresFilled) -> None:
    part = parts_of([staged(store.connection, store.turn, canonical([reading()]))])
    store.connection.execute(f"TRUNCATE {staging_name('readings', store.turn.epoch)}")
    with pytest.raises(StoreOut, match="0 of 1 rows"):
        merge(store.connection, store.turn, "app", 0, part)
    assert last_batch(store.connection, "app") == -1


def test_who_was_taken_over_from_commits_nothing_any_more(store: PostgresFilled) -> None:
    part = parts_of([staged(store.connection, store.turn, canonical([reading()]))])
    waited: list[str] = []
    other = PostgresLock(parse_postgres_url(store.url), "other")

    def wait(who: str) -> None:
        waited.append(who)
        store.connection.execute("SELECT pg_advisory_unlock_all()")  # as if its session was cut off

    other.acquire(wait)
    assert waited == ["test"]
    with pytest.raises(Fenced):
        merge(store.connection, store.turn, "app", 0, part)
    store.connection.close()
    with pytest.raises(Fenced):
        store.lock.held()
    assert store.lock.lost()
    other.release()


def test_derived_tables_are_what_a_plain_recomputation_gives(store: PostgresFilled) -> None:
    rng = random.Random(3)
    early = any_readings(rng, 400, 2 * HOUR)
    late = without(any_readings(rng, 300, 2 * HOUR), early)
    for rows in (early, late):  # the second comes to windows that are stored
        store.add(rows)
        store.roll()
    whole = pa.concat_tables([early, late])
    newest = max(whole.column("timestamp").cast(pa.int64()).to_pylist())
    for name, width in (("rollup_1m", MINUTE), ("rollup_1h", HOUR)):
        found = table_of(store.connection, name, TABLES[name].schema)
        same_rows(found, expected_rollup(whole, width, newest - newest % width + width), name)
    for name, wanted in (("latest", expected_latest(whole)), ("gpus", expected_gpus(whole))):
        same_rows(table_of(store.connection, name, TABLES[name].schema), wanted, name)


def test_a_day_goes_when_its_times_and_what_was_ingested_last_are_older(
    store: PostgresFilled,
) -> None:
    day = 24 * HOUR
    store.add(canonical([reading(), reading(timestamp=NOON - day, ingested=NOON + 2 * day)]))
    store.roll()

    def swept(days: float) -> dict[str, int]:
        now = datetime.fromtimestamp(NOON / 1e6, UTC) + timedelta(days=days)
        return sweep(store.connection, store.turn, {"readings": timedelta(days=1)}, now)

    assert swept(1)["readings"] == 0, "the day is not over for a day"
    assert swept(2)["readings"] == 1
    assert asked(store).column("timestamp").cast(pa.int64()).to_pylist() == [NOON - day]
    assert swept(4)["readings"] == 1
    assert asked(store).num_rows == 0
    with opened_at(store.url) as opened:
        hours = opened.snapshot().rollups(ANY, Span(NOON, NOON), 3600, ALL)
    assert hours.num_rows == 1, "what was rolled up stays"


def test_answers_of_one_snapshot_agree_while_batches_come(
    store: PostgresFilled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pinned, "FRESH_S", 0.0)
    store.add(canonical([reading()]))
    with opened_at(store.url) as opened:
        before = opened.snapshot()
        store.add(canonical([reading(timestamp=NOON + 1)]))
        assert opened.snapshot().latest(ANY, ALL).column("timestamp").cast(pa.int64())[
            0
        ].as_py() == (NOON + 1)
        assert before.readings(ANY, ALWAYS, ALL).num_rows == 1
        assert before.latest(ANY, ALL).column("timestamp").cast(pa.int64())[0].as_py() == NOON
        for number in range(pinned.HELD + 1):
            store.add(canonical([reading(timestamp=NOON + 2 + number)]))
            opened.snapshot()
        assert before.readings(ANY, ALWAYS, ALL).num_rows > 1, "it went to the newest"


def test_tables_are_made_once_and_newer_ones_are_left_alone(
    postgres: LocalPostgres, capsys: pytest.CaptureFixture[str]
) -> None:
    url = new_database(postgres, "made")
    assert run(["store", "migrate", "--store", url]) == 1
    assert "nexus store init" in capsys.readouterr().err
    assert run(["store", "init", "--store", url]) == 0
    assert "tables made, version 1" in capsys.readouterr().out
    for command in ("init", "migrate"):
        assert run(["store", command, "--store", url]) == 0
        assert "version 1 already" in capsys.readouterr().out
    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO store_schema VALUES (99, now())")
    assert run(["store", "migrate", "--store", url]) == 1
    assert "use a newer nexus" in capsys.readouterr().err
    with pytest.raises(StoreError, match="version 99"):
        PostgresLock(parse_postgres_url(url), "me").acquire()


def test_a_database_without_tables_answers_as_an_empty_store(postgres: LocalPostgres) -> None:
    with opened_at(new_database(postgres, "empty")) as opened:
        view = opened.snapshot()
        assert (view.readings(ANY, ALWAYS, ALL).num_rows, view.versions) == (0, {})
        assert view.gpus(ANY, (), ALL).num_rows == view.tables().num_rows == 0
        assert view.summary(ANY, Span(NOON, NOON + HOUR), ()).num_rows == 0
