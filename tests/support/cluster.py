"""Three real brokers and one real etcd: started, killed, paused and asked by tests."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient

from support.broker import BrokerProcess
from support.confluent import admin_of
from support.etcd import EtcdMember
from support.waiting import wait_until

START_SECONDS = 180.0  # as long as a busy machine may take
STATIC = """
broker: {{id: {id}}}
cluster: {{mode: static, peers: [{peers}]}}
groups: {{offsets_partitions: 4}}
"""
SETTINGS = """
broker: {{id: {id}}}
cluster:
  mode: etcd
  etcd_endpoints: {etcd}
  preferred_leaders_interval: 1s
replication: {{default_replication_factor: {replication}, min_insync_replicas: {least}}}
groups: {{offsets_partitions: 4}}
"""


@dataclass
class BrokerCluster:
    """Brokers 1 to `count`, over one etcd member."""

    directory: Path
    count: int = 3
    replication: int = 3
    least: int = 2
    is_static: bool = False
    etcd: EtcdMember = field(init=False, repr=False)
    brokers: dict[int, BrokerProcess] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.etcd = EtcdMember(self.directory / "etcd")

    def start(self) -> BrokerCluster:
        if not self.is_static:
            self.start_etcd()
        for node in range(1, self.count + 1):
            self.brokers[node] = self.make(node)
        for broker in self.brokers.values():
            if self.is_static:
                peers = ", ".join(f"{n}@{b.bootstrap}" for n, b in self.brokers.items())
                broker.settings = broker.settings.replace("PEERS", peers)
            broker.spawn()
        try:
            for broker in self.brokers.values():
                broker.wait_ready(within=START_SECONDS)
            for broker in self.brokers.values():
                wait_until(
                    partial(self._sees_all, broker), within=START_SECONDS, what="all to be seen"
                )
        except BaseException:
            self.stop()
            raise
        return self

    def _sees_all(self, broker: BrokerProcess) -> bool:
        seen: list[int] = broker.health()["cluster"]["brokers"]
        return seen == sorted(self.brokers)

    def start_etcd(self) -> None:
        self.etcd.start()

    def stop_etcd(self) -> None:
        self.etcd.kill()

    @property
    def etcd_endpoints(self) -> str:
        return self.etcd.endpoint

    def make(self, node: int) -> BrokerProcess:
        if self.is_static:
            text = STATIC.format(id=node, peers="PEERS")
            return BrokerProcess(self.directory / f"broker-{node}", settings=text)
        text = SETTINGS.format(
            id=node, etcd=self.etcd_endpoints, replication=self.replication, least=self.least
        )
        return BrokerProcess(self.directory / f"broker-{node}", settings=text)

    def stop(self) -> None:
        for broker in self.brokers.values():
            if broker.process is not None:
                broker.process.send_signal(signal.SIGCONT)
            broker.kill()
        if not self.is_static:
            self.stop_etcd()

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    @cached_property
    def admin(self) -> AdminClient:
        return admin_of(self.bootstrap)

    def partitions(self, topic: str) -> dict[int, Any]:
        """The topic as clients are told: by partition, with leader, replicas and in-sync set."""
        found = self.admin.list_topics(topic, timeout=10).topics[topic]
        return dict(found.partitions)

    def leader(self, topic: str, partition: int = 0) -> int:
        """The broker that leads, once one does."""

        def leads() -> int:
            found = self.partitions(topic).get(partition)
            return found.leader if found is not None and found.leader > 0 else 0

        return wait_until(leads, within=15, what="a leader")

    def wait_in_sync(self, topic: str, within: float = 20.0) -> None:
        """Until every replica of the topic is in sync."""

        def all_in_sync() -> bool:
            parts = self.partitions(topic).values()
            return bool(parts) and all(len(p.isrs) == len(p.replicas) for p in parts)

        wait_until(all_in_sync, within=within, what="all replicas in sync")
