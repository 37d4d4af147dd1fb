"""/api/v1/telemetry: which readings, how fine, in which order and units."""

from __future__ import annotations

import csv
import io
from typing import Any

import pyarrow as pa
import pytest

from support.gateways import Client

BUSY = "GPU-00000000-aaaa"
PATH = f"/api/v1/gpus/{BUSY}/telemetry"
HOUR = {"start_time": "2025-07-18T11:00:00Z", "end_time": "2025-07-18T12:00:00Z"}


def values(document: dict[str, Any]) -> list[tuple[str, float | None]]:
    return [(row["timestamp"], row["value"]) for row in document["data"]]


def test_times_are_inclusive_and_ascend(client: Client) -> None:
    found = client.json(
        PATH,
        metric="power",
        resolution="raw",
        start_time="2025-07-18T11:58:00Z",
        end_time="2025-07-18T12:00:00Z",
    )
    assert found["resolution"] == "raw"
    assert values(found) == [
        ("2025-07-18T11:58:00Z", 102.0),
        ("2025-07-18T11:59:00Z", 101.0),
        ("2025-07-18T12:00:00Z", 100.0),
    ]
    assert found["data"][0] == {
        "timestamp": "2025-07-18T11:58:00Z",
        "metric": "power",
        "value": 102.0,
        "unit": "W",
        "uuid": BUSY,
        "gpu": "0",
        "hostname": "h1",
        "namespace": "team-a",
        "pod": "train-0",
        "container": "main",
        "mig": "",
        "instance": "",
        "cluster": "c1",
        "device": "nvidia0",
        "model": "NVIDIA H200",
    }


@pytest.mark.parametrize(
    "times",
    [
        {"start_time": "1752839880", "end_time": "1752840000"},
        {"start_time": "1752839880000", "end_time": "1752840000000"},
        {"start_time": "now-3m", "end_time": "now"},
        {"start_time": "2025-07-18T13:58:00+02:00", "end_time": "2025-07-18T12:00:00.0Z"},
    ],
)
def test_a_span_can_be_said_in_many_ways(client: Client, times: dict[str, str]) -> None:
    found = client.json(PATH, metric="power", resolution="raw", **times)
    assert [value for _, value in values(found)] == [102.0, 101.0, 100.0]


def test_the_default_is_the_last_hour(client: Client) -> None:
    found = client.json(PATH, metric="gpu_util")
    assert (found["count"], found["resolution"]) == (60, "10s")
    assert found["data"][0]["timestamp"] == "2025-07-18T11:01:00Z"


def test_descending_is_the_same_the_other_way_round(client: Client) -> None:
    up = client.json(PATH, **HOUR, resolution="raw")
    down = client.json(PATH, **HOUR, resolution="raw", order="desc")
    assert up["count"] == down["count"] == 122
    assert down["data"] == up["data"][::-1]


def test_a_step_has_least_greatest_mean_last_and_count(client: Client) -> None:
    found = client.json(PATH, **HOUR, metric="power", resolution="10m")
    first = found["data"][0]
    assert found["resolution"] == "10m"
    assert first["timestamp"] == "2025-07-18T11:00:00Z"
    numbers = {k: first[k] for k in ("value", "min", "max", "mean", "last", "count", "missing")}
    assert numbers == {
        "value": 155.5, "mean": 155.5, "min": 151.0, "max": 160.0, "last": 151.0, "count": 10,
        "missing": 0,
    }  # fmt: skip
    assert [row["count"] for row in found["data"]] == [10] * 6 + [1]


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("resolution", ["raw", "1m", "5m", "10s"])
def test_pages_give_every_row_once_in_order(client: Client, order: str, resolution: str) -> None:
    asked = {**HOUR, "resolution": resolution, "order": order}
    whole = client.json("/api/v1/telemetry", **asked, limit=10_000)
    pages: list[dict[str, Any]] = []
    cursor: str | None = ""
    while cursor is not None:
        page = client.json("/api/v1/telemetry", **asked, limit=97, cursor=cursor)
        pages += page["data"]
        cursor = page["next_cursor"]
    assert pages == whole["data"]
    assert whole["next_cursor"] is None


def test_a_cursor_keeps_the_span_that_now_once_meant(client: Client) -> None:
    first = client.json("/api/v1/telemetry", start_time="now-5m", limit=3)
    second = client.json(
        "/api/v1/telemetry", start_time="now-5m", limit=3, cursor=first["next_cursor"]
    )
    assert second["resolution"] == first["resolution"]
    assert not {str(row) for row in first["data"]} & {str(row) for row in second["data"]}


def test_the_cursor_of_another_question_is_refused(client: Client) -> None:
    cursor = client.json("/api/v1/telemetry", **HOUR, limit=3)["next_cursor"]
    for other in ({"metric": "power"}, {"order": "desc"}, {"host": "h1"}, {"resolution": "1m"}):
        found = client.problem("/api/v1/telemetry", **HOUR, limit=3, cursor=cursor, **other)
        assert found["errors"][0]["parameter"] == "cursor"
        assert "another question" in found["detail"]
    assert client.problem(PATH, **HOUR, cursor=cursor)["status"] == 400
    # How many rows a page has, and in which units, is no other question.
    same = client.json("/api/v1/telemetry", **HOUR, limit=2, cursor=cursor, units="dcgm")
    assert same["count"] == 2


