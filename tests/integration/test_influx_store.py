"""A store in InfluxDB keeps each reading once, whatever it says and whoever else writes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from nexus.bench.local_influx import LocalInflux
from nexus.cli.entry import run
from nexus.lake.errors import Fenced, StoreError, StoreOut
from nexus.store.influx import journal, lock, looking
from nexus.store.influx.lock import InfluxLock
from nexus.store.influx.retention import sweep
from nexus.store.influx.talking import Influx
from nexus.store.influx.url import parse_influx_url
from nexus.store.port import ANY, Page, Selection, Span
from nexus.telemetry.reading import READING_SCHEMA
from support.certificates import make_authority, make_certificate
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
from support.influx import InfluxFilled, influx_server, new_database
from support.lakes import without

ALL = Page(100_000)
ALWAYS = Span(-(2**62), 2**62)
HOSTILE = [
    "quote \" and ' and `",
    "comma, semicolon; tab\tand = equals, \\ backslash \\. \\N \\, \\=",
    "ends in a backslash \\",
    "\\",
    "line\nbreak\r\nand \r return",
    "\n\nname,tags,name,duration\n",
    "nul \0 in it",
    "über 温度 🌡 \u202e\ufeff\x7f\x01",
    "'; DROP DATABASE telemetry; --",
    "' OR time > 0; DROP MEASUREMENT readings",
    "%s %0A %5C %25 $p0 $1 {} ${x} null",
    '{"json": "\\u0041", "a": [1]}',
    " leading and trailing ",
    "# no comment",
]


@pytest.fixture
def store(influx: LocalInflux) -> Iterator[InfluxFilled]:
    with InfluxFilled(new_database(influx, "store")) as made:
        yield made


def asked(store: InfluxFilled, which: Selection = ANY) -> pa.Table:
    with opened_at(store.url) as opened:
        return opened.snapshot().readings(which, ALWAYS, ALL)


def reading(**said: Any) -> dict[str, Any]:
    return {"uuid": "GPU-1", "metric": "power", "timestamp": NOON, "value": 1.0, **said}


def test_whatever_a_label_says_comes_back_as_it_was(store: InfluxFilled) -> None:
    columns = ("uuid", "hostname", "pod", "labels", "instance", "metric", "namespace", "device")
    sent = canonical([reading(**dict.fromkeys(columns, text)) for text in HOSTILE])
    assert store.add(sent) == len(HOSTILE)
    key = [("uuid", "ascending")]
    wanted = sent.select(READING_SCHEMA.names).sort_by(key).to_pylist()
    assert asked(store).sort_by(key).to_pylist() == wanted
    store.roll()
    with opened_at(store.url) as opened:
        view = opened.snapshot()
        for text in HOSTILE:
            which = Selection(uuids=(text,), pods=(text,), metrics=(text,), hostnames=(text,))
            assert view.readings(which, ALWAYS, ALL).column("labels").to_pylist() == [text]
            windows = view.rollups(which, Span(NOON, NOON), 60, ALL)
            assert windows.column("pod").to_pylist() == [text]
        assert sorted(view.latest(ANY, ALL).column("labels").to_pylist()) == sorted(HOSTILE)


def test_numbers_come_back_to_the_last_digit(store: InfluxFilled) -> None:
    values = [0.1 + 0.2, 5e-324, -1.7976931348623157e308, 1e22, 123456789.123456789, -0.07, 7.0]
    rows = [
        reading(timestamp=NOON + n, value=value, source_value=value * (n % 2 + 1))
        for n, value in enumerate(values[:-1])
    ]
    rows.append(reading(timestamp=NOON + 9, value=None, source_value=2.0**53))
    store.add(canonical(rows))
    found = asked(store)
    assert found.column("value").to_pylist() == [row["value"] for row in rows]
    assert found.column("source_value").to_pylist() == [row["source_value"] for row in rows]


def test_a_batch_that_comes_again_overwrites_itself(store: InfluxFilled) -> None:
    rows = canonical([reading(), reading(timestamp=NOON + 1, pod="another", value=None)])
    for _ in range(2):  # a task that is played again, before anything is committed
        wrote = store.written(rows, again=True)
    store.commit(wrote)
    assert asked(store).num_rows == 2
    before = store.state
    again = journal.Entry(1, "test", store.number, {"readings": wrote.pieces()})
    assert store.lock.commit(again) == before, "it is known by its number"


def test_of_two_readings_with_one_identity_the_first_is_kept(store: InfluxFilled) -> None:
    first = [reading(), reading(timestamp=NOON + 9, source_value=100.0)]
    assert store.add(canonical(first)) == 2
    again = [reading(value=2.0), reading(timestamp=NOON + 5), first[1]]
    assert store.add(canonical(again)) == 1, "one lies between those that are there"
    assert store.add(canonical([reading(value=3.0, pod="another")])) == 1
    found = asked(store)
    assert sorted(found.column("value").to_pylist()) == [1.0, 1.0, 1.0, 3.0]
    assert store.state.held["readings"][NOON].rows == 4


def test_a_reading_that_comes_again_under_another_context_is_there_once(
    store: InfluxFilled,
) -> None:
    store.add(canonical([reading(hostname="h1", ingested=NOON)]))
    store.add(canonical([reading(hostname="h2", ingested=NOON + 5)]))
    assert asked(store).column("hostname").to_pylist() == ["h1"]


def test_who_was_taken_over_from_commits_nothing_any_more(
    store: InfluxFilled, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrote = store.written(canonical([reading()]))
    moment = 0.0
    waited: list[str] = []

    def wait(who: str) -> None:
        nonlocal moment
        waited.append(who)
        moment += lock.SILENT_S

    monkeypatch.setattr(lock, "BEAT_S", 3600.0)
    hasty = InfluxLock(store.place, "hasty")
    with pytest.raises(StoreOut, match="test writes to it"):
        hasty.acquire()
    hasty.release()
    other = InfluxLock(store.place, "other", clock=lambda: moment)
    other.acquire(wait)
    assert set(waited) == {"test"}
    with pytest.raises(Fenced, match="other has taken over"):
        store.commit(wrote)
    assert store.lock.lost()
    assert asked(store).num_rows == 0, "what is not committed is not asked for"
    other.release()


def test_derived_tables_are_what_a_plain_recomputation_gives(
    store: InfluxFilled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "CHECKPOINT_EVERY", 3)
    rng = random.Random(3)
    early = any_readings(rng, 400, 2 * HOUR)
    late = without(any_readings(rng, 300, 2 * HOUR), early)
    for rows in (early, late):  # the second comes to windows that are stored
        store.add(rows)
        store.roll()
    whole = pa.concat_tables([early, late])
    newest = max(whole.column("timestamp").cast(pa.int64()).to_pylist())
    for name, width in (("rollup_1m", MINUTE), ("rollup_1h", HOUR)):
        wanted = expected_rollup(whole, width, newest - newest % width + width)
        same_rows(store.table(name), wanted, name)
    with opened_at(store.url) as opened:
        view = opened.snapshot()
        same_rows(view.latest(ANY, ALL), expected_latest(whole), "latest")
        gpus = view.gpus(ANY, (), ALL).drop_columns(["state", "busy"])
        same_rows(gpus, expected_gpus(whole), "gpus")
        held = {row["name"]: row["rows"] for row in view.tables().to_pylist()}
        assert held["readings"] == whole.num_rows


def test_a_day_goes_when_its_times_and_what_was_ingested_last_are_older(
    store: InfluxFilled,
) -> None:
    day = 24 * HOUR
    store.add(canonical([reading(), reading(timestamp=NOON - day, ingested=NOON + 2 * day)]))
    store.roll()

    def swept(days: float) -> int:
        kept = {"readings": timedelta(days=1)}
        return sweep(store.lock, kept, NOON + round(days * day))["readings"]

    assert swept(1) == 0, "the day is not over for a day"
    assert swept(2) == 1
    assert asked(store).column("timestamp").cast(pa.int64()).to_pylist() == [NOON - day]
    assert swept(4) == 1
    assert asked(store).num_rows == 0
    with opened_at(store.url) as opened:
        hours = opened.snapshot().rollups(ANY, Span(NOON, NOON), 3600, ALL)
    assert hours.num_rows == 1, "what was rolled up stays"


def test_who_looks_late_begins_from_a_checkpoint(
    store: InfluxFilled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "FRESH_S", 0.0)
    monkeypatch.setattr(journal, "CHECKPOINT_EVERY", 4)
    monkeypatch.setattr(journal, "_KEPT", 2)
    with opened_at(store.url) as opened:
        store.add(canonical([reading()]))
        assert opened.snapshot().readings(ANY, ALWAYS, ALL).num_rows == 1
        for number in range(1, 9):
            store.add(canonical([reading(timestamp=NOON + number)]))
        assert opened.snapshot().readings(ANY, ALWAYS, ALL).num_rows == 9
        assert opened.snapshot().versions["readings"] == 9
    kept = store.lock.influx.tell("SELECT said FROM nexus.journal")
    assert len(kept) < 9, "what a checkpoint has need not be kept"


def test_a_store_is_made_once_and_a_newer_one_is_left_alone(
    influx: LocalInflux, capsys: pytest.CaptureFixture[str]
) -> None:
    url = new_database(influx, "made")
    assert run(["store", "migrate", "--store", url]) == 1
    assert "nexus store init" in capsys.readouterr().err
    assert run(["store", "init", "--store", url]) == 0
    assert "version 1" in capsys.readouterr().out
    for command in ("init", "migrate"):
        assert run(["store", command, "--store", url]) == 0
        assert "version 1 already" in capsys.readouterr().out
    with opened_at(url) as opened:
        assert opened.snapshot().readings(ANY, ALWAYS, ALL).num_rows == 0
    client = Influx(parse_influx_url(url))
    name = parse_influx_url(url).database
    client.tell(f'ALTER RETENTION POLICY "readings" ON "{name}" DURATION 30d')
    refused = InfluxLock(parse_influx_url(url), "me")
    with pytest.raises(StoreError, match="throw older readings away"):
        refused.acquire()
    client.write("nexus", b'schema said="{\\"version\\": 99, \\"identity\\": \\"x\\"}" 99\n')
    assert run(["store", "migrate", "--store", url]) == 1
    assert "use a newer nexus" in capsys.readouterr().err
    with pytest.raises(StoreError, match="version 99"):
        refused.acquire()
    refused.release()
    client.close()


def test_what_is_taken_in_part_only_is_an_error(store: InfluxFilled) -> None:
    client = store.lock.influx
    client.write("readings", b"odd value=1 1\n")
    with pytest.raises(StoreError, match="field type conflict"):
        client.write("readings", b'odd value=1 2\nodd value="text" 3\n')
    with pytest.raises(StoreError, match="parsing"):
        client.ask("SELECT FROM", None, pa.schema([]))
    with pytest.raises(StoreError, match="undefined function"):
        client.ask('SELECT nothing("value") FROM "odd"', None, pa.schema([]))


def test_an_answer_says_before_it_is_asked_for_that_there_is_no_store(influx: LocalInflux) -> None:
    with opened_at(new_database(influx, "empty")) as opened:
        view = opened.snapshot()
        assert (view.readings(ANY, ALWAYS, ALL).num_rows, view.versions) == (0, {})
        assert view.gpus(ANY, (), ALL).num_rows == view.tables().num_rows == 0
        assert view.summary(ANY, Span(NOON, NOON + HOUR), ()).num_rows == 0
        assert view.quarantine(ALWAYS, (), ALL).num_rows == 0


def test_only_who_is_known_may_ask_and_only_a_known_server_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_authority(tmp_path)
    make_certificate(tmp_path, "server", "IP:127.0.0.1")
    http = f"""
  auth-enabled = true
  https-enabled = true
  https-certificate = "{tmp_path}/server.pem"
  https-private-key = "{tmp_path}/server.key"
"""
    monkeypatch.setenv("INFLUX_USERNAME", "nexus")
    monkeypatch.setenv("INFLUX_PASSWORD", 'it\'s "s3cret"')
    with influx_server(http, "https") as server:
        trusting = server.url("safe", f"ssl=true&ca={tmp_path}/ca.pem")
        client = Influx(parse_influx_url(trusting))
        client.tell("CREATE USER nexus WITH PASSWORD 'it\\'s \"s3cret\"' WITH ALL PRIVILEGES")
        client.close()
        with InfluxFilled(trusting) as store:
            store.add(canonical([reading()]))
            assert asked(store).num_rows == 1
        doubting = Influx(parse_influx_url(server.url("safe", "ssl=true")), tries=1)
        with pytest.raises(StoreOut, match="CERTIFICATE_VERIFY_FAILED"):
            doubting.tell("SHOW DATABASES")
        doubting.close()
        file = tmp_path / "pass"
        file.write_text("nexus:wrong\n")
        wrong = InfluxLock(parse_influx_url(f"{trusting}&passfile={file}"), "me")
        with pytest.raises(StoreError, match="INFLUX_PASSWORD") as raised:
            wrong.acquire()
        assert "wrong" not in str(raised.value)
        wrong.release()
