"""The broker put together: storage, partitions, groups, server, background work.

`start` makes it ready, `stop` ends it cleanly: requests drain, logs are flushed, the data directory
is marked clean.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from nexus.broker.admin import Admin
from nexus.broker.cluster_metrics import watch_cluster
from nexus.broker.connection import Connection
from nexus.broker.coordination import Coordination
from nexus.broker.dispatch import Dispatcher
from nexus.broker.flusher import Flusher
from nexus.broker.handlers import HANDLERS
from nexus.broker.maintenance import Maintenance
from nexus.broker.metrics import BrokerMetrics
from nexus.broker.partition import Partition
from nexus.broker.producer_ids import ProducerIds
from nexus.broker.repairing import Repairs
from nexus.broker.replicas import Replicas
from nexus.broker.reporting import Reporter
from nexus.broker.routing.router import Router
from nexus.broker.server import AddressInUse, Server, raise_descriptor_limit
from nexus.broker.sharing.sharing import Sharing
from nexus.broker.side_port import side_port
from nexus.broker.solo import Solo
from nexus.broker.topics import Topics
from nexus.cluster.partition_state import NOBODY
from nexus.cluster.port import Coordination as Cluster
from nexus.cluster.port import Member, TopicInfo
from nexus.log import LogStore, PartitionLog
from nexus.log.kernel_sync import KernelSync
from nexus.observe.logs import get_logger
from nexus.settings import BrokerSettings
from nexus.settings.sections import ClusterMode, parse_peers
from nexus.wire.apis import APIS
from nexus.wire.messages.api_versions import ApiVersion

log = get_logger(__name__)

T = TypeVar("T")

DRAIN_SECONDS: Final = 2.0
WILDCARDS: Final = frozenset({"0.0.0.0", "::", ""})
WORKER_THREADS: Final = 4


@dataclass(frozen=True, slots=True)
class Node:
    """A broker as clients are told to reach it."""

    id: int
    host: str
    port: int
    rack: str = ""


def now_ms() -> int:
    """Wall-clock milliseconds."""
    return time.time_ns() // 1_000_000


def steady_clock() -> Callable[[], int]:
    """Milliseconds since 1970 that never jump: a clock that is set must not expire sessions."""
    offset_ns = time.time_ns() - time.monotonic_ns()
    return lambda: (time.monotonic_ns() + offset_ns) // 1_000_000


class Broker:
    """One running broker."""

    def __init__(self, settings: BrokerSettings) -> None:
        self.settings = settings
        self.loop = asyncio.get_running_loop()
        self.now_ms: Callable[[], int] = now_ms
        self.metrics = BrokerMetrics()
        self.is_stopping = False
        self.long_polls: set[Callable[[], None]] = set()
        # Reads and recompression answer clients; chores can be slow. Neither holds up the other.
        self._workers = ThreadPoolExecutor(WORKER_THREADS, thread_name_prefix="worker")
        self._chores = ThreadPoolExecutor(1, thread_name_prefix="chores")
        self.store = LogStore.open(settings.broker.data_dir, now_ms=self.now_ms)
        # What is acknowledged before it is on disk can be gone after a power cut.
        self._kept_all = settings.storage.fsync == "commit" or self.store.clean
        self.flusher = Flusher(
            self.loop,
            settings.performance.flush_threads,
            self.metrics.fsync_seconds.observe,
            KernelSync.open(),
        )
        self.is_shared = settings.cluster.mode != "solo"
        self.topics = Topics(self.store, settings, self._make_partition, self.metrics.traffic)
        self.cluster = self._join_as(settings.cluster.mode)
        self.admin = Admin(self.topics, self.cluster, settings)
        self.groups = Coordination(
            self.topics,
            self.admin,
            self._leader_of,
            settings,
            now_ms=steady_clock(),
            off_loop=self.off_loop,
            damaged=self.found_damage,
        )
        self.sharing = Sharing(self, self._leader_of, now_ms=steady_clock())
        self.replicas = Replicas(self)
        self.producer_ids = ProducerIds(self.cluster.reserve_producer_ids)
        self.maintenance = Maintenance(self)
        self.repairs = Repairs(self)
        self.reporter = Reporter(self)
        self.router = Router(self, HANDLERS)
        handlers = self.router.handlers() if self.is_shared else HANDLERS
        self.dispatcher = Dispatcher(self, handlers)
        self.server = Server(self, self.dispatcher, settings.performance)
        self.side_port = side_port(self)
        self.port = 0
        self.is_ready = False

    async def start(self) -> None:
        """Open the logs, make the topics that the settings list, and accept clients."""
        self._raise_limits()
        if self.is_shared:
            self.topics.recover()
        else:
            self.topics.load()
        self.flusher.start()
        # Before it joins: a broker that is there but refuses connections counts as dead.
        self.port = self.server.listen(self.settings.broker.host, self.settings.broker.port)
        await self.cluster.start(self._as_member(), self.replicas)
        await self.replicas.start()
        for topic in self.settings.topics:
            await self.admin.ensure(
                topic.name,
                topic.partitions,
                dict(topic.configs),
                topic.replication_factor if self.settings.cluster.mode == "etcd" else 1,
            )
        self.groups.start()
        self.sharing.start()
        self.metrics.watch(self)
        if self.is_shared:
            watch_cluster(self)
        await self._start_side_port()
        self.maintenance.start()
        self.repairs.start()
        if self.settings.cluster.mode == "etcd":
            self.reporter.start()
        self.loop.run_in_executor(self._chores, self.store.remove_deleted)
        self.server.start()
        self.is_ready = True

    async def _start_side_port(self) -> None:
        own = self.settings.broker
        try:
            await self.side_port.start()
        except OSError as error:
            raise AddressInUse(own.http_host, own.http_port, "--http", error) from error

    async def stop(self) -> None:
        """Drain, flush and close; safe to call after a failed start."""
        if self.is_ready:
            await self.cluster.leave()
        self.is_ready = False
        self.is_stopping = True
        self.server.stop_accepting()
        for wake in list(self.long_polls):
            wake()
        self.groups.close()
        self.sharing.close()
        await self.dispatcher.drain(DRAIN_SECONDS)
        await self.server.drain(DRAIN_SECONDS / 2)
        self.server.close()
        await self.side_port.stop()
        await self.reporter.stop()
        await self.replicas.stop()
        await self.cluster.stop()
        await self.maintenance.stop()
        await self.repairs.stop()
        self.flusher.stop()
        self.topics.close()
        self._workers.shutdown(cancel_futures=True)
        self._chores.shutdown(cancel_futures=True)
        self.store.close()

    def take_up(self, changed: BrokerSettings) -> None:
        """Use what may change while the broker runs, of settings that were read anew."""
        self.replicas.throttle.set_rate(changed.cluster.move_bytes_s)
        self.cluster.set_peers(parse_peers(changed.cluster.peers))

    async def off_loop(self, work: Callable[..., T], *args: object) -> T:
        """Run work that a client waits for on a thread."""
        return await self.loop.run_in_executor(self._workers, work, *args)

    async def in_background(self, work: Callable[..., T], *args: object) -> T:
        """Run a chore on the background thread."""
        return await self.loop.run_in_executor(self._chores, work, *args)

    def nodes_for(self, connection: Connection, *, only_me: bool = False) -> list[Node]:
        """Every broker that lives, at addresses that work for whoever holds the connection.

        Whoever is served by a proxy needs only this one.
        """
        members = self.cluster.view.members
        wanted = [self.settings.broker.id] if only_me else sorted(members)
        return [self._node(members[id_], connection) for id_ in wanted if id_ in members]

    def found_damage(self, partition: Partition, offset: int) -> bool:
        """A batch here is damaged: whether others hold it too, and a sound copy will come."""
        self.repairs.found(partition, offset)
        return self.repairs.is_held_elsewhere(partition)

    def topic_deleted(self, name: str) -> None:
        """A topic is gone: forget what was committed for it, and what was counted."""
        self.groups.topics_deleted([name])
        self.sharing.topic_deleted(name)
        self.metrics.forget_topic(name)

    def _node(self, member: Member, connection: Connection) -> Node:
        host = member.host
        if host in WILDCARDS and member.id == self.settings.broker.id:
            host = connection.local_host
        return Node(member.id, host, member.port, member.rack)

    def _as_member(self) -> Member:
        own = self.settings.broker
        host = own.advertised_host or own.host
        if self.is_shared and host in WILDCARDS:
            host = socket.gethostname()
        port = own.advertised_port or self.port
        rack = self.settings.cluster.rack or ""
        # A log that lost to damage what was safe is no better than one that was never synced.
        kept_all = self._kept_all and all(log.kept_all for log in self.store.logs.values())
        return Member(own.id, host, port, rack, kept_all=kept_all)

    def _join_as(self, mode: ClusterMode) -> Cluster:
        me = self.settings.broker.id
        if mode == "solo":
            reserve = partial(self.in_background, self.store.reserve_producer_ids)
            return Solo(self.topics, me, reserve)
        if mode == "static":
            from nexus.broker.static import Static  # noqa: PLC0415

            known = [
                TopicInfo(meta.name, meta.topic_id, meta.partitions, meta.configs)
                for meta in self.store.topics.values()
            ]
            reserve = partial(self.in_background, self.store.reserve_producer_ids)
            return Static(self.settings, known, reserve)
        # Only a broker in a cluster pays for the client of etcd.
        from nexus.cluster.etcd.coordination import EtcdCoordination  # noqa: PLC0415

        return EtcdCoordination(self.settings, self.store.meta.cluster_id)

    def _leader_of(self, topic: str, index: int) -> int:
        state = self.cluster.view.state(topic, index)
        return NOBODY if state is None else state.leader

    def api_versions(self) -> list[ApiVersion]:
        """The APIs that are served."""
        return [
            ApiVersion(api_key=key, min_version=api.min_version, max_version=api.max_version)
            for key, api in sorted(APIS.items())
        ]

    def described_settings(self) -> Iterator[tuple[str, str]]:
        """The broker's settings as DescribeConfigs shows them."""
        for shown in self.settings.shown():
            yield shown.name, shown.value

    def _make_partition(self, topic: str, index: int, source: PartitionLog) -> Partition:
        commits = self.settings.storage.fsync == "commit"
        request_flush = self.flusher.request if commits else None
        return Partition(
            topic, index, source, request_flush, self._on_failed, is_shared=self.is_shared
        )

    def _on_failed(self, partition: Partition) -> None:
        self.metrics.error("storage")
        self.replicas.failed(partition)
        self.maintenance.bring_back(partition)

    def _raise_limits(self) -> None:
        wanted = self.settings.performance.max_connections
        fewer = raise_descriptor_limit(wanted)
        if fewer is not None:
            log.warning(
                "the system allows fewer connections than asked for; raise `ulimit -n`",
                asked=wanted,
                possible=fewer,
            )