def test_a_metric_has_many_names(client: Client) -> None:
    for name in ("gpu_util", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_RATIO"):
        found = client.json(PATH, **HOUR, metric=name, resolution="raw", limit=1)
        assert (found["data"][0]["metric"], found["data"][0]["value"]) == ("gpu_util", 0.9)
    both = client.json(PATH, **HOUR, metric="DCGM_FI_DEV_POWER_USAGE,gpu_util", resolution="raw")
    assert both["count"] == 122


def test_dcgm_units_are_the_sources_own(client: Client) -> None:
    raw = client.json(PATH, **HOUR, metric="gpu_util", units="dcgm", resolution="raw", limit=1)
    row = raw["data"][0]
    assert (row["metric"], row["value"], row["unit"]) == ("DCGM_FI_DEV_GPU_UTIL", 90.0, "percent")
    rolled = client.json(PATH, **HOUR, metric="gpu_util", units="dcgm", resolution="1h")
    row = rolled["data"][0]
    assert (row["metric"], row["unit"]) == ("DCGM_FI_DEV_GPU_UTIL", "percent")
    assert row["mean"] == pytest.approx(90.0)


def test_columns_are_for_charts(client: Client) -> None:
    found = client.json(PATH, **HOUR, layout="columns", metric="power", resolution="10m")
    assert (found["resolution"], found["truncated"]) == ("10m", False)
    (series,) = found["series"]
    assert (series["metric"], series["unit"], series["uuid"]) == ("power", "W", BUSY)
    assert series["time"][0] == 1_752_836_400_000
    assert series["value"][0] == 155.5
    assert (series["min"][0], series["max"][0]) == (151.0, 160.0)
    assert len(series["time"]) == len(series["value"]) == 7
    raw = client.json("/api/v1/telemetry", **HOUR, layout="columns", resolution="raw", host="h1")
    assert len(raw["series"]) == 4
    assert all("min" not in series for series in raw["series"])
    assert all(series["time"] == sorted(series["time"]) for series in raw["series"])


def test_columns_have_no_pages_and_no_other_form(client: Client) -> None:
    cursor = client.json("/api/v1/telemetry", **HOUR, limit=3)["next_cursor"]
    found = client.problem("/api/v1/telemetry", **HOUR, layout="columns", cursor=cursor)
    assert found["status"] == 400
    response = client.get("/api/v1/telemetry?layout=columns", {"Accept": "text/csv"})
    assert response.status_code == 406


def test_nothing_in_range_is_an_empty_list(client: Client) -> None:
    old = {"start_time": "2001-01-01T00:00:00Z", "end_time": "2001-01-02T00:00:00Z"}
    for resolution in ("raw", "10s", "1m", "1h", "auto"):
        found = client.json(PATH, **old, resolution=resolution)
        assert (found["data"], found["count"], found["next_cursor"]) == ([], 0, None)
    assert client.json(PATH, **old, layout="columns")["series"] == []
    assert client.json(PATH, **HOUR, metric="no_such_metric")["data"] == []
    assert client.problem("/api/v1/gpus/GPU-ffffffff/telemetry")["status"] == 404


def test_csv_and_arrow_say_the_same_as_json(client: Client) -> None:
    query = "?start_time=1752839880&end_time=1752840000&resolution=raw&limit=4"
    wanted = client.get(PATH + query).json()
    text = client.get(PATH + query, {"Accept": "text/csv"})
    assert text.headers["content-type"].startswith("text/csv")
    assert text.headers["nexus-next-cursor"] == wanted["next_cursor"]
    rows = list(csv.DictReader(io.StringIO(text.text)))
    assert [{**row, "value": float(row["value"])} for row in rows] == wanted["data"]
    stream = client.get(PATH + query, {"Accept": "application/vnd.apache.arrow.stream"})
    table = pa.ipc.open_stream(stream.content).read_all()
    assert table.column("value").to_pylist() == [row["value"] for row in wanted["data"]]
    assert pa.types.is_timestamp(table.schema.field("timestamp").type)


def test_the_latest_reading_of_each_series(client: Client) -> None:
    found = client.json("/api/v1/telemetry/latest", metric="gpu_util")
    by_gpu = {row["uuid"]: (row["timestamp"], row["value"]) for row in found["data"]}
    assert by_gpu[BUSY] == ("2025-07-18T12:00:00Z", 0.9)
    assert by_gpu["GPU-00000003-aaaa"] == ("2025-07-18T11:30:00Z", 0.07)
    columns = client.json("/api/v1/telemetry/latest", metric="gpu_util", layout="columns")
    assert columns["data"]["uuid"] == [row["uuid"] for row in found["data"]]
    assert columns["data"]["value"] == [row["value"] for row in found["data"]]
    assert columns["data"]["timestamp"][0] == 1_752_840_000_000
    assert (columns["count"], columns["truncated"]) == (len(found["data"]), False)


@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_series_that_ended_can_be_left_out_of_the_latest(client: Client, layout: str) -> None:
    asked = {"metric": "gpu_util", "since": "2025-07-18T11:30:00.000001Z", "layout": layout}
    found = client.json("/api/v1/telemetry/latest", **asked)["data"]
    uuids = found["uuid"] if layout == "columns" else [row["uuid"] for row in found]
    assert BUSY in uuids
    assert "GPU-00000003-aaaa" not in uuids


def test_a_summary_by_any_grouping(client: Client) -> None:
    found = client.json("/api/v1/telemetry/summary", **HOUR, metric="power", by="hostname")
    first = found["data"][0]
    assert (first["hostname"], first["metric"], first["unit"]) == ("h1", "power", "W")
    assert (first["count"], first["min"], first["max"], first["mean"]) == (122, 100, 160, 130)
    assert (first["p50"], first["p95"], first["p99"], first["exact"]) == (130, 157, 160, True)
    both = client.json("/api/v1/telemetry/summary", **HOUR, by="namespace,metric")
    assert {(row["namespace"], row["metric"]) for row in both["data"]} >= {
        ("team-a", "power"),
        ("", "gpu_util"),
    }
    dcgm = client.json(
        "/api/v1/telemetry/summary", **HOUR, metric="gpu_util", units="dcgm", host="h1"
    )
    assert (dcgm["data"][0]["metric"], dcgm["data"][0]["max"]) == ("DCGM_FI_DEV_GPU_UTIL", 90)


def test_a_summary_comes_in_pages(client: Client) -> None:
    asked = {**HOUR, "by": "uuid"}
    whole = client.json("/api/v1/telemetry/summary", **asked)["data"]
    pages: list[dict[str, Any]] = []
    cursor: str | None = ""
    while cursor is not None:
        page = client.json("/api/v1/telemetry/summary", **asked, limit=2, cursor=cursor)
        pages += page["data"]
        cursor = page["next_cursor"]
    assert pages == whole
    assert len(whole) > 4


FLEET = "/api/v1/telemetry"


def test_groups_are_lines_of_the_gpus_they_have(client: Client) -> None:
    found = client.json(FLEET, **HOUR, layout="columns", by="hostname", metric="power")
    assert (found["resolution"], found["truncated"]) == ("10s", False)
    first, *others = sorted(found["groups"], key=lambda group: str(group["hostname"]))
    assert {(g["hostname"], g["metric"], g["unit"]) for g in (first, *others)} == {
        ("h1", "power", "W"),
        ("h2", "power", "W"),
        ("h3", "power", "W"),
    }
    assert first["time"][:2] == [1752836400000, 1752836460000]
    assert (first["value"][0], first["sum"][0], first["members"][0]) == (160.0, 320.0, 2)
    assert (first["min"][-1], first["max"][-1]) == (100.0, 100.0)
    assert {len(first[name]) for name in ("time", "value", "sum", "min", "max", "members")} == {61}


def test_all_gpus_can_be_one_line_and_only_the_top_groups_many(client: Client) -> None:
    asked = {**HOUR, "layout": "columns", "resolution": "1h"}
    whole = client.json(FLEET, **asked, by="metric", metric="power,gpu_util")["groups"]
    assert [(group["metric"], group["members"]) for group in whole] == [
        ("gpu_util", [5, 4]),
        ("power", [4, 4]),
    ]
    percent = client.json(FLEET, **asked, by="metric", metric="gpu_util", units="dcgm")["groups"]
    assert percent[0]["metric"] == "DCGM_FI_DEV_GPU_UTIL"
    assert percent[0]["sum"] == [pytest.approx(value * 100) for value in whole[0]["sum"]]
    top = client.json(FLEET, **asked, by="hostname", metric="power", top=1)["groups"]
    assert [group["hostname"] for group in top] == ["h1"]


@pytest.mark.parametrize(
    ("asked", "parameter"),
    [
        ({"by": "hostname"}, "by"),
        ({"by": "hostname", "layout": "columns", "resolution": "raw"}, "resolution"),
        ({"by": "rack", "layout": "columns"}, "by"),
        ({"top": "3", "layout": "columns"}, "top"),
        ({"by": "hostname", "layout": "columns", "cursor": "x"}, "cursor"),
    ],
)
def test_what_groups_cannot_be_is_said(
    client: Client, asked: dict[str, str], parameter: str
) -> None:
    problem = client.problem(FLEET, **asked)
    assert (problem["status"], problem["errors"][0]["parameter"]) == (400, parameter)


def test_readings_can_be_those_of_gpus_in_a_state(client: Client) -> None:
    asked = {"start_time": "now-3m", "metric": "power", "resolution": "raw"}
    held = client.json(FLEET, **asked, state="idle-held")
    assert {row["uuid"] for row in held["data"]} == {"GPU-00000001-aaaa"}
    assert client.json(FLEET, **asked, state="idle-held", host="h2")["data"] == []
    both = client.json(FLEET, **asked, state=["idle-held", "free"])
    assert {row["uuid"] for row in both["data"]} == {"GPU-00000001-aaaa", "GPU-00000002-aaaa"}
