"""The controller at work: looks at the view, decides, and writes as long as it is the controller.

Every write compares the controller's token, the version of what it replaces, and the registration
of a leader that stays: what changed since it looked makes it look again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

from nexus.cluster.controlling import (
    PartitionKey,
    Seen,
    needed,
    offline,
    preferred,
    rebuilt,
)
from nexus.cluster.etcd.keys import Places, state_value
from nexus.cluster.partition_state import NOBODY, PartitionState
from nexus.cluster.port import View
from nexus.etcd import Ambiguous, Client, Compare, Fence, Put, fenced, mod_revision

_log: Final = logging.getLogger(__name__)
_CHANGES: Final = 40  # in one transaction

UNCLEAN: Final = "unclean.leader.election.enable"


class Terms(NamedTuple):
    """What a controller is told to do, and how fast."""

    unclean: bool
    preferred_every_s: float
    gone_after_s: float
    rebuilds_at_once: int


class Controller:
    """One term of office."""

    def __init__(
        self,
        client: Client,
        places: Places,
        view: View,
        fence: Fence,
        reached: Callable[[int], Awaitable[None]],
        *,
        terms: Terms,
    ) -> None:
        self._client = client
        self._places = places
        self._view = view
        self._fence = fence
        self._reached = reached
        self._terms = terms
        self._away_since: dict[int, float] = {}
        self._said_offline: list[PartitionKey] = []

    async def run(self, changed: asyncio.Event) -> None:
        """Decide at every change; ends with Fenced, or with the lease."""
        await self._reached(self._fence.token)
        loop = asyncio.get_running_loop()
        even_at = loop.time() + self._terms.preferred_every_s
        while True:
            changed.clear()
            if await self._write(needed(self._seen())):
                continue
            self._say_offline()
            if self._view.leaving and await self._write(preferred(self._seen())):
                continue
            if loop.time() >= even_at:
                even_at = loop.time() + self._terms.preferred_every_s
                if await self._write(preferred(self._seen())):
                    continue
            if await self._write(self._rebuilds(loop.time())):
                continue
            try:
                async with asyncio.timeout(max(even_at - loop.time(), 0.01)):
                    await changed.wait()
            except TimeoutError:
                continue

    def _seen(self) -> Seen:
        view = self._view
        states = {
            (name, number): state
            for name, info in view.topics.items()
            for number in range(info.partitions)
            if (state := view.state(name, number)) is not None
        }
        return Seen(
            live=set(view.members),
            partitions=states,
            leaving=set(view.leaving),
            unclean={name for name in view.topics if self._is_unclean(name)},
            registered={node: member.registered for node, member in view.members.items()},
            unsure={node for node, member in view.members.items() if not member.kept_all},
        )

    def _rebuilds(self, now: float) -> Mapping[PartitionKey, PartitionState]:
        """Moves away from brokers that stay away; how long is known since this term began."""
        view = self._view
        held = {node for state in view.partitions.values() for node in state.replicas}
        away = held - set(view.members)
        self._away_since = {node: self._away_since.get(node, now) for node in away}
        after = self._terms.gone_after_s
        gone = {node for node, since in self._away_since.items() if now - since >= after}
        if not gone:
            return {}
        return rebuilt(self._seen(), gone, self._terms.rebuilds_at_once)

    def _is_unclean(self, topic: str) -> bool:
        own = self._view.topics[topic].configs.get(UNCLEAN)
        return self._terms.unclean if own is None else own == "true"

    async def _write(self, changes: Mapping[PartitionKey, PartitionState]) -> bool:
        """Make the changes; whether there were any. Those that do not hold are seen anew."""
        if not changes:
            return False
        items = sorted(changes.items())
        for first in range(0, len(items), _CHANGES):
            some = items[first : first + _CHANGES]
            if not await self._put(some):
                for one in some:
                    await self._put([one])
        return True

    async def _put(self, items: list[tuple[PartitionKey, PartitionState]]) -> bool:
        when = {compare for key, state in items for compare in self._compares(key, state)}
        puts = [Put(self._places.partition(key), state_value(state)) for key, state in items]
        unclean = [key for key, state in items if self._loses(key, state)]
        try:
            done = await fenced(self._client, self._fence, puts, when=sorted(when))
        except Ambiguous:  # if it happened, the versions say so when it is tried again
            return False
        await self._reached(done.revision)
        if done.succeeded:
            self._tell(items)
            for topic, number in unclean:
                _log.error(
                    "%s/%d is led by a broker that was not in sync: messages that were"
                    " acknowledged are lost, as unclean_leader_election allows",
                    *(topic, number),
                )
        return done.succeeded

    def _loses(self, key: PartitionKey, state: PartitionState) -> bool:
        before = self._view.partitions.get(key)
        return before is not None and state.leader not in (NOBODY, *before.in_sync)

    def _compares(self, key: PartitionKey, state: PartitionState) -> list[Compare]:
        compares = [mod_revision(self._places.partition(key)).equals(state.version)]
        before = self._view.partitions.get(key)
        if before is not None and before.epoch == state.epoch and state.leader != NOBODY:
            # In one epoch one process leads: not one that came up meanwhile under the same id.
            member = self._view.members.get(state.leader)
            registered = 0 if member is None else member.registered
            compares.append(mod_revision(self._places.broker(state.leader)).equals(registered))
        return compares

    def _tell(self, items: list[tuple[PartitionKey, PartitionState]]) -> None:
        for (topic, number), state in items:
            _log.info(
                "%s/%d: leader %d, epoch %d, in sync %s",
                *(topic, number, state.leader, state.epoch, list(state.in_sync)),
            )

    def _say_offline(self) -> None:
        now = offline(self._seen())
        if now != self._said_offline:
            self._said_offline = now
            if now:
                names = ", ".join(f"{topic}/{number}" for topic, number in now[:5])
                _log.error("%d partitions have no leader: %s", len(now), names)
