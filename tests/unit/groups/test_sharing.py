"""Queue semantics of a partition: to one member at a time, never lost, never after it is done."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from nexus.groups.sharing.config import SharingConfig
from nexus.groups.sharing.deliveries import Acquired, Deliveries
from nexus.groups.sharing.effects import Bury, Confirm, Effects, Keep, Record
from nexus.groups.sharing.ranges import Ranges
from nexus.groups.sharing.stored import Stored

CONFIG = SharingConfig(visibility_ms=1000, max_deliveries=3, window=100)
EMPTY = Record(0)


def no_key(offset: int) -> bytes | None:
    return None


def key_of(offset: int) -> bytes | None:
    return None if offset % 5 == 4 else b"%d" % (offset % 3)


@pytest.fixture
def machine() -> Deliveries:
    return Deliveries(CONFIG, EMPTY)


def offsets_of(acquired: list[Acquired]) -> list[int]:
    return [offset for first, last, _ in acquired for offset in range(first, last + 1)]


def test_each_message_goes_to_one_member(machine: Deliveries) -> None:
    first, _ = machine.acquire("a", 10, 4, 0, no_key)
    second, _ = machine.acquire("b", 10, 100, 0, no_key)
    assert first == [Acquired(0, 3, 1)]
    assert second == [Acquired(4, 9, 1)]


def test_an_acknowledgement_is_confirmed_only_when_it_is_durable(machine: Deliveries) -> None:
    machine.acquire("a", 10, 4, 0, no_key)
    refused, effects = machine.accept("token", "a", [0, 2])
    assert refused == []
    assert effects == [Keep(Record(1, ((0, 0), (2, 2)), ((1, 1), (3, 1))))]
    assert machine.kept() == [Confirm("token")]


def test_acknowledgements_that_come_meanwhile_share_the_next_record(machine: Deliveries) -> None:
    machine.acquire("a", 10, 10, 0, no_key)
    machine.accept(1, "a", [0])
    assert machine.accept(2, "a", [1])[1] == []
    assert machine.accept(3, "a", [2])[1] == []
    effects = machine.kept()
    assert effects[0] == Confirm(1)
    assert isinstance(effects[1], Keep)
    assert machine.kept() == [Confirm(2), Confirm(3)]


def test_who_does_not_hold_a_message_cannot_acknowledge_it(machine: Deliveries) -> None:
    machine.acquire("a", 10, 2, 0, no_key)
    assert machine.accept("t", "b", [0, 7])[0] == [0, 7]
    machine.accept("t", "a", [0])
    assert machine.accept("t", "a", [0])[0] == [0]


def test_what_is_not_acknowledged_in_time_goes_to_another(machine: Deliveries) -> None:
    machine.acquire("a", 1, 1, 0, no_key)
    assert machine.acquire("b", 1, 1, 999, no_key)[0] == []
    assert machine.acquire("b", 1, 1, 1000, no_key)[0] == [Acquired(0, 0, 2)]
    assert machine.accept("t", "a", [0])[0] == [0]


def test_who_asks_for_more_time_has_it(machine: Deliveries) -> None:
    machine.acquire("a", 1, 1, 0, no_key)
    assert machine.renew("a", [0, 5], 900) == [5]
    assert machine.acquire("b", 1, 1, 1899, no_key)[0] == []
    assert machine.acquire("b", 1, 1, 1900, no_key)[0] == [Acquired(0, 0, 2)]


def test_what_a_member_held_that_is_gone_is_free_at_once(machine: Deliveries) -> None:
    machine.acquire("a", 3, 3, 0, no_key)
    machine.member_gone("a")
    assert machine.acquire("b", 3, 3, 0, no_key)[0] == [Acquired(0, 2, 2)]


def test_a_message_that_fails_too_often_goes_to_the_dead_letters(machine: Deliveries) -> None:
    for attempt in (1, 2):
        machine.acquire("a", 1, 1, attempt, no_key)
        machine.release("t", "a", [0])
    machine.acquire("a", 1, 1, 3, no_key)
    _, effects = machine.release("t", "a", [0])
    assert effects[0] == Bury(0, 3, "it was delivered 3 times and never acknowledged")
    assert machine.waiting(1) == 1
    machine.kept()
    machine.buried(0)
    assert machine.waiting(1) == 0


def test_a_message_can_be_sent_to_the_dead_letters_at_once(machine: Deliveries) -> None:
    machine.acquire("a", 1, 1, 0, no_key)
    assert machine.reject("t", "a", [0], "no such host")[1][0] == Bury(0, 1, "no such host")
    assert machine.acquire("b", 1, 1, 5000, no_key)[0] == []


def test_a_message_that_is_given_back_with_a_delay_waits_for_it(machine: Deliveries) -> None:
    machine.acquire("a", 1, 1, 0, no_key)
    machine.release("t", "a", [0], ready_ms=500)
    assert machine.next_deadline_ms() == 500
    assert machine.acquire("b", 1, 1, 499, no_key)[0] == []
    assert machine.acquire("b", 1, 1, 500, no_key)[0] == [Acquired(0, 0, 2)]


def test_what_could_not_be_sent_was_not_delivered(machine: Deliveries) -> None:
    machine.acquire("a", 3, 3, 0, no_key)
    machine.hand_back("a", [1, 2])
    assert machine.acquire("b", 3, 3, 0, no_key)[0] == [Acquired(1, 2, 1)]
    assert machine.accept("t", "a", [0, 1])[0] == [1]


def test_a_change_that_is_stored_twice_counts_once() -> None:
    stored = Stored(Record(0, (), ((0, 1), (7, 2))))
    for _ in range(2):
        stored.apply(Record(2, ((0, 1), (4, 5)), ((3, 1),)))
    assert stored.record() == Record(2, ((4, 5),), ((3, 1), (7, 2)))
    stored.apply(Record(8))
    assert stored.record() == Record(8)


def test_attempts_outlive_the_process(machine: Deliveries) -> None:
    machine.acquire("a", 2, 2, 0, no_key)
    stored = Stored(EMPTY)
    for effect in machine.release("t", "a", [0])[1]:
        assert isinstance(effect, Keep)
        stored.apply(effect.change)
    again = Deliveries(CONFIG, stored.record())
    assert again.acquire("b", 2, 2, 0, no_key)[0] == [Acquired(0, 1, 2)]


def test_a_burial_that_a_crash_came_before_is_done_after_it() -> None:
    again = Deliveries(CONFIG, Record(0, (), ((0, 3),)))
    acquired, effects = again.acquire("a", 2, 2, 0, no_key)
    assert acquired == [Acquired(1, 1, 1)]
    assert isinstance(effects[0], Bury)


def test_the_window_bounds_what_is_kept_in_memory(machine: Deliveries) -> None:
    assert offsets_of(machine.acquire("a", 1000, 1000, 0, no_key)[0]) == list(range(100))
    machine.accept("t", "a", range(1, 100))
    assert machine.acquire("a", 1000, 1000, 0, no_key)[0] == []
    machine.accept("t", "a", [0])
    assert offsets_of(machine.acquire("a", 1000, 1000, 0, no_key)[0]) == list(range(100, 200))


def test_what_retention_removed_is_not_waited_for(machine: Deliveries) -> None:
    machine.acquire("a", 10, 3, 0, no_key)
    machine.log_starts_at(5)
    assert machine.start == 5
    assert machine.accept("t", "a", [1])[0] == [1]
    assert machine.acquire("a", 10, 10, 5000, no_key)[0] == [Acquired(5, 9, 1)]


def test_in_order_a_key_has_one_message_in_flight() -> None:
    machine = Deliveries(SharingConfig(ordered=True), EMPTY)
    assert offsets_of(machine.acquire("a", 10, 10, 0, key_of)[0]) == [0, 1, 2, 4, 9]
    assert machine.acquire("b", 10, 10, 0, key_of)[0] == []
    machine.accept("t", "a", [0])
    assert offsets_of(machine.acquire("b", 10, 10, 0, key_of)[0]) == [3]


def test_ranges_join_and_count() -> None:
    ranges = Ranges([(5, 6)])
    for offset in (3, 4, 9, 8):
        ranges.add(offset)
    assert ranges.pairs() == ((3, 6), (8, 9))
    assert 7 not in ranges
    assert 9 in ranges
    assert ranges.count == 6
    assert ranges.cut_before(4) == 7
    assert ranges.pairs() == ((8, 9),)
    assert ranges.count == 2


@dataclass
class _Consumer:
    held: dict[int, int] = field(default_factory=dict)  # offset: until


class QueueLife(RuleBasedStateMachine):
    """Members, time and crashes in any order; what is promised is checked throughout."""

    def __init__(self) -> None:
        super().__init__()
        self.end = self.now = 0
        self.members = {name: _Consumer() for name in "abc"}
        self.durable = Stored(EMPTY)
        self.on_the_way: Record | None = None
        self.tokens: dict[int, list[int]] = {}
        self.token = 0
        self.confirmed: set[int] = set()
        self.buried: set[int] = set()
        self.kept_back: dict[int, int] = {}  # offset: until
        # Stored, but a crash came before anybody was told: either may follow.
        self.unconfirmed: set[int] = set()

    @initialize(ordered=st.booleans(), deliveries=st.integers(1, 4))
    def begin(self, ordered: bool, deliveries: int) -> None:
        self.config = SharingConfig(1000, deliveries, 30, ordered)
        self.machine = Deliveries(self.config, EMPTY)

    def carry_out(self, effects: Effects) -> None:
        for effect in effects:
            match effect:
                case Keep(change):
                    assert self.on_the_way is None, "two changes on their way"
                    self.on_the_way = change
                case Confirm(token):
                    assert isinstance(token, int)
                    self.confirmed |= set(self.tokens.pop(token))
                case Bury(offset, attempts, _):
                    assert attempts <= self.config.max_deliveries
                    self.buried.add(offset)
                    self.carry_out(self.machine.buried(offset))

    @rule(count=st.integers(1, 10))
    def produce(self, count: int) -> None:
        self.end += count

    @rule(name=st.sampled_from("abc"), limit=st.integers(1, 8))
    def take(self, name: str, limit: int) -> None:
        self.carry_out(self.machine.tick(self.now))
        may_give = self.machine.may_give(self.end)
        acquired, effects = self.machine.acquire(name, self.end, limit, self.now, key_of)
        assert may_give or not acquired, "who waited would not have been woken"
        self.carry_out(effects)
        self.forget_expired()
        for offset in offsets_of(acquired):
            assert offset not in self.confirmed, "delivered after it was confirmed"
            assert self.kept_back.pop(offset, 0) <= self.now, "delivered before its time"
            assert not any(offset in member.held for member in self.members.values())
            if self.config.ordered and key_of(offset) is not None:
                held = {key_of(at) for member in self.members.values() for at in member.held}
                assert key_of(offset) not in held, "two of one key in flight"
            self.members[name].held[offset] = self.now + self.config.visibility_ms

    @rule(
        name=st.sampled_from("abc"),
        skip=st.integers(0, 3),
        count=st.integers(1, 5),
        how=st.sampled_from("aaarjdh"),
    )
    def settle(self, name: str, skip: int, count: int, how: str) -> None:
        self.carry_out(self.machine.tick(self.now))
        self.forget_expired()
        held = self.members[name].held
        offsets = sorted(held)[skip : skip + count]
        self.token += 1
        self.tokens[self.token] = offsets if how == "a" else []
        if how == "a":
            refused, effects = self.machine.accept(self.token, name, offsets)
        elif how in "rd":
            until = self.now + 50 if how == "d" else 0
            refused, effects = self.machine.release(self.token, name, offsets, until)
            self.kept_back |= dict.fromkeys(offsets, until)
        elif how == "h":
            refused, effects = self.machine.hand_back(name, offsets), [Confirm(self.token)]
        else:
            refused, effects = self.machine.reject(self.token, name, offsets, "bad")
        assert refused == []
        for offset in offsets:
            del held[offset]
        self.carry_out(effects)

    @rule(name=st.sampled_from("abc"), count=st.integers(1, 5))
    def renew(self, name: str, count: int) -> None:
        self.carry_out(self.machine.tick(self.now))
        self.forget_expired()
        held = self.members[name].held
        offsets = sorted(held)[:count]
        assert self.machine.renew(name, offsets, self.now) == []
        held |= dict.fromkeys(offsets, self.now + self.config.visibility_ms)

    @rule(ms=st.sampled_from((1, 10, 100, 600)))
    def wait(self, ms: int) -> None:
        self.now += ms

    @rule(name=st.sampled_from("abc"))
    def leave(self, name: str) -> None:
        self.carry_out(self.machine.member_gone(name))
        self.members[name].held.clear()

    @rule()
    def disk_is_done(self) -> None:
        if self.on_the_way is not None:
            self.durable.apply(self.on_the_way)
            self.on_the_way = None
            self.carry_out(self.machine.kept())

    @rule(written=st.booleans(), chance=st.integers(0, 3))
    def crash(self, written: bool, chance: int) -> None:
        if chance:
            return
        if written and self.on_the_way is not None:
            self.durable.apply(self.on_the_way)
            self.unconfirmed |= {at for told in self.tokens.values() for at in told}
        self.on_the_way = None
        self.tokens.clear()
        self.kept_back.clear()
        self.machine = Deliveries(self.config, self.durable.record())
        for member in self.members.values():
            member.held.clear()

    def forget_expired(self) -> None:
        for member in self.members.values():
            member.held = {at: until for at, until in member.held.items() if until > self.now}

    @invariant()
    def counts_what_waits(self) -> None:
        if hasattr(self, "machine"):
            assert self.machine.waiting(self.end) >= self.end - self.machine.start - 30

    def teardown(self) -> None:
        """In the end every message is done with or among the dead letters."""
        if not hasattr(self, "machine"):
            return
        for _ in range(10_000):
            self.now += 1000
            acquired, effects = self.machine.acquire("z", self.end, 100, self.now, key_of)
            self.carry_out(effects)
            offsets = offsets_of(acquired)
            assert not self.confirmed & set(offsets)
            self.token += 1
            self.tokens[self.token] = offsets
            self.carry_out(self.machine.accept(self.token, "z", offsets)[1])
            self.disk_is_done()
            self.disk_is_done()
            if self.machine.start == self.end:
                break
        assert self.machine.waiting(self.end) == 0
        everyone = set(range(self.end))
        assert everyone - self.unconfirmed <= self.confirmed | self.buried <= everyone


TestQueueLife = QueueLife.TestCase
TestQueueLife.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
