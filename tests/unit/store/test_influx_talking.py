"""Talking to InfluxDB: what is tried again, what is packed, and when an answer is whole."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import pyarrow as pa
import pytest

from nexus.lake.errors import StoreError, StoreOut
from nexus.store.influx.talking import TRIES, Influx, TooSlow
from nexus.store.influx.url import parse_influx_url

ROWS = pa.schema([pa.field("time", pa.int64()), pa.field("said", pa.string())])
POLICIES = "name,tags,name,duration,shardGroupDuration,replicaN,default\n,,autogen,0s,168h,1,true\n"
Answer = Callable[[httpx.Request], httpx.Response]


@contextmanager
def talking(answer: Answer, slept: list[float], options: str = "") -> Iterator[Influx]:
    influx = Influx(
        parse_influx_url(f"influxdb://db/nexus{options}"),
        sleep=slept.append,
        jitter=lambda: 0.5,
        transport=httpx.MockTransport(answer),
    )
    yield influx
    influx.close()


def test_a_server_that_is_overloaded_is_asked_again_after_longer_and_longer_waits() -> None:
    codes = iter([503, 429, 500, 204])
    slept: list[float] = []
    with talking(lambda _: httpx.Response(next(codes)), slept) as influx:
        influx.write("readings", b"m v=1 1\n")
    assert slept == [0.1, 0.2, 0.4]


def test_one_that_stays_away_is_out_and_one_that_refuses_is_not_asked_again() -> None:
    slept: list[float] = []

    def away(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    with talking(away, slept) as influx, pytest.raises(StoreOut, match="refused"):
        influx.write("readings", b"m v=1 1\n")
    assert len(slept) == TRIES - 1
    said = {"error": "partial write: points beyond retention policy dropped=1"}
    slept.clear()
    with (
        talking(lambda _: httpx.Response(400, json=said), slept) as influx,
        pytest.raises(StoreError, match="dropped=1"),
    ):
        influx.write("readings", b"m v=1 1\n")
    assert not slept


@pytest.mark.parametrize("options", ["", "?gzip=false"])
def test_lines_are_packed_if_that_is_wanted_and_worth_it(options: str) -> None:
    body = b"m v=1 1\n" * 1000
    sent: list[bytes] = []

    def take(request: httpx.Request) -> httpx.Response:
        is_packed = request.headers.get("content-encoding") == "gzip"
        assert is_packed == (not options)
        sent.append(gzip.decompress(request.content) if is_packed else request.content)
        assert dict(request.url.params) == {"db": "nexus", "rp": "readings", "precision": "u"}
        return httpx.Response(204)

    with talking(take, [], options) as influx:
        influx.write("readings", body)
    assert sent == [body]


@pytest.mark.parametrize(
    ("said", "rows"),
    [
        (f'name,tags,time,said\nm,,1,"a\n\nname,tags,b"\n\n{POLICIES}', ["a\n\nname,tags,b"]),
        (POLICIES, []),
    ],
)
def test_an_answer_is_whole_when_the_next_one_follows(said: str, rows: list[str]) -> None:
    with talking(lambda _: httpx.Response(200, text=said), []) as influx:
        assert influx.ask("SELECT", None, ROWS).column("said").to_pylist() == rows


def test_an_answer_that_broke_off_is_an_error_with_the_reason_if_there_is_one() -> None:
    broken = "name,tags,time,said\nm,,1,a\n"
    told: dict[str, list[dict[str, str]]] = {"results": [{"error": "query limit"}]}

    def answer(request: httpx.Request) -> httpx.Response:
        is_csv = request.headers["accept"] == "application/csv"
        return httpx.Response(200, text=broken) if is_csv else httpx.Response(200, json=told)

    with talking(answer, []) as influx:
        with pytest.raises(StoreError, match="query limit"):
            influx.ask("SELECT", None, ROWS)
        told["results"] = [{}]
        with pytest.raises(TooSlow, match="broke off"):
            influx.ask("SELECT", None, ROWS)
