"""This machine's GPUs, live through the driver: `nvml://?interval=1s&hostname=node-7`.

NVML's calls block, so they run in one thread that does nothing else. Run as a module it is its
own check: it prints what it collects beside what NVML says for the same GPU.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeVar
from urllib.parse import parse_qsl, urlsplit

import pyarrow as pa

from nexus.errors import NexusError
from nexus.settings.units import parse_duration_ms
from nexus.streamer.sources.nvml_driver import DriverLost, Nvml, NvmlUnavailable, open_driver
from nexus.streamer.sources.nvml_sampler import Sampler
from nexus.streamer.sources.pods import PodFinder
from nexus.streamer.sources.port import Block, Position, Shard, SourceOptions

INTERVAL_S_MIN: Final = 0.1  # GPM needs as long between two samples
REOPEN_S: Final = 5.0

T = TypeVar("T")

_log = logging.getLogger(__name__)


class NvmlUrlError(NexusError):
    """Raised when an nvml:// address has an option that is none."""


@dataclass(frozen=True, slots=True)
class NvmlPlan:
    """How often to sample, and what the machine is called."""

    interval_s: float
    hostname: str
    shard: Shard


class NvmlSource:
    """A source that goes on until it is closed; a driver that is reloaded is waited for."""

    live = True

    def __init__(
        self,
        plan: NvmlPlan,
        *,
        nv: Nvml | None = None,
        pods: PodFinder | None = None,
        reopen_s: float = REOPEN_S,
    ) -> None:
        self._plan = plan
        self._nv = nv
        self._pods = pods
        self._reopen_s = reopen_s
        self._sampler: Sampler | None = None
        self._closed = asyncio.Event()

    def describe(self) -> str:
        """Such as "the GPUs of node-7 every 1 s"."""
        return f"the GPUs of {self._plan.hostname} every {self._plan.interval_s:g} s"

    def size_hint(self) -> None:
        """Samples have no end."""

    async def close(self) -> None:
        """Stop; `blocks` ends. Safe to call twice."""
        self._closed.set()

    async def blocks(self, start: Mapping[str, Position]) -> AsyncIterator[Block]:
        """A block a sample; NvmlUnavailable at once if there is no driver."""
        clock = asyncio.get_running_loop().time
        thread = ThreadPoolExecutor(1, thread_name_prefix="nvml")
        try:
            await _run(thread, self._open)
            due = clock()
            while not await self._closed_by(due - clock()):
                table = await self._sampled(thread)
                if table is not None:
                    yield Block(table)
                due = max(due + self._plan.interval_s, clock())
        finally:
            # Not waited for: a call that hangs in the driver must not hang who closes the source.
            thread.submit(self._let_go)
            thread.shutdown(wait=False)

    async def _sampled(self, thread: ThreadPoolExecutor) -> pa.Table | None:
        """The readings of this moment; none while the driver is away."""
        try:
            if self._sampler is None:
                await _run(thread, self._open)
            return await _run(thread, self._sample)
        except DriverLost as lost:
            _log.warning("the NVIDIA driver went away: %s", lost)
        except NvmlUnavailable:
            pass
        await _run(thread, self._let_go)
        await self._closed_by(self._reopen_s)
        return None

    async def _closed_by(self, within_s: float) -> bool:
        """Whether the source was closed, at the latest after this long."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._closed.wait(), max(0.0, within_s))
        return self._closed.is_set()

    # The rest runs in the thread.

    def _open(self) -> None:
        nv = open_driver(self._nv)
        owns = self._plan.shard.owns
        self._sampler = Sampler(nv, self._plan.hostname, pods=self._pods, owns=owns)
        _log.info("%d GPUs and MIG instances", len(self._sampler.devices))

    def _sample(self) -> pa.Table | None:
        return self._sampler.sample() if self._sampler is not None else None

    def _let_go(self) -> None:
        sampler, self._sampler = self._sampler, None
        if sampler is not None:
            sampler.close()


async def _run(thread: ThreadPoolExecutor, call: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(thread, call)


def open_nvml(url: str, options: SourceOptions) -> NvmlSource:
    """The source that an `nvml://` address names; a shard has its share of the GPUs, by uuid."""
    parts = urlsplit(url)
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = sorted(given.keys() - {"interval", "hostname"})
    if parts.scheme != "nvml" or parts.netloc or unknown:
        raise NvmlUrlError(f"not an address of local GPUs: {url!r}; write nvml://?interval=1s")
    interval_s = options.interval_s
    if "interval" in given:
        try:
            interval_s = parse_duration_ms(given["interval"]) / 1000
        except ValueError as error:
            raise NvmlUrlError(f"interval: {error}") from error
    if interval_s < INTERVAL_S_MIN:
        raise NvmlUrlError(f"an interval of {interval_s:g} s is under {INTERVAL_S_MIN:g} s")
    hostname = given.get("hostname") or socket.gethostname()
    return NvmlSource(NvmlPlan(interval_s, hostname, options.shard))


if __name__ == "__main__":
    from nexus.streamer.sources.nvml_check import main

    raise SystemExit(main())
