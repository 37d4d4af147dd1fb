"""Every check in the order in which people need the answers."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from nexus.lake.url import parse_store_url
from nexus.queue.opening import open_reader
from nexus.settings.up import UpSettings
from nexus.up.asking import Answer, ask
from nexus.up.doctor.clock_checks import check_clock, date_of, is_synchronised, last_written
from nexus.up.doctor.etcd_checks import (
    check_etcd,
    check_etcd_program,
    look_at_etcd,
    version_of,
)
from nexus.up.doctor.findings import Finding
from nexus.up.doctor.machine_checks import (
    available_memory,
    check_disk,
    check_files,
    check_java,
    check_memory,
    check_python,
)
from nexus.up.doctor.place_checks import check_dashboard, check_data_dir, check_format
from nexus.up.doctor.reach_checks import check_part, check_port, check_queue
from nexus.up.etcd_server import find_etcd
from nexus.up.lock import holder_of
from nexus.up.plan import BROKER_HTTP, COLLECTOR, ETCD, GATEWAY, addresses_of

_QUEUE_S: Final = 5.0
_SPARE_FILES: Final = 1024
# Where each part says how it is.
_PAGES: Final = {
    BROKER_HTTP: "/health",
    ETCD: "/health",
    COLLECTOR: "/health",
    GATEWAY: "/ready",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """Where parts should be that run elsewhere; None asks nobody."""

    queue: str | None = None
    collector_url: str | None = None
    gateway_url: str | None = None


def examine(settings: UpSettings, asked: Asked, java: Callable[[], str]) -> list[Finding]:
    """All findings. `java` says which Java there is, or raises what to install."""
    holder = holder_of(settings.up.data_dir)
    dates: dict[str, float] = {}
    reached = list(_reach(_with_queue(asked, settings), holder, dates))
    return [
        *_machine(settings, java),
        check_clock(time.time(), is_synchronised(), _last_written(settings), dates),
        check_data_dir(settings.up.data_dir, holder),
        *([check_format(settings.broker_dir)] if settings.own_broker else ()),
        check_dashboard(),
        *(_ports(settings) if holder is None else ()),
        *reached,
    ]


def _with_queue(asked: Asked, settings: UpSettings) -> Asked:
    """A queue elsewhere that `nexus up` would use should answer too."""
    named = settings.up.queue if "://" in settings.up.queue else None
    return replace(asked, queue=asked.queue or named)


def _machine(settings: UpSettings, java: Callable[[], str]) -> Iterator[Finding]:
    yield check_python(sys.version_info[:3], sys.platform)
    if settings.up.collector:
        yield check_java(java)
    if settings.own_etcd:
        yield check_etcd_program(lambda: find_etcd(settings.up.etcd_bin), version_of)
    yield check_disk(settings.up.data_dir)
    yield check_memory(available_memory())
    wanted = settings.broker.performance.max_connections + _SPARE_FILES
    yield check_files(resource.getrlimit(resource.RLIMIT_NOFILE), wanted)


def _last_written(settings: UpSettings) -> float | None:
    store = settings.stores()[0]
    if not store.startswith("delta:"):
        return None
    return last_written(Path(parse_store_url(store).uri))


def _ports(settings: UpSettings) -> Iterator[Finding]:
    for address in addresses_of(settings).values():
        if address.port:
            yield check_port(address)


def _reach(
    asked: Asked, holder: dict[str, Any] | None, dates: dict[str, float]
) -> Iterator[Finding]:
    """Parts that should answer: those that were named, and those of the one that is up here."""

    def look(url: str) -> Answer:
        answer = ask(url)
        date = date_of(answer.headers)
        if date is not None:
            dates[url] = date
        return answer

    if asked.queue is not None and asked.queue.startswith("etcd://"):
        yield check_etcd(asked.queue, look_at_etcd)
    elif asked.queue is not None:
        reader = open_reader(asked.queue, timeout_s=_QUEUE_S)
        yield check_queue(asked.queue, reader.partitions)
        reader.close()
    told = {COLLECTOR: asked.collector_url, GATEWAY: asked.gateway_url}
    for name, page in _PAGES.items():
        url = told.get(name) or (holder or {}).get(name)
        if url:
            yield check_part(name.removesuffix("-http"), f"{url.rstrip('/')}{page}", look)
