"""Three brokers and three etcd members, each on a host of its own, that can be cut from each other.

What the cluster has agreed on is asked of etcd itself: a broker that was cut off may answer as if
nothing had happened. It is asked by HTTP, for a gRPC library may live on in another namespace.
"""

from __future__ import annotations

import json
import signal
import urllib.request
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from support.broker import BrokerProcess
from support.cluster import BrokerCluster
from support.disks import Disk
from support.etcd import EtcdCluster, EtcdMember
from support.netns import Network
from support.waiting import wait_until

CLIENTS = "clients"
BROKERS = ("b1", "b2", "b3")
MEMBERS = ("m1", "m2", "m3")
PARTITION_KEYS = "/nexus/clusters/local-cluster/partitions/{topic}/"
ASK_SECONDS = 2.0
DISK_BYTES = 512 << 20
PATIENCE_SECONDS = 180.0  # as long as a busy machine may take

State = dict[str, Any]  # leader, epoch, replicas, in_sync


@dataclass
class NetworkCluster(BrokerCluster):
    """Brokers 1 to 3 on the hosts b1 to b3, etcd on m1 to m3; the test is on `clients`."""

    network: Network = field(kw_only=True)
    has_disks: bool = False  # each broker has one that can be cut off from power
    disks: dict[int, Disk] = field(init=False, default_factory=dict)
    members: EtcdCluster = field(init=False)

    def __post_init__(self) -> None:
        made = [self._make_member(name) for name in MEMBERS]
        self.members = EtcdCluster(self.directory / "etcd", made)

    def start_etcd(self) -> None:
        self.members.start()

    def _make_member(self, name: str) -> EtcdMember:
        host = self.network.hosts[name]
        inside = partial(self.network.inside, name)
        return EtcdMember(self.directory / "etcd", name, host=host, inside=inside)

    def stop_etcd(self) -> None:
        self.members.kill()

    def stop(self) -> None:
        super().stop()
        for disk in self.disks.values():
            disk.unplug()

    @property
    def etcd_endpoints(self) -> str:
        return '"' + ",".join(member.endpoint for member in self.members.members) + '"'

    def make(self, node: int) -> BrokerProcess:
        broker = super().make(node)
        broker.host = self.network.hosts[BROKERS[node - 1]]
        broker.inside = partial(self.network.inside, BROKERS[node - 1])
        if self.has_disks:
            self.disks[node] = Disk(self.directory / f"disk-{node}", DISK_BYTES)
            broker.data_dir = self.disks[node].where / "data"
        return broker

    def start_brokers(self, nodes: Collection[int]) -> None:
        """Start some that were killed, at the same time."""
        for node in nodes:
            self.brokers[node].spawn()
        for node in nodes:
            self.brokers[node].wait_ready(within=PATIENCE_SECONDS)

    def cut_power(self, nodes: Collection[int]) -> None:
        """The machines of these brokers lose power at the same moment."""
        for node in nodes:
            process = self.brokers[node].process
            assert process is not None
            process.send_signal(signal.SIGSTOP)
        for node in nodes:
            self.disks[node].cut_power()
        for node in nodes:
            self.brokers[node].kill()
            self.brokers[node].data_dir = self.disks[node].plug_in_again() / "data"

    # What is agreed on ------------------------------------------------------------------------

    def states(self, topic: str) -> dict[int, State]:
        """The partitions of a topic as etcd has them; empty while it does not answer."""
        first = PARTITION_KEYS.format(topic=topic)
        question = {"key": _text(first), "range_end": _text(first[:-1] + "0")}
        for member in self.members.members:
            with suppress(OSError):
                found = _asked(member, "kv/range", question).get("kvs", ())
                return {
                    int(b64decode(one["key"]).rpartition(b"/")[2]): json.loads(
                        b64decode(one["value"])
                    )
                    for one in found
                }
        return {}

    def led_by(self, topic: str, node: int) -> frozenset[int]:
        """The partitions that a broker leads."""
        found = self.states(topic).items()
        return frozenset(number for number, state in found if state["leader"] == node)

    def leader(self, topic: str, partition: int = 0) -> int:
        def leads() -> int:
            state = self.states(topic).get(partition)
            return int(state["leader"]) if state is not None and state["leader"] > 0 else 0

        return wait_until(leads, within=PATIENCE_SECONDS, what="a leader")

    def wait_in_sync(self, topic: str, within: float = PATIENCE_SECONDS) -> None:
        def all_in_sync() -> bool:
            found = self.states(topic).values()
            return bool(found) and all(
                state["leader"] > 0 and len(state["in_sync"]) == len(state["replicas"])
                for state in found
            )

        wait_until(all_in_sync, within=within, what="all replicas in sync", every=0.1)

    def etcd_leader(self) -> EtcdMember:
        """The member that leads the others, once one does."""

        def leads() -> EtcdMember | None:
            for member in self.members.members:
                with suppress(OSError):
                    told = _asked(member, "maintenance/status", {})
                    if told["leader"] == told["header"]["member_id"]:
                        return member
            return None

        found = wait_until(leads, within=PATIENCE_SECONDS, what="a leader of etcd", every=0.1)
        assert found is not None
        return found


@contextmanager
def network_cluster(directory: Path, *, has_disks: bool = False) -> Iterator[NetworkCluster]:
    """The whole of it, with the test among the clients, until the block ends."""
    with Network([*BROKERS, *MEMBERS, CLIENTS]) as network, network.inside(CLIENTS):
        made = NetworkCluster(directory, network=network, has_disks=has_disks)
        try:
            made.start()
            yield made
        finally:
            made.stop()


def _asked(member: EtcdMember, what: str, body: dict[str, str]) -> Any:
    request = urllib.request.Request(
        f"http://{member.endpoint}/v3/{what}", json.dumps(body).encode(), method="POST"
    )
    with urllib.request.urlopen(request, timeout=ASK_SECONDS) as answer:
        return json.load(answer)


def _text(key: str) -> str:
    return b64encode(key.encode()).decode()
