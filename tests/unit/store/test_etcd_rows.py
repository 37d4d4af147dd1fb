"""Readings, documents and what was refused, as an etcd store's keys and values."""

import json
import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from nexus.store.etcd.documents import (
    GPU_SCHEMA,
    document,
    known_from,
    latest_documents,
    latest_from,
    rows_by_uuid,
)
from nexus.store.etcd.layout import StoreLayout, data_keys, moment_us_of
from nexus.store.etcd.refused import RAW_BYTES_MOST, refused_from, refused_items
from nexus.store.etcd.rows import reading_keys, reading_values, readings_from
from nexus.telemetry.normalise import normalise
from nexus.telemetry.tables import TABLES
from support.derived import any_readings
from support.readings import NOON_US, any_reading, examples, fleet, readings

LAYOUT = StoreLayout()
REFUSED = pa.schema([f for f in TABLES["quarantine"].schema if f.name != "day"])
MINUTE_US = 60_000_000


def canonical(table: pa.Table) -> pa.Table:
    return normalise(table)


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def test_what_is_stored_is_what_was_read() -> None:
    table = canonical(fleet(2_000, gpus=32))
    assert readings_from(reading_values(table).to_pylist()).equals(
        table.cast(readings_from([]).schema)
    )


@given(st.lists(any_reading(), min_size=1, max_size=8))
@examples(150)
def test_no_text_or_number_is_changed_on_the_way(rows: Sequence[dict[str, Any]]) -> None:
    table = canonical(readings(*rows))
    assert rows_of(readings_from(reading_values(table).to_pylist())) == rows_of(table)


def test_a_value_is_json_that_leaves_out_what_goes_without_saying() -> None:
    row = {"uuid": "GPU-1", "source_value": 85.0, "labels": '{"a":"b"}', "hostname": "h"}
    [value] = reading_values(canonical(readings(row))).to_pylist()
    assert json.loads(value) == {
        "timestamp": "2025-07-18T12:00:00.000000Z",
        "value": 85,
        "metric": "gpu_temperature",
        "source_metric": "DCGM_FI_DEV_GPU_TEMP",
        "uuid": "GPU-1",
        "hostname": "h",
        "labels": '{"a":"b"}',
    }


def test_keys_sort_by_gpu_and_time_and_no_two_readings_share_one() -> None:
    table = any_readings(random.Random(1), 3_000, 2 * MINUTE_US)
    keys = reading_keys(LAYOUT, table).to_pylist()
    assert len(set(keys)) == table.num_rows
    by_key = [row for _, row in sorted(zip(keys, rows_of(table), strict=True), key=lambda p: p[0])]
    places = [(r["hostname"], r["uuid"].replace("/", "%2F"), r["timestamp"]) for r in by_key]
    assert places == sorted(places)


def test_many_readings_of_a_gpu_in_one_moment_stay_many() -> None:
    pods = [{"uuid": "GPU-1", "pod": f"p{n}", "mig": f"{n % 2}"} for n in range(100)]
    keys = reading_keys(LAYOUT, canonical(readings(*pods))).to_pylist()
    assert len(set(keys)) == len(pods)


def test_a_span_of_time_is_a_range_of_keys() -> None:
    times = [{"uuid": "GPU-1", "timestamp": NOON_US + n} for n in range(10)]
    keys = reading_keys(LAYOUT, canonical(readings(*times))).to_pylist()
    span = data_keys(LAYOUT.path("", "", "GPU-1"), NOON_US + 2, NOON_US + 5)
    assert [moment_us_of(k) - NOON_US for k in keys if span.start <= k < span.end] == [2, 3, 4]


def test_names_that_look_like_paths_cannot_leave_their_place() -> None:
    assert LAYOUT.path("a/b", "%2F", "") == "/telemetry/clusters/a%2Fb/hosts/%252F/gpus/%"


def test_the_last_readings_of_many_gpus_come_back_as_they_were() -> None:
    table = canonical(fleet(17 * 24, gpus=24))
    split = [table.filter(pa.compute.equal(table["uuid"], u)) for u in table["uuid"].unique()]
    found = latest_from([latest_documents(part, [0])[0] for part in split])
    assert rows_of(found) == [row for part in split for row in rows_of(part)]


def test_a_single_last_reading_comes_back_too() -> None:
    table = canonical(readings({"uuid": "GPU-1"}))
    value = latest_documents(table, [0])[0]
    assert json.loads(value)["readings"][0]["metric"] == "gpu_temperature"
    assert rows_of(latest_from([value])) == rows_of(table)


def test_documents_tell_who_and_where_each_gpu_is() -> None:
    usual = dict.fromkeys((f.name for f in GPU_SCHEMA if pa.types.is_string(f.type)), "")
    seen = {"first_seen": NOON_US, "last_seen": NOON_US + 1}
    rows = [{**usual, **seen, "uuid": u, "mig": m} for u, m in [("a", ""), ("a", "1"), ("b", "")]]
    columns = [pa.array([row[f.name] for row in rows], f.type) for f in GPU_SCHEMA]
    gpus = pa.table(columns, schema=GPU_SCHEMA)
    by_uuid = rows_by_uuid(gpus)
    values = [document(u, [f"/p/{u}"], by_uuid.get(u, [])) for u in ("a", "b", "host/")]
    known = known_from(values)
    assert known.gpus.equals(gpus)
    assert known.paths == {u: (f"/p/{u}",) for u in ("a", "b", "host/")}


def refusal(**said: object) -> dict[str, object]:
    usual = {f.name: "" for f in REFUSED if pa.types.is_string(f.type)}
    return {**usual, "refused": NOON_US, "partition": 1, "offset": 2, "row": 0, "raw": b"?", **said}


def refused(*rows: dict[str, object]) -> pa.Table:
    return pa.table([pa.array([r[f.name] for r in rows], f.type) for f in REFUSED], schema=REFUSED)


def test_what_was_refused_comes_back_with_every_byte_also_where_it_is_no_text() -> None:
    table = refused(
        refusal(raw=b"\xff\x00\n"), refusal(raw='{"é":"\n"}'.encode()), refusal(raw=b"")
    )
    items = list(refused_items(LAYOUT, table))
    found = refused_from([value for _, value in items])
    assert rows_of(found.drop_columns(["raw_size"])) == rows_of(table)
    assert found["raw_size"].to_pylist() == [3, 10, 0]


def test_equal_things_that_were_refused_stay_several() -> None:
    names = [key for key, _ in refused_items(LAYOUT, refused(refusal(), refusal(), refusal()))]
    assert len(set(names)) == 3


def test_of_what_is_too_large_the_beginning_is_kept() -> None:
    [(_, value)] = refused_items(LAYOUT, refused(refusal(raw=b"x" * (RAW_BYTES_MOST + 5))))
    [row] = rows_of(refused_from([value]))
    assert len(row["raw"]) == RAW_BYTES_MOST
    assert row["raw_size"] == RAW_BYTES_MOST + 5
