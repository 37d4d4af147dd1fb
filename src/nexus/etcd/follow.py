"""A range of keys, listed once and then followed: the whole state, and what changed last."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from nexus.etcd.client import Client
from nexus.etcd.cursor import Event
from nexus.etcd.errors import Compacted
from nexus.etcd.keys import Keys
from nexus.etcd.results import KeyValue


class View(NamedTuple):
    """The keys as of a revision. `events` led here from the view before; after a new listing
    (`listed`) they are unknown and empty."""

    items: Mapping[bytes, KeyValue]
    revision: int
    events: tuple[Event, ...]
    listed: bool


async def follow(client: Client, keys: Keys) -> AsyncGenerator[View, None]:
    """The state now, then after every change, without a gap.

    A view shows one changing state: keep what you need of it before you ask for the next. When
    the position was compacted away (after a long absence), everything is listed anew.
    """
    while True:
        try:
            items, revision = await _listed(client, keys)
            shown = MappingProxyType(items)
            yield View(shown, revision, (), listed=True)
            async with client.watch(keys, start_revision=revision + 1) as watch:
                async for batch in watch:
                    _apply(items, batch.events)
                    if batch.events:
                        yield View(shown, batch.revision, batch.events, listed=False)
        except Compacted:
            continue


async def _listed(client: Client, keys: Keys) -> tuple[dict[bytes, KeyValue], int]:
    items: dict[bytes, KeyValue] = {}
    revision = 0
    async for page in client.scan(keys):
        items.update((item.key, item) for item in page.items)
        revision = revision or page.revision
    return items, revision


def _apply(items: dict[bytes, KeyValue], events: tuple[Event, ...]) -> None:
    for event in events:
        if event.deleted:
            items.pop(event.key, None)
        else:
            items[event.key] = event.item
