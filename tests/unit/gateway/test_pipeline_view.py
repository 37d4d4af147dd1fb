"""How the collector is doing, as its real side port tells; and when it tells nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from nexus.gateway.pipeline_view import PipelineView
from nexus.observe.http import JSON, TEXT, Response, Route, SidePort
from nexus.observe.pages import json_page, metrics_page
from nexus.pipeline.collector.metrics import CollectorRegistry
from nexus.pipeline.collector.progress import Phase, Progress
from nexus.pipeline.collector.report import health_of, status_of
from nexus.pipeline.sink.port import Stored
from nexus.queue.port import Bounds
from support.ports import free_port

STORE = "delta:/tables"


def told(story: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await story()

    asyncio.run(bounded())


def pages_of(progress: Progress) -> dict[str, Route]:
    """The pages of a collector's side port, without its Spark."""
    look = progress.view
    return {
        "/health": json_page(lambda: health_of(look(), 60.0)),
        "/metrics": metrics_page(CollectorRegistry(look)),
        "/api/v1/status": json_page(lambda: (True, status_of(look()))),
    }


@asynccontextmanager
async def listening(routes: dict[str, Route], port: int = 0) -> AsyncIterator[str]:
    side = SidePort("127.0.0.1", port, routes)
    await side.start()
    try:
        yield f"http://127.0.0.1:{side.port}"
    finally:
        await side.stop()


@asynccontextmanager
async def looking(url: str, **options: Any) -> AsyncIterator[PipelineView]:
    view = PipelineView(url, **{"interval_s": 0.05, "timeout_s": 2.0, **options})
    await view.start()
    try:
        yield view
    finally:
        await view.stop()
        await view.stop()


async def until(
    view: PipelineView, wanted: Callable[[dict[str, Any]], object], within: float = 10.0
) -> dict[str, Any]:
    deadline = time.monotonic() + within
    while not wanted(view.snapshot()):
        assert time.monotonic() < deadline, view.snapshot()
        await asyncio.sleep(0.01)
    return view.snapshot()


def busy() -> Progress:
    """A collector that has stored two batches, with more to do."""
    progress = Progress((STORE,), time.monotonic)
    progress.enter(Phase.RUNNING)
    progress.queue({0: Bounds(0, 100), 1: Bounds(0, 50)})
    for number in range(2):
        progress.stored(STORE, number, Stored(readings=500, quarantined=3), 0.25)
    progress.reached(STORE, 1, {0: 90, 1: 50}, {"addBatch": 0.2})
    progress.chore("derive", 0.1, "", {"readings_version": 7, "versions": {"latest": 7}})
    return progress


def test_a_collector_at_work_is_seen_with_its_rates_lag_and_phases() -> None:
    async def story() -> None:
        progress = busy()
        async with listening(pages_of(progress)) as url, looking(url + "/") as view:
            said = await until(view, lambda s: s["collector"]["reachable"])
            collector = said["collector"]
            assert (collector["state"], collector["phase"], collector["ready"]) == (
                "running",
                "running",
                True,
            )
            assert (collector["url"], collector["problem"]) == (url, "")
            assert collector["readings_per_s"] > 0
            assert (collector["batch_ms"], collector["batches"]) == (250, 2)
            assert (collector["readings"], collector["quarantined"]) == (1000, 6)
            assert (collector["lag"], collector["lag_by_partition"]) == (10, {"0": 10, "1": 0})
            assert collector["phases"] == {"addBatch": 0.2}
            assert collector["derive"]["versions"] == {"latest": 7}
            assert (collector["stores"][0]["store"], collector["failures"]) == (STORE, 0)
            age_s = (time.time() * 1000 - collector["last_commit"]) / 1000
            assert abs(age_s - collector["seconds_since_commit"]) < 10
            first = said["history"][0]
            assert (first["lag"], first["batch_ms"]) == (10, 250)
            assert first["readings_per_s"] > 0

    told(story)


