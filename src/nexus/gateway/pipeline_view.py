"""How the collector is doing: its side port is looked at every few seconds, and a while is kept.

A collector that does not answer is an answer too.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import httpx
from prometheus_client.parser import text_string_to_metric_families

from nexus.errors import NexusError

_PAGE_MAX: Final = 4 << 20
_PREFIX: Final = "nexus_collector_"
_COUNTS: Final = ("readings", "batches", "quarantined", "duplicates", "late")


class _NoAnswer(NexusError):
    """Raised when the collector's side port gives no page that can be read."""


class PipelineView:
    """`async start`, `async stop` (safe to call twice); `snapshot` never waits."""

    def __init__(
        self,
        collector_url: str,
        *,
        interval_s: float = 5.0,
        timeout_s: float = 3.0,
        samples_max: int = 120,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """Asks nothing yet."""
        self.url = collector_url.rstrip("/")
        self._interval_s, self._timeout_s, self._now_ms = interval_s, timeout_s, now_ms
        self._history: deque[dict[str, Any]] = deque(maxlen=samples_max)
        self._collector = self._silent("nobody has asked it yet")
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to look, in the running event loop."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="pipeline-view")

    async def stop(self) -> None:
        """Look no more."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def snapshot(self) -> dict[str, Any]:
        """{"collector": {...}, "history": [{"time" (ms), "readings_per_s", "lag", "batch_ms"}]}.

        `collector` is {"reachable": true, "url", "time", "state", "ready", "problem", "phase",
        "readings_per_s", "batch_ms", "lag", "lag_by_partition", "seconds_since_commit",
        "last_commit" (ms), "readings", "batches", "quarantined", "duplicates", "late", "failures",
        "phases" ({name: seconds}), "derive" ({...} | null), "jobs" ({...}), "stores" ([...])}, or
        {"reachable": false, "url", "time", "detail"}. Of a time at which it did not answer, the
        history says null.
        """
        return {"collector": dict(self._collector), "history": list(self._history)}

    async def _run(self) -> None:
        async with httpx.AsyncClient(timeout=None, trust_env=False) as client:
            while True:
                begun = time.monotonic()
                self._collector = await self._look(client)
                self._history.append(_sample(self._collector))
                await asyncio.sleep(max(0.0, begun + self._interval_s - time.monotonic()))

    async def _look(self, client: httpx.AsyncClient) -> dict[str, Any]:
        try:
            async with asyncio.timeout(self._timeout_s):
                health = await _page(client, f"{self.url}/health")
                metrics = await _page(client, f"{self.url}/metrics")
                status = await _page(client, f"{self.url}/api/v1/status")
            return self._told(_object(health), _metrics(metrics), _object(status))
        except TimeoutError:
            return self._silent(f"no answer within {self._timeout_s:g} s")
        except _NoAnswer as error:
            return self._silent(str(error))

    def _told(
        self, health: dict[str, Any], metrics: Metrics, status: dict[str, Any]
    ) -> dict[str, Any]:
        now_ms = self._now_ms()
        since, batch_s = _number(health, "seconds_since_commit"), _number(status, "batch_seconds")
        jobs = status.get("jobs")
        jobs = jobs if isinstance(jobs, dict) else {}
        return {
            "reachable": True,
            "url": self.url,
            "time": now_ms,
            "state": health.get("status"),
            "ready": bool(health.get("ready")),
            "problem": health.get("problem") or "",
            "phase": status.get("phase"),
            "readings_per_s": _number(status, "rate"),
            "batch_ms": None if batch_s is None else round(batch_s * 1000),
            "lag": _number(health, "lag_messages"),
            "lag_by_partition": _whole(metrics.by_label("lag_messages", "partition")),
            "seconds_since_commit": since,
            "last_commit": None if since is None else now_ms - round(since * 1000),
            **{name: _number(status, name) for name in _COUNTS},
            "failures": round(metrics.total("batch_failures_total")),
            "phases": metrics.by_label("phase_seconds_total", "phase"),
            "derive": jobs.get("derive"),
            "jobs": jobs,
            "stores": status.get("stores") or [],
        }

    def _silent(self, detail: str) -> dict[str, Any]:
        return {"reachable": False, "url": self.url, "time": self._now_ms(), "detail": detail}


class Metrics:
    """The samples of a page, by name."""

    def __init__(self, samples: Mapping[str, list[tuple[dict[str, str], float]]]) -> None:
        self._samples = samples

    def by_label(self, name: str, label: str) -> dict[str, float]:
        rows = self._samples.get(_PREFIX + name, [])
        return {labels.get(label, ""): value for labels, value in rows}

    def total(self, name: str) -> float:
        return sum(value for _, value in self._samples.get(_PREFIX + name, []))


async def _page(client: httpx.AsyncClient, url: str) -> str:
    """A page's text; a collector that is not well says so with 503 and a page."""
    body = bytearray()
    try:
        async with client.stream("GET", url) as response:
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > _PAGE_MAX:
                    raise _NoAnswer(f"{url}: the page is larger than {_PAGE_MAX} bytes")
            if response.status_code not in (httpx.codes.OK, httpx.codes.SERVICE_UNAVAILABLE):
                raise _NoAnswer(f"{url}: HTTP {response.status_code}")
    except httpx.ConnectError as error:
        raise _NoAnswer(f"{url}: nobody listens there; is the collector running?") from error
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise _NoAnswer(f"{url}: {error or type(error).__name__}") from error
    return body.decode(errors="replace")


def _object(text: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except ValueError as error:
        raise _NoAnswer(f"the answer is no JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise _NoAnswer("the answer is no JSON object")
    return parsed


def _number(values: Mapping[str, Any], name: str) -> float | None:
    """A number of an answer; anything else is none."""
    found = values.get(name)
    return found if isinstance(found, int | float) and math.isfinite(found) else None


def _metrics(text: str) -> Metrics:
    samples: dict[str, list[tuple[dict[str, str], float]]] = {}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                samples.setdefault(sample.name, []).append((dict(sample.labels), sample.value))
    except (ValueError, KeyError, IndexError) as error:
        raise _NoAnswer(f"the metrics cannot be read: {error}") from error
    return Metrics(samples)


def _sample(collector: Mapping[str, Any]) -> dict[str, Any]:
    names = ("time", "readings_per_s", "lag", "batch_ms")
    return {name: collector.get(name) for name in names}


def _whole(numbers: Mapping[str, float]) -> dict[str, int]:
    return {name: round(number) for name, number in numbers.items()}
