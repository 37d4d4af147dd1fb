"""Opens the store that an address names."""

from __future__ import annotations

import time
from collections.abc import Callable

from nexus.lake.url import parse_store_url
from nexus.store.port import Store
from nexus.store.states import UNKNOWN_AFTER_S


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
    if url.strip().startswith("etcd:"):
        from nexus.store.etcd.store import EtcdStore  # noqa: PLC0415  (gRPC takes its time)
        from nexus.store.etcd.url import parse_etcd_store_url  # noqa: PLC0415

        place = parse_etcd_store_url(url)
        return EtcdStore(place, unknown_after_s=unknown_after_s, clock=clock)
    from nexus.store.delta.store import DeltaStore  # noqa: PLC0415  (DuckDB takes its time)

    return DeltaStore(parse_store_url(url), unknown_after_s=unknown_after_s, clock=clock)
