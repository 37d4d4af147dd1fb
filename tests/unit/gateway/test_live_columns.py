"""Live readings: canonical, what the tables would take, and JSON that nothing in them can break."""

from __future__ import annotations

import json
import math
import time
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

from nexus.gateway.live.columns import LIVE_SCHEMA, TEXT_MAX, joined, live_columns, quoted
from nexus.gateway.live.filters import selected
from nexus.gateway.live.render import EVENT_BYTES, EVENT_ROWS, event_slices, rendered
from nexus.store.port import Selection
from nexus.telemetry.checks import refusals
from nexus.telemetry.normalise import bounds_reason, normalise
from nexus.telemetry.reading import plain
from support.live import live_rows, shown, source_rows
from support.readings import NOON_US, any_readings, examples, fleet

HOSTILE = ['"', "\\", "</script>", "\n\ndata: {}", "\u2028", "\x00\x1f\x7f", "é😀", "a" * 500]


def rows_of(data: bytes) -> list[dict[str, Any]]:
    columns = json.loads(data)
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def test_a_reading_has_canonical_names_values_and_units() -> None:
    table = live_rows({"source_metric": "DCGM_FI_DEV_GPU_UTIL", "source_value": 85.0, "uuid": "G"})
    (row,) = rows_of(rendered(table))
    said = {name: row[name] for name in ("timestamp", "metric", "value", "unit", "uuid")}
    expected = {"metric": "gpu_util", "value": 0.85, "unit": "ratio", "uuid": "G"}
    assert said == {"timestamp": NOON_US // 1000, **expected}


def test_a_value_that_was_not_collected_is_null() -> None:
    blank = {"source_metric": "DCGM_FI_DEV_GPU_TEMP", "source_value": 2147483632.0, "uuid": "G"}
    assert rows_of(rendered(live_rows(blank)))[0]["value"] is None


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_text(text: str) -> None:
    data = rendered(live_rows({"uuid": "G", "pod": text, "hostname": text, "cluster": text}))
    assert b"\n" not in data
    assert b"\r" not in data
    (row,) = rows_of(data)
    assert (row["pod"], row["hostname"], row["cluster"]) == (text, text, text)


@examples(40)
@given(any_readings)
def test_what_is_rendered_is_what_normalise_says(table: pa.Table) -> None:
    now_us = time.time_ns() // 1000
    readings = normalise(table)
    reasons = [refusals(table, now_us).to_pylist(), bounds_reason(readings).to_pylist()]
    good = [not any(why) for why in zip(*reasons, strict=True)]
    names = ("metric", "value", "uuid", "instance", "pod", "cluster")
    expected = plain(readings).select(names).filter(pa.array(good)).to_pylist()
    found = rows_of(rendered(live_columns(table, now_us)))
    assert [{name: row[name] for name in names} for row in found] == expected


def test_readings_that_no_table_would_take_are_not_shown() -> None:
    now_us = time.time_ns() // 1000
    table = source_rows(
        {"uuid": "good", "timestamp": now_us},
        {"uuid": "cold", "source_value": -4000.0},
        {"uuid": "early", "timestamp": 0},
        {"uuid": "late", "timestamp": now_us + 3_600_000_000},
        {"uuid": "", "hostname": "", "gpu": ""},
        {"uuid": "endless", "source_value": math.inf},
        {"uuid": "nothing", "source_value": math.nan},
    )
    assert [row["uuid"] for row in shown(live_columns(table, now_us))] == ["good"]


def test_a_reading_with_a_name_that_is_too_long_is_not_shown() -> None:
    table = live_rows({"uuid": "a", "pod": "x" * TEXT_MAX}, {"uuid": "b", "pod": "x"})
    assert [row["uuid"] for row in shown(table)] == ["b"]


def test_the_readings_do_not_hold_on_to_the_message_they_came_from() -> None:
    source = source_rows(*[{"uuid": f"GPU-{n}"} for n in range(100)])
    table = live_columns(source, time.time_ns() // 1000)
    theirs = {buffer.address for buffer in buffers_of(source)}
    assert theirs.isdisjoint(buffer.address for buffer in buffers_of(table))


def buffers_of(table: pa.Table) -> list[pa.Buffer]:
    chunks = [chunk for column in table.columns for chunk in column.chunks]
    encoded = [c.indices for c in chunks if pa.types.is_dictionary(c.type)]
    return [b for chunk in (*chunks, *encoded) for b in chunk.buffers() if b is not None and b.size]


def test_no_readings_are_an_empty_list_of_each() -> None:
    assert rows_of(rendered(LIVE_SCHEMA.empty_table())) == []
    assert list(event_slices(LIVE_SCHEMA.empty_table())) == []


def test_an_event_is_never_too_large() -> None:
    many = live_columns(fleet(20_000, gpus=64), NOON_US + 10**12)
    wide = live_rows(*[{"uuid": f"G{n}", "pod": "\x01" * 150} for n in range(5_000)])
    for table in (many, wide):
        data = [rendered(piece) for piece in event_slices(table)]
        assert max(map(len, data)) < EVENT_BYTES
        assert max(len(rows_of(each)) for each in data) <= EVENT_ROWS
        assert [row for each in data for row in rows_of(each)] == rows_of(rendered(table))


def test_quoted_text_of_all_kinds_is_json() -> None:
    texts = [*HOSTILE, "", "plain"]
    assert [json.loads(text) for text in quoted(pa.array(texts)).to_pylist()] == texts


def test_joined_tables_are_one_after_the_other() -> None:
    tables = [live_rows({"uuid": uuid, "pod": pod}) for uuid, pod in ("ax", "by", "az")]
    assert [(row["uuid"], row["pod"]) for row in shown(joined(tables))] == [
        ("a", "x"),
        ("b", "y"),
        ("a", "z"),
    ]


DEVICES = [
    {"uuid": "a", "hostname": "h1", "gpu": "0", "cluster": "c1", "namespace": "n1", "pod": "p"},
    {"uuid": "ab", "hostname": "h1", "gpu": "1", "cluster": "c1", "namespace": "n2", "model": "M"},
    {"uuid": "b", "hostname": "h2", "gpu": "0", "cluster": "c2", "namespace": "n1", "mig": "3"},
]


@pytest.mark.parametrize(
    ("which", "uuids"),
    [
        (Selection(), ["a", "ab", "b"]),
        (Selection(uuids=("a",)), ["a"]),
        (Selection(uuids=("a", "b", "zz")), ["a", "b"]),
        (Selection(hostnames=("h1",)), ["a", "ab"]),
        (Selection(clusters=("c2",)), ["b"]),
        (Selection(namespaces=("n1",)), ["a", "b"]),
        (Selection(namespaces=("n1",), clusters=("c1",)), ["a"]),
        (Selection(gpus=("0",)), ["a", "b"]),
        (Selection(models=("M",)), ["ab"]),
        (Selection(migs=("3",)), ["b"]),
        (Selection(pods=("p",)), ["a"]),
        (Selection(metrics=("gpu_temperature",)), ["a", "ab", "b"]),
        (Selection(metrics=("gpu_temp",)), []),
        (Selection(uuids=("a",), clusters=("c2",)), []),
        (Selection(uuids=("A",)), []),
        (Selection(pods=("",)), ["ab", "b"]),
    ],
)
def test_a_selection_names_values_exactly(which: Selection, uuids: list[str]) -> None:
    assert [row["uuid"] for row in shown(selected(live_rows(*DEVICES), which))] == uuids


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_can_be_selected_too(text: str) -> None:
    table = live_rows({"uuid": "a", "pod": text}, {"uuid": "b", "pod": "other"})
    assert [row["uuid"] for row in shown(selected(table, Selection(pods=(text,))))] == ["a"]


def test_of_a_metric_single_links_can_be_selected() -> None:
    name = "DCGM_FI_DEV_NVLINK_BANDWIDTH_L{}".format
    table = live_rows(
        {"uuid": "a", "source_metric": name(3)},
        {"uuid": "b", "source_metric": name(4)},
        {"uuid": "c", "source_metric": "DCGM_FI_DEV_POWER_USAGE"},
    )
    which = Selection(instances=(("nvlink_throughput", "link=4"),))
    assert [row["uuid"] for row in shown(selected(table, which))] == ["b", "c"]
