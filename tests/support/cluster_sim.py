"""A cluster in one process with a clock of its own: seeded drops, delays, crashes and restarts.

The decisions are the product's (`nexus.cluster`); what is made up here is the network, the disks,
the agreed store and time. Every step checks what must never be broken, and a failing seed fails
again in the same way.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from nexus.cluster.leading import Rules
from nexus.cluster.partition_state import PartitionState, first_state
from support.cluster_sim_broker import Broker, Promises


@dataclass
class Faults:
    """How bad it gets."""

    drop: float = 0.02
    delay_s: float = 0.05
    crash_every_s: float = 6.0
    cut_every_s: float = 8.0
    power_cut: float = 0.5  # of crashes: what is not flushed is gone
    pause: float = 0.3  # of crashes: it only stands still, and does not know
    store_cut: float = 0.5  # of cuts: between a broker and the store

    @classmethod
    def drawn(cls, draw: random.Random) -> Faults:
        return cls(
            drop=draw.choice((0.0, 0.02, 0.1)),
            delay_s=draw.choice((0.01, 0.05, 0.3)),
            crash_every_s=draw.choice((2.0, 6.0, 1000.0)),
            cut_every_s=draw.choice((1.0, 3.0, 8.0)),
            power_cut=draw.random(),
            pause=draw.random(),
        )


class Sim:
    """The network, the clock and the agreed store."""

    def __init__(self, seed: int, brokers: int = 3, faults: Faults | None = None) -> None:
        self.random = random.Random(seed)
        self.faults = faults or Faults.drawn(self.random)
        self.rules = Rules(
            lag_s=self.random.choice((0.6, 2.0)),
            lag_records=3,
            min_in_sync=self.random.choice((1, 2)),
        )
        self.now = 0.0
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self.cut: set[frozenset[int | str]] = set()
        # The agreed store.
        self.version = 1
        self.state = replace(first_state(tuple(range(brokers)), range(brokers)), version=1)
        self.leases: dict[int, tuple[int, float, int]] = {}  # incarnation, until, admitted at
        self.controller: tuple[int, int] | None = None  # broker, token
        self.watch = Promises()
        self.brokers = [Broker(self, node) for node in range(brokers)]
        self.clients = [Client(self, n) for n in range(2)]
        self.faulty = True
        self.quiet = False  # whether clients have stopped

    def after(self, delay: float, call: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._queue, (self.now + delay, self._count, call))

    def run(self, seconds: float) -> None:
        until = self.now + seconds
        while self._queue and self._queue[0][0] <= until:
            self.now, _, call = heapq.heappop(self._queue)
            call()
            self.check()
        self.now = until

    def send(self, source: int | str, target: int | str, call: Callable[[], None]) -> None:
        """Carry a message, unless it is lost on the way."""
        if frozenset((source, target)) in self.cut or self._dropped():
            return
        self.after(self.random.expovariate(1 / self.faults.delay_s), call)

    def _dropped(self) -> bool:
        return self.faulty and self.random.random() < self.faults.drop

    # The agreed store, as etcd is: one change at a time, each compared with what it replaces.

    def write(self, state: PartitionState, token: int | None = None) -> bool:
        holds = token is None or (self.controller is not None and self.controller[1] == token)
        if not holds or state.version != self.state.version or not self._leads_on(state):
            return False
        self.version += 1
        self.state = replace(state, version=self.version)
        for broker in self.brokers:
            self.send("store", broker.node, broker.look)
        return True

    def _leads_on(self, state: PartitionState) -> bool:
        """Whether an epoch that goes on is led by the process that was elected."""
        admitted = self.registered().get(state.leader, 0)
        return state.epoch != self.state.epoch or admitted < state.version

    def registered(self) -> dict[int, int]:
        return {node: at for node, (_, until, at) in self.leases.items() if until > self.now}

    def live(self) -> set[int]:
        return set(self.registered())

    def check(self) -> None:
        for broker in self.brokers:
            if broker.is_up and broker.leading is not None:
                self.watch.leads(broker)
        self.watch.watermarks(self.brokers)

    def cause_faults(self) -> None:
        self.after(self.random.expovariate(1 / self.faults.crash_every_s), self._crash)
        self.after(self.random.expovariate(1 / self.faults.cut_every_s), self._cut)

    def _crash(self) -> None:
        if not self.faulty:
            return
        broker = self.random.choice(self.brokers)
        if broker.is_up:
            if self.random.random() < self.faults.pause:
                broker.pause(self.random.uniform(0.5, 8.0))
            else:
                broker.crash(self.random.random() < self.faults.power_cut)
        self.after(self.random.expovariate(1 / self.faults.crash_every_s), self._crash)

    def _cut(self) -> None:
        if not self.faulty:
            return
        nodes: list[int | str] = [broker.node for broker in self.brokers]
        first, second = self.random.sample(nodes, 2)
        pair = frozenset(
            (first, "store" if self.random.random() < self.faults.store_cut else second)
        )
        self.cut.add(pair)
        self.after(self.random.uniform(0.5, 6.0), lambda: self.cut.discard(pair))
        self.after(self.random.expovariate(1 / self.faults.cut_every_s), self._cut)

    def heal(self) -> None:
        self.faulty = False
        self.cut.clear()
        for broker in self.brokers:
            if not broker.is_up:
                broker.start()


class Client:
    """Produces one value after the other, each until it is acknowledged."""

    def __init__(self, sim: Sim, number: int) -> None:
        self.sim, self.number = sim, number
        self.acked = 0
        self._value = 0
        sim.after(0.1, self._next)

    def _next(self) -> None:
        self._value += 1
        self._try(self._value)

    def _try(self, value: int) -> None:
        sim = self.sim
        if value != self._value or sim.quiet:
            return
        broker = sim.random.choice(sim.brokers)
        if broker.leading is None:
            broker = sim.brokers[max(sim.state.leader, 0)]
        answer = broker._here(broker.on_produce, self._named(value), lambda at: self._done(value))
        sim.send(f"client{self.number}", broker.node, answer)
        sim.after(0.8, lambda: self._try(value))

    def _done(self, value: int) -> None:
        if value == self._value:
            self.acked += 1
            self.sim.after(0.05, self._next)

    def _named(self, value: int) -> int:
        return value * 10 + self.number