def test_a_collector_that_is_not_well_says_so_and_is_still_seen() -> None:
    async def story() -> None:
        progress = busy()
        progress.failing(STORE, "the disk is full")
        async with listening(pages_of(progress)) as url, looking(url) as view:
            said = await until(view, lambda s: s["collector"]["reachable"])
            collector = said["collector"]
            assert (collector["state"], collector["ready"]) == ("failing", False)
            assert (collector["problem"], collector["failures"]) == ("the disk is full", 1)

    told(story)


def test_a_collector_that_has_stored_nothing_yet_has_no_numbers() -> None:
    async def story() -> None:
        starting = Progress((STORE,), time.monotonic)
        async with listening(pages_of(starting)) as url, looking(url) as view:
            said = await until(view, lambda s: s["collector"]["reachable"])
            collector = said["collector"]
            assert collector["state"] == "starting"
            for name in ("batch_ms", "lag", "last_commit", "derive", "seconds_since_commit"):
                assert collector[name] is None

    told(story)


def test_a_collector_that_is_not_there_is_an_answer_and_is_seen_when_it_comes() -> None:
    async def story() -> None:
        port = free_port()
        async with looking(f"http://127.0.0.1:{port}") as view:
            before = view.snapshot()
            assert before == {"collector": before["collector"], "history": []}
            said = await until(view, lambda s: s["history"])
            assert said["collector"]["reachable"] is False
            assert "is the collector running?" in said["collector"]["detail"]
            assert said["history"][0]["readings_per_s"] is None
            async with listening(pages_of(busy()), port):
                await until(view, lambda s: s["collector"]["reachable"])
            await until(view, lambda s: not s["collector"]["reachable"])

    told(story)


def page(body: bytes, kind: str = JSON) -> Route:
    return lambda: Response(200, kind, body)


async def _silence() -> Response:
    await asyncio.Event().wait()
    raise AssertionError


@pytest.mark.parametrize(
    ("changed", "detail"),
    [
        ({"/health": page(b"<html>")}, "no JSON"),
        ({"/health": page(b"[]")}, "no JSON object"),
        ({"/metrics": page(b"}{ 1 2 3\n", TEXT)}, "cannot be read"),
        ({"/metrics": page(b"x" * (5 << 20), TEXT)}, "larger than"),
        ({"/api/v1/status": lambda: Response(404, TEXT, b"")}, "HTTP 404"),
        ({"/health": _silence}, "no answer within"),
    ],
)
def test_whatever_answers_in_its_place_does_no_harm(changed: dict[str, Route], detail: str) -> None:
    async def story() -> None:
        routes = {**pages_of(busy()), **changed}
        async with listening(routes) as url, looking(url, timeout_s=0.5) as view:
            said = await until(view, lambda s: len(s["history"]) >= 2)
            assert said["collector"]["reachable"] is False
            assert detail in said["collector"]["detail"]

    told(story)


def test_numbers_that_are_none_are_left_out() -> None:
    async def story() -> None:
        odd = b'{"rate": "fast", "batch_seconds": [1], "jobs": 3, "readings": NaN}'
        routes = {**pages_of(busy()), "/api/v1/status": page(odd)}
        async with listening(routes) as url, looking(url) as view:
            said = await until(view, lambda s: s["collector"]["reachable"])
            for name in ("readings_per_s", "batch_ms", "readings", "derive"):
                assert said["collector"][name] is None

    told(story)


def test_the_history_is_bounded() -> None:
    async def story() -> None:
        async with (
            listening(pages_of(busy())) as url,
            looking(url, interval_s=0.01, samples_max=3) as view,
        ):
            await until(view, lambda s: len(s["history"]) == 3)
            last = view.snapshot()["history"][-1]["time"]
            said = await until(view, lambda s: s["history"][0]["time"] > last)
            assert len(said["history"]) == 3

    told(story)
