"""One broker's part in a cluster that agrees by etcd.

A lease says that it lives; its registration is put once under each lease. The view follows all keys
of the cluster, whether or not the lease holds. Whoever is elected is the controller as well.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from math import inf
from typing import Final

from nexus.cluster.controlling import PartitionKey
from nexus.cluster.errors import BrokerIdTaken, CannotAgree, ClusterError
from nexus.cluster.etcd.controlling import Controller, Terms
from nexus.cluster.etcd.keys import Places, report_value, state_value
from nexus.cluster.etcd.probing import Prober
from nexus.cluster.etcd.registering import register
from nexus.cluster.etcd.topics import TopicKeys
from nexus.cluster.etcd.viewing import Viewing
from nexus.cluster.partition_state import PartitionState
from nexus.cluster.port import (
    Listener,
    Member,
    NewTopic,
    Report,
    TopicInfo,
    View,
    fit_since,
)
from nexus.etcd import (
    Ambiguous,
    Client,
    Election,
    EtcdConfig,
    EtcdError,
    Keys,
    Lease,
    Put,
    absent,
    endpoints_of,
    follow,
    mod_revision,
)
from nexus.settings import BrokerSettings
from nexus.settings.units import UNLIMITED

_log: Final = logging.getLogger(__name__)

START_SECONDS: Final = 30.0
LEAVE_SECONDS: Final = 5.0
_AGAIN_SECONDS: Final = 0.3
_ID_ATTEMPTS: Final = 20


class EtcdCoordination:
    """Registration, view, controller and commands of one broker."""

    def __init__(self, settings: BrokerSettings, directory: str) -> None:
        cluster = settings.cluster
        self._settings = settings
        self._directory = directory
        self._places = Places.of(cluster.cluster_id)
        self._client = Client(
            EtcdConfig(endpoints_of(cluster.etcd_endpoints), timeout_s=5.0, attempt_s=1.5)
        )
        self._viewing = Viewing(self._places)
        self.view: View = self._viewing.view
        strategy = cluster.partition_strategy
        self._topics = TopicKeys(self._client, self._places, self.view, strategy)
        self._changed = asyncio.Event()  # for the controller
        self._moved = asyncio.Condition()
        self._tasks: list[asyncio.Task[None]] = []
        self._lease: Lease | None = None
        self._registered = 0
        self._is_admitted = asyncio.Event()
        self._me: Member | None = None
        self._listener: Listener | None = None
        self.is_controller = False

    # Life -------------------------------------------------------------------------------------

    async def start(self, me: Member, listener: Listener) -> None:
        """Join; ClusterError when that is not possible."""
        self._me, self._listener = me, listener
        self._tasks = [
            asyncio.ensure_future(self._follow()),
            asyncio.ensure_future(self._live(me)),
        ]
        admitted = asyncio.ensure_future(self._admitted())
        await asyncio.wait(
            {admitted, *self._tasks},
            timeout=START_SECONDS,
            return_when=asyncio.FIRST_COMPLETED,
        )
        if admitted.done():
            self._tasks.append(asyncio.ensure_future(self._prober().run()))
            return
        admitted.cancel()
        for task in self._tasks:
            if task.done():
                task.result()
        where = self._settings.cluster.etcd_endpoints
        raise ClusterError(f"etcd at {where} does not answer; the broker cannot join the cluster")

    async def leave(self) -> None:
        """Have others lead what this broker leads, if they can."""
        lease, me = self._lease, self._me
        if lease is None or me is None or len(self.view.members) < 2:
            return
        try:
            if me.id not in self.view.leaving:
                key = self._places.leaving(me.id)
                await self._client.put(key, b"", lease=lease.id, timeout_s=2.0)
            async with asyncio.timeout(LEAVE_SECONDS):
                await self._until(lambda: not self._leads_what_others_could(me.id))
        except (EtcdError, TimeoutError) as error:
            _log.warning("leaving without handing everything over: %s", error)

    async def stop(self) -> None:
        """End the lease and with it the registration; safe to call twice."""
        tasks, self._tasks = self._tasks, []
        for task in reversed(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._client.close()

    async def _admitted(self) -> None:
        await self._is_admitted.wait()
        await self._reached(self._registered)

    async def _live(self, me: Member) -> None:
        """Hold one lease after the other, and be a member under each."""
        while True:
            try:
                await self._live_once(me)
            except BrokerIdTaken:
                if not self._is_admitted.is_set():
                    raise
                _log.exception("another broker took this one's id")
            except EtcdError as error:
                _log.warning("not a member of the cluster now: %s", error)
            # Its process went on, so it has all that it had.
            me = me._replace(kept_all=True)
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _live_once(self, me: Member) -> None:
        ttl_s = -(-self._settings.cluster.lease_ms // 1000)
        async with self._client.leases.hold(ttl_s) as lease:
            self._registered = await register(
                self._client, self._places, me, self._directory, lease
            )
            self._lease = lease
            assert self._listener is not None
            self._listener.registered(self._registered)
            self._is_admitted.set()
            _log.info("broker %d is a member since %d", me.id, self._registered)
            try:
                await lease.guard(self._control(me, lease))
            finally:
                # Before anything is waited for: from here on another may lead.
                self._lease = None
                self._listener.unregistered()

    async def _control(self, me: Member, lease: Lease) -> None:
        """Be the controller whenever elected, as long as the lease holds."""
        election = Election(self._client, self._places.controller)
        while True:
            try:
                fence = await election.campaign(str(me.id).encode(), lease)
                _log.info("broker %d is the controller since %d", me.id, fence.token)
                self.is_controller = True
                controller = Controller(
                    self._client,
                    self._places,
                    self.view,
                    fence,
                    self._reached,
                    terms=self._terms(),
                )
                await controller.run(self._changed)
            except EtcdError as error:
                lease.check()
                _log.warning("the controller's work was interrupted: %s", error)
                await asyncio.sleep(_AGAIN_SECONDS)
            finally:
                self.is_controller = False

    def _terms(self) -> Terms:
        cluster = self._settings.cluster
        gone_after = cluster.broker_gone_after_ms
        return Terms(
            unclean=self._settings.replication.unclean_leader_election,
            preferred_every_s=cluster.preferred_leaders_ms / 1000,
            gone_after_s=inf if gone_after == UNLIMITED else gone_after / 1000,
            rebuilds_at_once=cluster.rebuilds_at_once,
        )

    # The view ---------------------------------------------------------------------------------

    async def _follow(self) -> None:
        while True:
            with suppress(EtcdError):
                keys = Keys.prefix(self._places.root)
                async with aclosing(follow(self._client, keys)) as views:
                    async for view in views:
                        if view.listed:
                            self._viewing.list(view.items.values(), view.revision)
                        else:
                            self._viewing.follow(view.events, view.revision)
                        await self._tell()
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _tell(self) -> None:
        keys, topics = self._viewing.take_changes()
        if self._listener is not None:
            self._listener.changed(keys, topics)
        self._changed.set()
        async with self._moved:
            self._moved.notify_all()

    async def _reached(self, revision: int) -> None:
        """Wait until the view is as new as that."""
        await self._until(lambda: self.view.revision >= revision)

    async def _until(self, holds: Callable[[], bool]) -> None:
        async with self._moved:
            await self._moved.wait_for(holds)

    def _leads_what_others_could(self, me: int) -> bool:
        return any(
            state.leader == me and any(n in self.view.members and n != me for n in state.in_sync)
            for state in self.view.partitions.values()
        )

    # The dead ---------------------------------------------------------------------------------

    def _prober(self) -> Prober:
        return Prober(self._watched, self._bury)

    def _watched(self) -> list[Member]:
        """The controller watches all, and all watch the controller."""
        me = self._settings.broker.id
        others = [member for member in self.view.members.values() if member.id != me]
        if self.is_controller:
            return others
        return [member for member in others if member.id == self.view.controller]

    async def _bury(self, member: Member) -> None:
        lease = self._viewing.leases.get(member.id)
        current = self.view.members.get(member.id)
        if lease and current is not None and current.registered == member.registered:
            with suppress(EtcdError):
                await self._client.leases.revoke(lease, timeout_s=2.0)

    # Commands ---------------------------------------------------------------------------------

    async def create_topic(self, wanted: NewTopic) -> TopicInfo:
        async with _agreeing():
            return await self._topics.create(wanted)

    async def delete_topic(self, name: str) -> None:
        async with _agreeing():
            await self._topics.delete(name)

    async def add_partitions(
        self, name: str, count: int, assignment: tuple[tuple[int, ...], ...] = ()
    ) -> None:
        async with _agreeing():
            await self._topics.grow(name, count, assignment)

    async def set_configs(self, name: str, configs: Mapping[str, str]) -> None:
        async with _agreeing():
            await self._topics.set_configs(name, configs)

    async def propose(self, key: PartitionKey, state: PartitionState) -> bool:
        place = self._places.partition(key)
        me = self._settings.broker.id
        fit = fit_since(self.view.members)
        if any(fit.get(node, 0) > state.version for node in state.in_sync if node != me):
            return False
        # Each is the process that is known, and not one that came after it and may have less.
        known = {node: self._registered_of(node) for node in state.in_sync} | {me: self._registered}
        when = [mod_revision(self._places.broker(node)).equals(at) for node, at in known.items()]
        async with _agreeing():
            done = await self._client.txn(
                when=[mod_revision(place).equals(state.version), *when],
                then=[Put(place, state_value(state))],
            )
            return done.succeeded

    def _registered_of(self, node: int) -> int:
        member = self.view.members.get(node)
        return 0 if member is None else member.registered

    async def reserve_producer_ids(self, count: int) -> range:
        key = self._places.producer_ids
        async with _agreeing():
            for _ in range(_ID_ATTEMPTS):
                item = await self._client.get(key)
                first = 0 if item is None else int(json.loads(item.value)["next"])
                when = absent(key) if item is None else mod_revision(key).equals(item.mod_revision)
                value = json.dumps({"next": first + count}).encode()
                # Where nobody knows whether it happened, the block is left unused.
                with suppress(Ambiguous):
                    if (await self._client.txn(when=[when], then=[Put(key, value)])).succeeded:
                        return range(first, first + count)
        raise CannotAgree("producer ids are wanted by too many at once")

    async def report(self, report: Report) -> None:
        lease, me = self._lease, self._me
        if lease is None or me is None:
            return
        key, value = self._places.report(me.id), report_value(report)
        async with _agreeing():
            await self._client.put(key, value, lease=lease.id, timeout_s=2.0)

    def set_peers(self, peers: Mapping[int, tuple[str, int]]) -> None:
        """There is no list: brokers register."""


@asynccontextmanager
async def _agreeing() -> AsyncIterator[None]:
    """Say in the broker's words that etcd could not be asked."""
    try:
        yield
    except EtcdError as error:
        raise CannotAgree(f"the cluster cannot agree now: {error}") from error
