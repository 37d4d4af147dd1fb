"""Opens the store that an address names: each kind of store by the scheme of its address."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from nexus.lake.url import parse_store_url
from nexus.store.port import Store
from nexus.store.states import UNKNOWN_AFTER_S


class Open(Protocol):
    """Opens stores of one kind."""

    def __call__(
        self, url: str, *, unknown_after_s: float, clock: Callable[[], float]
    ) -> Store: ...


def open_store(
    url: str,
    *,
    unknown_after_s: float = UNKNOWN_AFTER_S,
    clock: Callable[[], float] = time.time,
) -> Store:
    """A store to ask, also before anything was written to it.

    A wrong address is a StoreError of the lake; a store that does not answer is StoreAway, when
    it is asked. A GPU that was silent for `unknown_after_s` is in an unknown state.
    """
    opened = KINDS.get(scheme_of(url), _delta)
    return opened(url, unknown_after_s=unknown_after_s, clock=clock)


def scheme_of(url: str) -> str:
    """The kind of store that an address is of, in its own words."""
    return url.strip().partition(":")[0]


def _delta(url: str, *, unknown_after_s: float, clock: Callable[[], float]) -> Store:
    from nexus.store.delta.store import DeltaStore  # noqa: PLC0415  (DuckDB takes its time)

    return DeltaStore(parse_store_url(url), unknown_after_s=unknown_after_s, clock=clock)


def _etcd(url: str, *, unknown_after_s: float, clock: Callable[[], float]) -> Store:
    from nexus.store.etcd.store import EtcdStore  # noqa: PLC0415  (gRPC takes its time)
    from nexus.store.etcd.url import parse_etcd_store_url  # noqa: PLC0415

    return EtcdStore(parse_etcd_store_url(url), unknown_after_s=unknown_after_s, clock=clock)


def _postgres(url: str, *, unknown_after_s: float, clock: Callable[[], float]) -> Store:
    from nexus.store.postgres.store import PostgresStore  # noqa: PLC0415
    from nexus.store.postgres.url import parse_postgres_url  # noqa: PLC0415

    return PostgresStore(parse_postgres_url(url), unknown_after_s=unknown_after_s, clock=clock)


def _influx(url: str, *, unknown_after_s: float, clock: Callable[[], float]) -> Store:
    from nexus.store.influx.store import InfluxStore  # noqa: PLC0415
    from nexus.store.influx.url import parse_influx_url  # noqa: PLC0415

    return InfluxStore(parse_influx_url(url), unknown_after_s=unknown_after_s, clock=clock)


# What is in no other place here is a store of tables in files, or no store at all.
KINDS: Final[Mapping[str, Open]] = {
    "etcd": _etcd,
    "influxdb": _influx,
    "postgresql": _postgres,
    "postgres": _postgres,
}
