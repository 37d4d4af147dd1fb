"""Opens the store that an address names, to be copied from or to: each kind by its scheme."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from nexus.lake.url import parse_store_url
from nexus.pipeline.moving.port import Place
from nexus.store.opening import scheme_of


@contextmanager
def opened(url: str) -> Iterator[Place]:
    """A store for as long as the block lasts; StoreError says what is wrong with its address."""
    place = KINDS.get(scheme_of(url), _delta)(url)
    try:
        yield place
    finally:
        place.close()


def _delta(url: str) -> Place:
    from nexus.pipeline.moving.delta import DeltaPlace  # noqa: PLC0415

    return DeltaPlace(parse_store_url(url))


def _etcd(url: str) -> Place:
    from nexus.pipeline.moving.etcd import EtcdPlace  # noqa: PLC0415  (gRPC takes its time)
    from nexus.store.etcd.url import parse_etcd_store_url  # noqa: PLC0415

    return EtcdPlace(parse_etcd_store_url(url))


def _postgres(url: str) -> Place:
    from nexus.pipeline.moving.postgres import PostgresPlace  # noqa: PLC0415
    from nexus.store.postgres.url import parse_postgres_url  # noqa: PLC0415

    return PostgresPlace(parse_postgres_url(url))


def _influx(url: str) -> Place:
    from nexus.pipeline.moving.influx import InfluxPlace  # noqa: PLC0415
    from nexus.store.influx.url import parse_influx_url  # noqa: PLC0415

    return InfluxPlace(parse_influx_url(url))


# What is in no other place here is a store of tables in files, or no store at all.
KINDS: Final[Mapping[str, Callable[[str], Place]]] = {
    "etcd": _etcd,
    "influxdb": _influx,
    "postgresql": _postgres,
    "postgres": _postgres,
}
