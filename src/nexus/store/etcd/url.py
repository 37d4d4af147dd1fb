"""A store's address in etcd: `etcd://host:port[/prefix]?retention=1h`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from nexus.etcd.address import EtcdAddress, parse_etcd_address
from nexus.etcd.errors import EtcdError
from nexus.lake.errors import StoreError
from nexus.settings.units import parse_duration_ms
from nexus.store.etcd.layout import DEFAULT_PREFIX, StoreLayout

# etcd holds a few gigabytes, and a reading takes about one kilobyte of them.
DEFAULT_RETENTION_MS: Final = 3_600_000
_RETENTION_LEAST_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class EtcdStoreUrl:
    """A store in etcd: where, under which prefix, and how long readings are kept."""

    address: EtcdAddress  # without path and options
    prefix: str = DEFAULT_PREFIX
    retention_ms: int = DEFAULT_RETENTION_MS

    @property
    def layout(self) -> StoreLayout:
        return StoreLayout(self.prefix)

    @property
    def name(self) -> str:
        """What makes a store this one: not how long it keeps readings, nor as whom we come."""
        return f"etcd://{','.join(sorted(self.address.endpoints))}{self.prefix}"

    def shares_etcd_with(self, other: EtcdAddress) -> bool:
        """Whether one transaction can reach both: they name the same members, by the same user."""
        same = set(self.address.endpoints) == set(other.endpoints)
        return same and (self.address.user, self.address.access) == (other.user, other.access)

    def __str__(self) -> str:
        kept = self.retention_ms != DEFAULT_RETENTION_MS
        options = (("retention", f"{self.retention_ms}ms"),) if kept else ()
        return str(replace(self.address, path=self.prefix, options=options))


def parse_etcd_store_url(text: str) -> EtcdStoreUrl:
    """The store that an address names; StoreError says what would be right."""
    try:
        address = parse_etcd_address(text)
    except EtcdError as error:
        raise StoreError(f"store {error}") from None
    said = dict(address.options)
    kept = said.pop("retention", None)
    if said:
        raise StoreError(f"store {text}: unknown option {min(said)}; known is retention")
    place = replace(address, path="", options=())
    return EtcdStoreUrl(
        place,
        address.path or DEFAULT_PREFIX,
        DEFAULT_RETENTION_MS if kept is None else _retention_ms(kept, text),
    )


def _retention_ms(word: str, text: str) -> int:
    try:
        found = parse_duration_ms(word)
    except ValueError:
        found = 0
    if found < _RETENTION_LEAST_MS:
        raise StoreError(
            f'store {text}: option retention: found "{word}", expected a time of a minute or'
            " more, such as 1h"
        )
    return found
