"""A broker of the simulated cluster, and what all of them together have promised.

Its disk, its memory and its part in the cluster; the network, the agreed store and time are the
simulation's (`cluster_sim`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nexus.cluster.controlling import Seen, needed, preferred
from nexus.cluster.following import AskEpoch, Following
from nexus.cluster.leading import Leading
from nexus.cluster.partition_state import PartitionState
from nexus.log.epochs import LeaderEpochs

if TYPE_CHECKING:
    from support.cluster_sim import Sim

KEY = ("t", 0)
LEASE_S = 3.0


class Broken(AssertionError):
    """Raised when a promise is broken."""


@dataclass
class Promises:
    """What was promised, and what therefore must hold."""

    leaders: dict[int, int] = field(default_factory=dict)  # by epoch
    acked: dict[int, tuple[int, int]] = field(default_factory=dict)  # offset: value, epoch
    shown: int = 0  # the highest watermark that a client may have seen
    committed: list[tuple[int, int]] = field(default_factory=list)

    def leads(self, broker: Broker) -> None:
        leading = broker.leading
        assert leading is not None
        epoch = leading.state.epoch
        is_new = epoch not in self.leaders
        if self.leaders.setdefault(epoch, broker.node) != broker.node:
            raise Broken(f"epoch {epoch}: {self.leaders[epoch]} and {broker.node} lead")
        is_newest = epoch == max(self.leaders)
        if is_newest and leading.is_settled and leading.high_watermark < self.shown:
            raise Broken(f"the watermark went back to {leading.high_watermark} from {self.shown}")
        if is_new:  # a leader only adds to its log
            self.keeps_acknowledged(broker, epoch)

    def keeps_acknowledged(self, broker: Broker, epoch: int) -> None:
        for offset, (value, acked_in) in self.acked.items():
            is_there = offset < len(broker.log) and broker.log[offset][1] == value
            if acked_in < epoch and not is_there:
                raise Broken(f"{value} at {offset} was acknowledged and is lost in {epoch}")

    def watermarks(self, brokers: list[Broker]) -> None:
        for broker in brokers:
            known, seen = broker.watermark, broker.checked
            if known == seen:
                continue
            self.committed += broker.log[len(self.committed) : known]
            if broker.log[seen:known] != self.committed[seen:known]:
                raise Broken(f"broker {broker.node} differs below its watermark {known}")
            broker.checked = known

    def acknowledged(self, offset: int, value: int, epoch: int) -> None:
        if any(value == other for at, (other, _) in self.acked.items() if at != offset):
            raise Broken(f"{value} was acknowledged twice")
        self.acked[offset] = (value, epoch)


class Broker:
    """One broker with one partition: its disk, its memory, and its part in the cluster."""

    def __init__(self, sim: Sim, node: int) -> None:
        self.sim, self.node = sim, node
        self.log: list[tuple[int, int]] = []  # epoch, value
        self.epochs = LeaderEpochs(Path("unused"))
        self.flushed = 0
        self.watermark = 0
        self.kept_watermark = 0
        self.checked = 0  # up to here the log is known to be what everyone agreed on
        self.incarnation = 0
        self.is_up = False
        self.paused_until = -1.0
        self.start()

    def start(self) -> None:
        self.is_up = True
        self.incarnation += 1
        self.paused_until = -1.0
        self.leading: Leading | None = None
        self.following: Following | None = None
        self.known: PartitionState | None = None
        self.fit: dict[int, int] = {}  # as of the last look; it keeps all that it has told
        self.registered: int | None = None  # the version at which this process was admitted
        self.waiting: list[tuple[int, int, Callable[[int], None]]] = []
        self.renewed_at = -1e9
        self.flushed = len(self.log)  # the tail is made safe before it is served
        self.watermark = min(self.kept_watermark, self.flushed)
        self._every(0.4, self._renew)
        self._every(0.2, self._look_after)
        self._every(0.1, self._fetch)
        self._every(0.7, self._lead_cluster)

    def crash(self, power_cut: bool) -> None:
        self.is_up = False
        if power_cut:
            kept = self.sim.random.randint(self.flushed, len(self.log))
            self._cut_log(kept)
        self.kept_watermark = self.sim.random.randint(0, self.watermark)
        if self.sim.faulty:
            self.sim.after(self.sim.random.uniform(0.2, 6.0), self._start_again)

    def _start_again(self) -> None:
        if not self.is_up:
            self.start()

    def pause(self, seconds: float) -> None:
        self.paused_until = self.sim.now + seconds

    def _every(self, seconds: float, call: Callable[[], None]) -> None:
        mine = self.incarnation

        def again() -> None:
            if mine != self.incarnation or not self.is_up:
                return
            if self.sim.now >= self.paused_until:
                call()
            self.sim.after(seconds * self.sim.random.uniform(0.8, 1.2), again)

        self.sim.after(seconds * self.sim.random.random(), again)

    def _here(self, call: Callable[..., None], *arguments: Any) -> Callable[[], None]:
        """A call that finds this process, or nobody; a paused one takes it later."""
        mine = self.incarnation

        def arrive() -> None:
            if mine != self.incarnation or not self.is_up:
                return
            if self.sim.now < self.paused_until:
                self.sim.after(self.paused_until - self.sim.now, arrive)
                return
            call(*arguments)

        return arrive

    # With the store.

    def _renew(self) -> None:
        sent = self.sim.now
        mine = self.incarnation

        def arrive() -> None:
            held = self.sim.leases.get(self.node)
            if held is None or held[0] != mine or held[1] <= self.sim.now:
                # A new process, or one whose lease ran out: whatever it led is over, and the
                # controller sees that by the versions.
                self.sim.version += 1
                admitted = self.sim.version
            else:
                admitted = held[2]
            self.sim.leases[self.node] = (mine, self.sim.now + LEASE_S, admitted)
            self.sim.send("store", self.node, self._here(self._renewed, sent, admitted))

        self.sim.send(self.node, "store", arrive)

    def _renewed(self, sent: float, admitted: int) -> None:
        self.renewed_at = max(self.renewed_at, sent)
        if admitted != self.registered:
            self.registered = admitted
            self.known = None  # what was learned before may be a leadership of this process
            self._step_down()
        self.look()

    def look(self) -> None:
        """Read the store."""

        def arrive() -> None:
            state, live = self.sim.state, self.sim.live()
            self.sim.send("store", self.node, self._here(self._learn, state, live))

        if self.is_up:
            self.sim.send(self.node, "store", arrive)

    def _learn(self, state: PartitionState, live: set[int]) -> None:
        self.fit = dict.fromkeys(live, 0)
        if self.known is not None and state.version <= self.known.version:
            return
        self.known = state
        if self.leading is not None and state.epoch == self.leading.state.epoch:
            self._moved(self.leading.agreed(state))
            return
        self._step_down()
        admitted = self.registered is not None and state.version > self.registered
        if state.leader == self.node and admitted:
            self._become_leader(state)
        elif state.leader not in (self.node, -1):
            self.following = Following(state.leader, state.epoch)

    def _become_leader(self, state: PartitionState) -> None:
        self.following = None
        end = len(self.log)
        self.epochs.note(state.epoch, end)
        self.leading = Leading(
            self.node, state, self.sim.rules, end, self.flushed, self.watermark, self.sim.now
        )

    def _step_down(self) -> None:
        self.leading, self.following = None, None
        self.waiting.clear()

    def _look_after(self) -> None:
        """Flush, propose, and stop in time."""
        self.flushed = len(self.log)
        leading = self.leading
        if leading is None:
            return
        self._moved(leading.was_flushed(self.flushed))
        proposal = leading.propose(self.sim.now, self.fit)
        if proposal is not None:
            self._ask_for(leading, proposal)

    def _ask_for(self, leading: Leading, proposal: PartitionState) -> None:
        """Ask until there is an answer: the same change twice is one, since it is compared."""
        if leading is not self.leading or leading.proposal is not proposal:
            return

        def arrive() -> None:
            taken = self.sim.write(proposal)
            answer = self._here(self._answered, leading, proposal, taken)
            self.sim.send("store", self.node, answer)

        self.sim.send(self.node, "store", arrive)
        self.sim.after(1.0, self._here(self._ask_for, leading, proposal))

    def _answered(self, leading: Leading, proposal: PartitionState, taken: bool) -> None:
        """Taken or not, what holds now is in the store, at a newer version."""
        if leading is self.leading and leading.proposal is proposal:
            self.look()

    # Between brokers.

    def _fetch(self) -> None:
        following = self.following
        if following is None:
            return
        leader = self.sim.brokers[following.leader]
        asked = following.next(self.epochs, len(self.log))
        # It says what it has safely: flushed before it asks.
        self.flushed = len(self.log)
        if isinstance(asked, AskEpoch):
            call = leader._here(leader._on_ask_epoch, self, following, asked.epoch)
        else:
            call = leader._here(leader._on_fetch, self, following, asked.offset)
        self.sim.send(self.node, leader.node, call)

    def _on_ask_epoch(self, who: Broker, following: Following, epoch: int) -> None:
        if self.leading is None or self.leading.state.epoch != following.epoch:
            return
        found = self.epochs.end_for(epoch, len(self.log))
        self.sim.send(self.node, who.node, who._here(who._on_epoch, following, epoch, *found))

    def _on_epoch(self, following: Following, asked: int, epoch: int, end: int) -> None:
        if following is not self.following or following.is_aligned or asked != self.epochs.latest:
            return
        cut = following.epoch_ends(self.epochs, len(self.log), epoch, end)
        if cut is not None:
            if cut < self.watermark:
                raise Broken(f"broker {self.node} cuts to {cut} below {self.watermark}")
            self._cut_log(cut)

    def _on_fetch(self, who: Broker, following: Following, offset: int) -> None:
        leading = self.leading
        if leading is None or leading.state.epoch != following.epoch:
            return
        self._moved(leading.fetched(who.node, following.epoch, offset, self.sim.now))
        found = self.log[offset : offset + 5]
        answer = who._here(who._on_records, following, offset, found, leading.high_watermark)
        self.sim.send(self.node, who.node, answer)

    def _on_records(
        self, following: Following, offset: int, found: list[tuple[int, int]], watermark: int
    ) -> None:
        if following is not self.following or offset != len(self.log):
            return
        for epoch, value in found:
            self.epochs.note(epoch, len(self.log))
            self.log.append((epoch, value))
        self.watermark = max(self.watermark, min(watermark, len(self.log)))

    def _cut_log(self, end: int) -> None:
        del self.log[end:]
        self.epochs.cut_end(end)
        self.flushed = min(self.flushed, end)
        self.watermark = min(self.watermark, end)
        self.checked = min(self.checked, end)

    # For clients.

    def on_produce(self, value: int, answer: Callable[[int], None]) -> None:
        leading = self.leading
        if leading is None or not leading.takes_writes:
            return
        known = next((at for at, (_, v) in enumerate(self.log) if v == value), None)
        offset = len(self.log) if known is None else known
        if known is None:
            self.log.append((leading.state.epoch, value))
            leading.appended(len(self.log))
        self.waiting.append((offset, leading.state.epoch, answer))
        self._moved(True)

    def _moved(self, has: bool) -> None:
        leading = self.leading
        if leading is None or not has:
            return
        self.watermark = max(self.watermark, leading.high_watermark)
        if leading.is_settled:
            self.sim.watch.shown = max(self.sim.watch.shown, leading.high_watermark)
        safe = [w for w in self.waiting if w[0] < leading.high_watermark]
        self.waiting = [w for w in self.waiting if w[0] >= leading.high_watermark]
        for offset, epoch, answer in safe:
            self.sim.watch.acknowledged(offset, self.log[offset][1], epoch)
            answer(offset)

    # As the controller.

    def _lead_cluster(self) -> None:
        if self.registered is None:
            return
        deadline = self.renewed_at + LEASE_S
        if self.sim.now >= deadline:
            return
        mine = self.incarnation

        def arrive() -> None:
            sim = self.sim
            held = sim.leases.get(self.node)
            if held is None or held[0] != mine or held[1] <= sim.now:
                return
            if sim.controller is None or sim.controller[0] not in sim.live():
                sim.version += 1
                sim.controller = (self.node, sim.version)
            if sim.controller[0] == self.node:
                answer = self._here(self._decide, sim.controller[1], sim.registered(), sim.state)
                sim.send("store", self.node, answer)

        self.sim.send(self.node, "store", arrive)

    def _decide(self, token: int, registered: dict[int, int], state: PartitionState) -> None:
        seen = Seen(set(registered), {KEY: state}, registered=registered)
        change = needed(seen).get(KEY)
        if change is None and self.sim.random.random() < 0.2:
            change = preferred(seen).get(KEY)
        if change is not None:
            found = change

            def arrive() -> None:
                self.sim.write(found, token)

            self.sim.send(self.node, "store", arrive)
