"""Makes the tables of a store and brings them forward, where a kind of store needs that done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from nexus.lake.errors import StoreError
from nexus.store.opening import scheme_of


@dataclass(frozen=True, slots=True)
class Made:
    """What was there, and what is there now; 0 is nothing."""

    store: str
    before: int
    version: int


def make_store(url: str) -> Made:
    """Make the tables of an empty store; those that are there are brought forward."""
    return _maker(url)(url, True)


def migrate_store(url: str) -> Made:
    """Bring the tables of a store forward; StoreError where there are none."""
    return _maker(url)(url, False)


def _maker(url: str) -> Callable[[str, bool], Made]:
    scheme = scheme_of(url)
    if scheme not in MAKERS:
        raise StoreError(
            f"store {url}: a store in {scheme} makes its tables by itself: there is nothing to do"
        )
    return MAKERS[scheme]


def _postgres(url: str, may_be_empty: bool) -> Made:
    from nexus.store.postgres.connecting import as_store_errors, connect  # noqa: PLC0415
    from nexus.store.postgres.schema import VERSION, make, version_of  # noqa: PLC0415
    from nexus.store.postgres.url import parse_postgres_url  # noqa: PLC0415

    place = parse_postgres_url(url)
    with as_store_errors(place), connect(place, "store") as connection:
        if not may_be_empty and not version_of(connection):
            raise StoreError(f"store {place}: there are no tables: run nexus store init first")
        return Made(str(place), make(place, connection), VERSION)


def _influx(url: str, may_be_empty: bool) -> Made:
    from nexus.store.influx.schema import VERSION, make, version_of  # noqa: PLC0415
    from nexus.store.influx.talking import Influx  # noqa: PLC0415
    from nexus.store.influx.url import parse_influx_url  # noqa: PLC0415

    influx = Influx(parse_influx_url(url))
    try:
        if not may_be_empty and not version_of(influx)[0]:
            raise StoreError(f"store {influx.place}: there is no store: run nexus store init first")
        return Made(str(influx.place), make(influx), VERSION)
    finally:
        influx.close()


MAKERS: Final[Mapping[str, Callable[[str, bool], Made]]] = {
    "influxdb": _influx,
    "postgresql": _postgres,
    "postgres": _postgres,
}
