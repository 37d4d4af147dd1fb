"""Scrapes dcgm-exporter endpoints on an interval: `exporter://host:9400,host:9400/path`.

Each endpoint has one task, hence at most one scrape in flight, and its own pace: an endpoint that
hangs loses its own ticks and delays nobody. Every scrape gives an `up` reading (1 or 0) for its
endpoint beside the readings of its GPUs.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import httpx
import pyarrow as pa

from nexus.streamer.sources.exporter_fetch import Allowance, Page, ScrapeFailed, fetch, new_client
from nexus.streamer.sources.exporter_page import PageReadings, readings_of
from nexus.streamer.sources.exporter_target import ScrapePlan, Target, parse_exporter_url
from nexus.streamer.sources.exporter_text import Exposition, parse
from nexus.streamer.sources.port import Block, Position, Rejected, SourceOptions
from nexus.telemetry.labels import canonical_labels
from nexus.telemetry.reading import TIMESTAMP, source_table
from nexus.telemetry.units import COUNT

UP: Final = "up"
SCRAPES_MAX: Final = 256  # at once; endpoints that failed last time share a quarter of it
FAILED_SHARE: Final = 4
START_GAP_S: Final = 0.02  # between two endpoints' first scrapes, as long as an interval has room
GATHER_S: Final = 0.1  # how long a block waits for more scrapes: fewer, fuller messages
WAITING_MAX: Final = 256  # scrapes that nobody has taken yet


@dataclass(slots=True)
class _Endpoint:
    """One target and what is remembered of it between scrapes."""

    target: Target
    hostname: str = ""  # as its own labels say it
    failing: bool = False
    bad_lines: frozenset[str] = frozenset()  # of the last page


@dataclass(frozen=True, slots=True)
class _Scrape:
    """What came of one scrape."""

    table: pa.Table
    rejected: list[Rejected] = field(default_factory=list)


class ExporterSource:
    """A source that goes on until it is closed."""

    live = True

    def __init__(self, plan: ScrapePlan, block_rows: int = 65_536) -> None:
        self._plan = plan
        self._block_rows = block_rows
        self._endpoints = [_Endpoint(target) for target in plan.targets]
        self._allowance = Allowance()
        self._healthy = asyncio.Semaphore(SCRAPES_MAX)
        self._doubtful = asyncio.Semaphore(SCRAPES_MAX // FAILED_SHARE)
        self._closed = asyncio.Event()
        self.counts: Counter[str] = Counter()

    def describe(self) -> str:
        """Such as "12 exporters every 15 s"."""
        count = len(self._endpoints)
        plural = "exporter" if count == 1 else "exporters"
        return f"{count} {plural} every {self._plan.interval_s:g} s"

    def size_hint(self) -> None:
        """Scrapes have no end."""

    async def close(self) -> None:
        """Stop; `blocks` ends. Safe to call twice."""
        self._closed.set()

    async def blocks(self, start: Mapping[str, Position]) -> AsyncIterator[Block]:
        """Blocks of the scrapes as they come; there is no place to go back to."""
        scrapes: asyncio.Queue[_Scrape] = asyncio.Queue(WAITING_MAX)
        async with new_client(len(self._endpoints)) as client:
            scraping = asyncio.create_task(self._scrape_all(client, scrapes), name="scraping")
            ending = asyncio.create_task(self._closed.wait(), name="closing")
            try:
                while gathered := await self._gather(scrapes, {scraping, ending}):
                    yield _block(gathered)
            finally:
                await _stopped(scraping, ending)

    async def _gather(
        self, scrapes: asyncio.Queue[_Scrape], ending: set[asyncio.Task[bool | None]]
    ) -> list[_Scrape]:
        """The next scrapes, a moment's worth of them; none when it is over."""
        getting = asyncio.create_task(scrapes.get())
        try:
            done, _ = await asyncio.wait({getting, *ending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not getting.done():
                getting.cancel()
        if getting not in done:
            for task in done:
                task.result()  # a defect in a scrape ends the source, and says so
            return []
        gathered = [getting.result()]
        rows = gathered[0].table.num_rows
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(GATHER_S, self._plan.interval_s / 2)):
                while rows < self._block_rows:
                    gathered.append(await scrapes.get())
                    rows += gathered[-1].table.num_rows
        return gathered

    async def _scrape_all(self, client: httpx.AsyncClient, scrapes: asyncio.Queue[_Scrape]) -> None:
        gap_s = min(START_GAP_S, self._plan.interval_s / max(1, len(self._endpoints)))
        async with asyncio.TaskGroup() as tasks:
            for number, endpoint in enumerate(self._endpoints):
                tasks.create_task(self._keep_scraping(client, endpoint, number * gap_s, scrapes))

    async def _keep_scraping(
        self,
        client: httpx.AsyncClient,
        endpoint: _Endpoint,
        first_s: float,
        scrapes: asyncio.Queue[_Scrape],
    ) -> None:
        clock = asyncio.get_running_loop().time
        due = clock() + first_s
        while True:
            await asyncio.sleep(max(0.0, due - clock()))
            await scrapes.put(await self._scrape(client, endpoint))
            due += self._plan.interval_s
            missed = _missed(due, clock(), self._plan.interval_s)
            self.counts["ticks missed"] += missed
            due += missed * self._plan.interval_s

    async def _scrape(self, client: httpx.AsyncClient, endpoint: _Endpoint) -> _Scrape:
        async with self._doubtful if endpoint.failing else self._healthy:
            scraped_us = time.time_ns() // 1000
            try:
                page = await fetch(
                    client,
                    endpoint.target,
                    timeout_s=self._plan.timeout_s,
                    body_max=self._plan.body_max,
                    allowance=self._allowance,
                )
                text, readings = await asyncio.to_thread(_read, page, endpoint, scraped_us)
            except ScrapeFailed as failure:
                endpoint.failing = True
                self.counts[f"failed: {failure}"] += 1
                return _Scrape(_up(endpoint, scraped_us, str(failure)))
        endpoint.failing = False
        endpoint.hostname = readings.hostname or endpoint.hostname
        self.counts.update({"scrapes": 1, "bad lines": text.bad_count, **readings.left_out})
        up = _up(endpoint, scraped_us)
        return _Scrape(pa.concat_tables([up, readings.table]), _rejected(endpoint, text))


def open_exporter(url: str, options: SourceOptions) -> ExporterSource:
    """The source that an `exporter://` address names; ExporterUrlError if it names none."""
    return ExporterSource(parse_exporter_url(url, options), options.block_rows)


def _read(page: Page, endpoint: _Endpoint, scraped_us: int) -> tuple[Exposition, PageReadings]:
    text = parse(page.body, openmetrics=page.openmetrics)
    if text.bad_count and not len(text) and not text.families:
        raise ScrapeFailed("not a metrics page")
    return text, readings_of(text, host=endpoint.target.host, scraped_us=scraped_us)


def _up(endpoint: _Endpoint, scraped_us: int, error: str = "") -> pa.Table:
    """Whether the endpoint answered.

    It is no GPU's reading: the uuid is empty, and the label `instance`, which the catalogue has
    as distinguishing for `up`, tells one endpoint's from another's.
    """
    labels = {"instance": endpoint.target.instance} | ({"error": error} if error else {})
    return source_table(
        {
            "timestamp": pa.array([scraped_us], pa.timestamp("us")).cast(TIMESTAMP),
            "source_metric": UP,
            "unit": COUNT,
            "source_value": pa.array([0.0 if error else 1.0]),
            "hostname": endpoint.hostname or endpoint.target.host,
            "labels": canonical_labels(labels),
        }
    ).drop_columns(["ingested"])


def _rejected(endpoint: _Endpoint, text: Exposition) -> list[Rejected]:
    """The bad lines that were not on the page before: the same one every interval is no news."""
    fresh = [bad for bad in text.bad if bad.text not in endpoint.bad_lines]
    endpoint.bad_lines = frozenset(bad.text for bad in text.bad)
    page = endpoint.target.page
    return [Rejected(bad.reason, f"{page}:{bad.number}", bad.text.encode()) for bad in fresh]


def _block(scrapes: list[_Scrape]) -> Block:
    table = pa.concat_tables([scrape.table for scrape in scrapes])
    return Block(table, rejected=[bad for scrape in scrapes for bad in scrape.rejected])


def _missed(due: float, now: float, interval_s: float) -> int:
    """How many whole intervals went by while a scrape took its time."""
    return max(0, math.ceil((now - due) / interval_s))


async def _stopped(*tasks: asyncio.Task[None] | asyncio.Task[bool]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
