"""Kinds of values of `nexus up` alone: a queue and stores, by name or by address."""

import re
from dataclasses import dataclass
from typing import Final

OWN_BROKER: Final = "kafka"
OWN_ETCD: Final = "etcd"
OWN_TABLES: Final = "delta"
_QUEUE: Final = "kafka (a broker of its own), etcd (an etcd of its own), or etcd://host:port"
_STORES: Final = "delta (tables in the data directory), etcd, or a store's address, each once"
_ADDRESS: Final = re.compile(r"[a-z][a-z0-9+]*:.+")


@dataclass(frozen=True, slots=True)
class QueueChoice:
    """`kafka`, `etcd`, or the address of a queue that runs already."""

    def parse(self, raw: object) -> str:
        text = raw.strip() if isinstance(raw, str) else ""
        known = text in (OWN_BROKER, OWN_ETCD) or text.startswith(("kafka://", "etcd://"))
        if not known or not text.isprintable():
            raise ValueError(_QUEUE)
        return text

    def show(self, value: object) -> str:
        return str(value)


@dataclass(frozen=True, slots=True)
class StoreChoices:
    """`delta`, `etcd`, or addresses of stores; the gateway reads the first."""

    def parse(self, raw: object) -> tuple[str, ...]:
        items = raw.split(",") if isinstance(raw, str) else raw
        if not isinstance(items, list | tuple):
            raise ValueError(_STORES)
        stores = tuple(str(item).strip() for item in items)
        if len(set(stores)) < len(stores) or not all(map(_is_store, stores)):
            raise ValueError(_STORES)
        return stores

    def show(self, value: object) -> str:
        return ", ".join(value) if isinstance(value, tuple) else str(value)


def _is_store(text: str) -> bool:
    named = text in (OWN_TABLES, OWN_ETCD) or _ADDRESS.fullmatch(text) is not None
    return named and text.isprintable()
