"""What a queue in etcd says of itself, in the form of the topics and groups of a broker.

A queue is a topic, with its dead letters as another; a message is a key. Partitions of several
clusters are told as one. There are no offsets, so nothing begins or ends at one. Collectors and
claim workers are groups, and their lag is what waits in the partitions that they have.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from nexus.etcd import Client, EtcdError, Get, KeyValue
from nexus.etcd.blocking import BlockingClient
from nexus.queue.errors import QueueAway
from nexus.queue.etcd.counts import Totals, depths, totals
from nexus.queue.etcd.layout import Layout, slot_of
from nexus.queue.etcd.owners import Span, spans_of
from nexus.queue.etcd.pressure import Room, look, quota_of
from nexus.queue.etcd.slots import known_slots, partitions_of
from nexus.queue.url import EtcdUrl

WORKERS: Final = "workers"


class EtcdQueue:
    """One queue, for one thread at a time; connects when it is first asked."""

    def __init__(self, url: EtcdUrl) -> None:
        self._url, self._layout = url, url.layout
        self._client: BlockingClient | None = None
        self._quota_bytes: int | None = None

    def everything(self, timeout_s: float) -> dict[str, Any]:
        """All there is to tell; QueueAway when it is not told in time."""

        async def ask(client: Client) -> dict[str, Any]:
            async with asyncio.timeout(timeout_s):
                return self._told(await self._looked(client))

        try:
            if self._client is None:
                self._client = BlockingClient(self._url.address.config())
            return self._client.run(ask)
        except TimeoutError:
            raise QueueAway(f"queue {self._url}: etcd does not answer in time") from None
        except EtcdError as error:
            raise QueueAway(f"queue {self._url}: {error}") from error

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    async def _looked(self, client: Client) -> _Look:
        if self._quota_bytes is None:
            config = self._url.address.config()
            self._quota_bytes = await quota_of(config, self._url.quota_bytes)
        layout = self._layout
        found = await depths(client, layout, await known_slots(client, layout))
        waiting = Counter[int]()
        for depth in found:
            waiting[depth.slot.partition] += depth.keys
        for partition in range(await partitions_of(client, layout) or 0):
            waiting[partition] += 0
        held = await client.txn(
            then=[
                Get(layout.dead_letters, count_only=True),
                Get(layout.metas("collectors")),
                Get(layout.metas("owners")),
            ]
        )
        return _Look(
            layout,
            dict(sorted(waiting.items())),
            held.got(0).total,
            held.got(1).items,
            held.got(2).items,
            await totals(client, layout),
            await look(client, self._quota_bytes),
        )

    def _told(self, seen: _Look) -> dict[str, Any]:
        return {
            "topics": seen.topics(),
            "groups": [*seen.collecting(), *seen.claiming()],
            "problems": [full] if (full := seen.room.full()) else [],
            "published": seen.totals.published.keys,
            "taken": seen.totals.taken.keys,
            "expired": seen.totals.expired,
            "database": {
                "bytes": seen.room.db_bytes,
                "in_use_bytes": seen.room.in_use_bytes,
                "quota_bytes": seen.room.quota_bytes or None,
            },
        }


@dataclass(frozen=True, slots=True)
class _Look:
    """What was found, and how it is told."""

    layout: Layout
    waiting: Mapping[int, int]  # keys, by partition
    dead: int
    leaders: Sequence[KeyValue]
    owners: Sequence[KeyValue]
    totals: Totals
    room: Room

    def topics(self) -> list[dict[str, Any]]:
        own = [
            {"partition": p, "leader": None, "start": None, "end": None, "messages": keys}
            for p, keys in self.waiting.items()
        ]
        name = self.layout.prefix
        return [
            _topic(name, self.totals.waiting, own),
            _topic(f"{name}.dlq", self.dead, []),
        ]

    def collecting(self) -> list[dict[str, Any]]:
        """A group for every leader: its standbys are nobody's."""
        start = len(self.layout.metas("collectors").start)
        groups = []
        for item in self.leaders:
            span = item.key[start:].decode(errors="replace")
            partitions = [p for p in self.waiting if _covers(spans_of(span), p)]
            name = f"collectors {span}"
            groups.append(self._group(name, {_leader(item): partitions}))
        return groups

    def claiming(self) -> list[dict[str, Any]]:
        """One group of all workers that own something."""
        start = len(self.layout.metas("owners").start)
        owned: dict[str, list[int]] = {}
        for item in self.owners:
            with suppress(ValueError):
                slot = slot_of(item.key[start:].decode(errors="replace"))
                owned.setdefault(item.value.decode(errors="replace"), []).append(slot.partition)
        return [self._group(WORKERS, owned)] if owned else []

    def _group(self, name: str, members: Mapping[str, Sequence[int]]) -> dict[str, Any]:
        rows = [
            self._share(partition, member)
            for member, partitions in members.items()
            for partition in sorted(set(partitions))
        ]
        return {
            "group": name,
            "state": "stable",
            "lag": sum(row["lag"] for row in rows),
            "members": [_member(who, len(set(held))) for who, held in members.items()],
            "partitions": rows,
        }

    def _share(self, partition: int, member: str) -> dict[str, Any]:
        return {
            "topic": self.layout.prefix,
            "partition": partition,
            "committed": None,
            "end": None,
            "lag": self.waiting.get(partition, 0),
            "member": member,
        }


def _topic(name: str, messages: int, partitions: list[dict[str, Any]]) -> dict[str, Any]:
    return {"topic": name, "internal": False, "messages": messages, "partitions": partitions}


def _member(name: str, partitions: int) -> dict[str, Any]:
    return {"member": name, "client": name, "host": "", "partitions": partitions}


def _covers(spans: Sequence[Span], partition: int) -> bool:
    return any(span.first <= partition <= span.last for span in spans)


def _leader(item: KeyValue) -> str:
    """Its name, as its key's value tells."""
    with suppress(ValueError, TypeError, KeyError):
        return str(json.loads(item.value)["name"])
    return item.value.decode(errors="replace")
