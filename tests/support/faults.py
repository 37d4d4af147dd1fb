"""What can go wrong with a cluster of hosts, one thing at a time, and how it is put right again."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Final

from support.disks import reserve_all
from support.etcd import EtcdMember
from support.netns_cluster import BROKERS, CLIENTS, MEMBERS, NetworkCluster
from support.tracing import SYNCS, failing

# Past the lease of 3 s, and long enough for another to lead.
HOLD_SECONDS: Final = 4.0
HAND_BACK_SECONDS: Final = 3.0


@dataclass(frozen=True)
class Struck:
    """A fault that holds now. `partitions` are those whose writes it stops."""

    partitions: Collection[int]
    heal: Callable[[], None]
    hold_s: float = 0.0  # how long it must last to have its effect
    waits: bool = False  # nobody can write before it is healed
    deposed: int = 0  # who leads them no more when writes go on


class Faults:
    """Faults by kind. Each strikes at once and says how it is healed."""

    def __init__(self, cluster: NetworkCluster, topic: str, chance: random.Random) -> None:
        self._cluster, self._network = cluster, cluster.network
        self._topic, self._chance = topic, chance
        self.kinds: dict[str, Callable[[], Struck]] = {
            "leader killed": lambda: self._kill(self._leader()),
            "follower killed": self._kill_follower,
            "all brokers killed": self._kill_all,
            "leader paused": lambda: self._pause(self._leader()),
            "leader cut off from etcd": lambda: self._isolate(MEMBERS),
            "leader cut off from brokers": lambda: self._isolate(BROKERS),
            "leader cut off from everyone": lambda: self._isolate((*BROKERS, *MEMBERS, CLIENTS)),
            "leader not heard": lambda: self._one_way(is_heard=False),
            "leader hears nobody": lambda: self._one_way(is_heard=True),
            "clients cut off from leader": self._cut_clients,
            "two brokers cut from each other": self._cut_a_link,
            "etcd member killed": lambda: self._kill_member(self._follower_of_etcd()),
            "etcd leader killed": lambda: self._kill_member(self._cluster.etcd_leader()),
            "etcd split, its leader alone": self._split_etcd,
            "all of etcd killed": self._kill_etcd,
            "leader restarted": self._restart,
            "leader's disk does not sync": self._fail_syncs,
            "leader's disk is full": self._fill_disk,
            "leader loses power": lambda: self._cut_power([self._leader()]),
            "two brokers lose power": lambda: self._cut_power(self._two()),
            "all brokers lose power": lambda: self._cut_power(sorted(self._cluster.brokers)),
        }

    # Whom it strikes --------------------------------------------------------------------------

    @property
    def _all(self) -> frozenset[int]:
        return frozenset(self._cluster.states(self._topic))

    def _leader(self) -> int:
        partition = self._chance.choice(sorted(self._cluster.states(self._topic)))
        return self._cluster.leader(self._topic, partition)

    def _two(self) -> list[int]:
        return self._chance.sample(sorted(self._cluster.brokers), 2)

    def _led(self, node: int) -> frozenset[int]:
        return self._cluster.led_by(self._topic, node)

    def _follower_of_etcd(self) -> EtcdMember:
        leader = self._cluster.etcd_leader()
        return self._chance.choice([m for m in self._cluster.members.members if m is not leader])

    # Kill and pause ---------------------------------------------------------------------------

    def _kill(self, node: int) -> Struck:
        led = self._led(node)
        self._cluster.brokers[node].kill()
        return Struck(led, lambda: self._cluster.start_brokers([node]), deposed=node)

    def _kill_follower(self) -> Struck:
        """Seen from the partitions that it does not lead: they have to do without it."""
        node = self._chance.choice(sorted(self._cluster.brokers))
        followed = self._all - self._led(node)
        return Struck(followed, self._kill(node).heal)

    def _kill_all(self) -> Struck:
        struck = self._all
        for broker in self._cluster.brokers.values():
            broker.kill()
        return Struck(
            struck, lambda: self._cluster.start_brokers(self._cluster.brokers), waits=True
        )

    def _pause(self, node: int) -> Struck:
        led = self._led(node)
        process = self._cluster.brokers[node].process
        assert process is not None
        process.send_signal(signal.SIGSTOP)
        resume = partial(process.send_signal, signal.SIGCONT)
        return Struck(led, resume, HOLD_SECONDS, deposed=node)

    def _restart(self) -> Struck:
        """No fault, but what every upgrade does: another leads, and it leads again."""
        node = self._leader()
        led = self._led(node)
        assert self._cluster.brokers[node].stop() == 0
        self._cluster.start_brokers([node])
        return Struck(led, lambda: None, HAND_BACK_SECONDS)

    # Disks ------------------------------------------------------------------------------------

    def _cut_power(self, nodes: Collection[int]) -> Struck:
        struck = frozenset[int]().union(*map(self._led, nodes))
        self._cluster.cut_power(nodes)
        return Struck(struck, lambda: self._cluster.start_brokers(nodes), waits=len(nodes) > 1)

    def _fail_syncs(self) -> Struck:
        """Whatever it is to keep safe fails: it may neither acknowledge nor say that it has it."""
        node = self._leader()
        led, output = self._led(node), self._cluster.directory / "strace"
        tracing = ExitStack()
        tracing.enter_context(failing(self._cluster.brokers[node].pid, output, SYNCS, "EIO"))
        return Struck(led, tracing.close, HOLD_SECONDS, deposed=node)

    def _fill_disk(self) -> Struck:
        """It leads on where its last blocks still have room, and makes way where they have not."""
        node = self._leader()
        led = self._led(node)
        filler = reserve_all(self._cluster.disks[node].where)
        return Struck(led, filler.unlink, HOLD_SECONDS)

    # Cut --------------------------------------------------------------------------------------

    def _isolate(self, others: Collection[str]) -> Struck:
        node = self._leader()
        led, host = self._led(node), BROKERS[node - 1]
        self._network.part([host], set(others) - {host})
        return Struck(led, self._network.heal, HOLD_SECONDS, deposed=node)

    def _one_way(self, *, is_heard: bool) -> Struck:
        node = self._leader()
        led, host = self._led(node), BROKERS[node - 1]
        others = {*BROKERS, *MEMBERS} - {host}
        if is_heard:
            self._network.cut(others, [host])
        else:
            self._network.cut([host], others)
        return Struck(led, self._network.heal, HOLD_SECONDS, deposed=node)

    def _cut_clients(self) -> Struck:
        """It leads on, so nobody else may: its partitions wait."""
        node = self._leader()
        led = self._led(node)
        self._network.part([CLIENTS], [BROKERS[node - 1]])
        return Struck(led, self._network.heal, HOLD_SECONDS, waits=True)

    def _cut_a_link(self) -> Struck:
        """Each of the three still reaches a majority, and no two the same one."""
        one, other = self._chance.sample(BROKERS, 2)
        led = self._all
        self._network.part([one], [other])
        return Struck(led, self._network.heal, HOLD_SECONDS)

    # etcd -------------------------------------------------------------------------------------

    def _kill_member(self, member: EtcdMember) -> Struck:
        struck = self._all
        member.kill()
        return Struck(struck, lambda: _begin(member), hold_s=1.0)

    def _split_etcd(self) -> Struck:
        struck, leader = self._all, self._cluster.etcd_leader()
        self._network.part([leader.name], set(MEMBERS) - {leader.name})
        return Struck(struck, self._network.heal, HOLD_SECONDS)

    def _kill_etcd(self) -> Struck:
        """Past the lease nobody may lead until it is there again."""
        struck = self._all
        self._cluster.members.kill()
        return Struck(struck, lambda: _begin(*self._cluster.members.members), HOLD_SECONDS, True)


def _begin(*members: EtcdMember) -> None:
    for member in members:
        member.spawn()
    for member in members:
        member.wait_healthy()
