"""What claim workers decide without asking anybody: runs, ranges, groups, attempts, history."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nexus.etcd import Delete, Fence, GetResult, Keys, KeyValue, Limits, Put, TooManyOperations, Txn
from nexus.queue.etcd.attempts import Failure, Places, next_failure
from nexus.queue.etcd.compaction import History
from nexus.queue.etcd.counts import Tally
from nexus.queue.etcd.hands import Claimed, Hand, Record
from nexus.queue.etcd.layout import Layout, Slot
from nexus.queue.etcd.owned import OwnedSlot
from nexus.queue.etcd.picking import cut, runs_of
from nexus.queue.etcd.settling import (
    Settlement,
    acknowledged,
    apply,
    buried,
    check,
    failed,
    grouped,
    parts_of,
    runs,
    transaction,
)

SLOT = Slot("c1", 3)
LAYOUT = Layout("/q")
PLACES = Places(LAYOUT, SLOT)


def item(key: bytes, revision: int = 5) -> KeyValue:
    return KeyValue(key, b"v", revision, revision, 1, 0)


def hand_of(*keys: bytes, revision: int = 10) -> Hand:
    hand = Hand(SLOT, Fence(b"owner", 2), b"record", keys[0], keys[-1], "ann")
    hand.filled(map(item, keys), revision, {})
    return hand


def acks(hand: Hand, *keys: bytes, puts: int = 0) -> list[Settlement]:
    claims = [hand.pending[key] for key in keys]
    return [
        acknowledged(PLACES, each, [Put(each.key + b"-%d" % n) for n in range(puts)])
        for each in claims
    ]


def range_of(first: bytes, last: bytes) -> Keys:
    return Keys(first, last + b"\x00")


def keys_in(listed: str, taken: str = "", alone: str = "") -> list[str]:
    found = runs_of(
        [item(letter.encode()) for letter in listed],
        lambda each: each.key.decode() in taken,
        lambda key: key.decode() in alone,
    )
    return ["".join(key.decode() for key in run) for run in found]


def test_a_run_ends_at_what_is_in_hand_and_one_that_failed_is_alone() -> None:
    assert keys_in("abcdef") == ["abcdef"]
    assert keys_in("abcdef", taken="bc") == ["a", "def"]
    assert keys_in("abcdef", alone="cd") == ["ab", "c", "d", "ef"]
    assert keys_in("abcdef", taken="c", alone="cf") == ["ab", "de", "f"]


def test_a_claim_holds_as_many_readings_as_asked_for_and_at_least_one_message() -> None:
    packed = [b"/q/c1/3/1_h_packed-500_%010d" % n for n in range(4)]
    listed = deque([list(packed)])
    assert cut(listed, 1000, 100) == packed[:2]
    assert cut(listed, 10, 100) == packed[2:3]
    assert cut(listed, 9999, 100) == packed[3:]
    assert cut(listed, 10, 100) == []
    assert cut(deque([[b"a", b"b", b"c"]]), 100, 2) == [b"a", b"b"]


def test_ranges_are_deleted_between_keys_that_stay() -> None:
    hand = hand_of(b"a", b"b", b"c", b"d", b"e")
    assert runs(hand, acks(hand, b"a", b"b", b"d")) == [range_of(b"a", b"b"), range_of(b"d", b"d")]
    hand.barriers |= {b"ax", b"d"}
    everything = acks(hand, b"a", b"b", b"c", b"d", b"e")
    assert runs(hand, everything) == [
        range_of(b"a", b"a"),
        range_of(b"b", b"c"),
        range_of(b"e", b"e"),
    ]


@settings(max_examples=50)
@given(
    in_hand=st.sets(st.binary(min_size=1, max_size=3), min_size=1),
    late=st.sets(st.binary(min_size=1, max_size=3)),
    data=st.data(),
)
def test_exactly_what_was_settled_is_deleted_whatever_lies_between(
    in_hand: set[bytes], late: set[bytes], data: st.DataObject
) -> None:
    hand = hand_of(*sorted(in_hand))
    hand.barriers |= late
    settled = sorted(data.draw(st.sets(st.sampled_from(sorted(in_hand)))))
    ranges = runs(hand, acks(hand, *settled))
    deleted = {
        key for key in in_hand | late if any(keys.start <= key < keys.end for keys in ranges)
    }
    assert deleted == set(settled) - late


def test_a_transaction_settles_part_of_a_hand_and_keeps_the_record_of_the_rest() -> None:
    hand = hand_of(b"a", b"b", b"c")
    txn = whole(hand, acks(hand, b"a"))
    kept = [put for put in txn.then if isinstance(put, Put) and put.key == b"record"]
    assert [Record.of(put.value) for put in kept] == [Record("ann", b"b", b"c")]
    apply({hand: acks(hand, b"a")})
    last = whole(hand, acks(hand, b"b", b"c"))
    assert Delete(Keys(b"record")) in last.then
    assert Delete(range_of(b"b", b"c")) in last.then


def test_of_two_puts_of_one_key_the_later_messages_remains() -> None:
    hand = hand_of(b"a", b"b")
    settled = [
        acknowledged(PLACES, hand.pending[key], [Put(b"latest", key)]) for key in (b"a", b"b")
    ]
    puts = [put for put in whole(hand, settled).then if isinstance(put, Put)]
    assert [put.value for put in puts if put.key == b"latest"] == [b"b"]


def whole(hand: Hand, settled: list[Settlement]) -> Txn:
    tally = Tally(b"taken")
    step = tally.step(tally.count, 0)
    return transaction({hand: settled}, step, tally.get)


@settings(max_examples=50)
@given(
    puts=st.lists(st.integers(0, 9), min_size=1, max_size=60),
    operations=st.integers(14, 40),
    data=st.data(),
)
def test_groups_fit_the_servers_limit_and_hold_everything_in_order(
    puts: list[int], operations: int, data: st.DataObject
) -> None:
    keys = [b"%04d" % n for n in range(len(puts))]
    hand = hand_of(*keys)
    fails = data.draw(st.sets(st.sampled_from(keys)))
    settled = [
        failed(PLACES, hand.pending[key], Failure(1, "no", "ann", 0), leased=False)
        if key in fails
        else acks(hand, key, puts=count)[0]
        for key, count in zip(keys, puts, strict=True)
    ]
    groups = grouped(settled, Limits(operations, 1 << 20))
    assert [each for group in groups for each in group] == settled
    for group in groups:
        txn = whole(hand, group)
        assert len(txn.then) <= operations
        assert len(txn.when) <= max(operations, 4)
        apply({hand: group})


def test_a_full_default_transaction_holds_125_stored_messages() -> None:
    hand = hand_of(*(b"%04d" % n for n in range(125)))
    settled = acks(hand, *hand.pending, puts=1)
    assert len(grouped(settled, Limits(128, 1 << 20))) == 1
    assert len(whole(hand, settled).then) == 128


def test_what_one_transaction_cannot_hold_goes_ahead_and_the_rest_with_the_last() -> None:
    hand = hand_of(b"a")
    (settled,) = acks(hand, b"a", puts=300)
    ahead, rest = parts_of(settled, Limits(128, 1 << 20))
    assert [len(part) for part in ahead] == [125, 125]
    assert len(rest.effects) == 50
    assert [*ahead[0], *ahead[1], *rest.effects] == list(settled.effects)
    large = settled._replace(effects=(Put(b"x", bytes(700_000)), Put(b"y", bytes(700_000))))
    ahead, rest = parts_of(large, Limits(128, 1 << 20))
    assert ([len(part) for part in ahead], len(rest.effects)) == ([1], 1)


def test_too_much_for_one_step_is_said_with_what_to_do() -> None:
    hand = hand_of(b"a")
    with pytest.raises(TooManyOperations, match=r"303 operations .* --max-txn-ops"):
        check(whole(hand, acks(hand, b"a", puts=300)), Limits(128, 1 << 20))


def test_a_dead_letter_keeps_its_value_and_its_reason() -> None:
    key = LAYOUT.message(SLOT, 1, "h", "0", 7)
    hand = hand_of(key)
    claimed = hand.pending[key]._replace(attempts=4)
    settled = buried(PLACES, claimed, Failure(5, "bad", "ann", 1))
    puts = {effect.key: effect.value for effect in settled.effects if isinstance(effect, Put)}
    name = key.rpartition(b"/")[2]
    assert puts[b"/q.dlq/c1/3/" + name] == b"v"
    assert Failure.of(puts[b"/q.meta/dead/c1/3/" + name]) == Failure(5, "bad", "ann", 1)
    assert Delete(Keys(b"/q.meta/failed/c1/3/" + name)) in settled.effects
    assert settled.gone


def test_each_failure_waits_longer_than_the_one_before() -> None:
    waits = [Failure(n, "", "", 1000).again_at_ms(1.0) - 1000 for n in (1, 2, 3, 4, 40)]
    assert waits == [1000, 2000, 4000, 8000, 300_000]


def test_a_failures_record_reads_back_and_nonsense_counts_as_one() -> None:
    failure = next_failure(2, "x" * 900, "ann", 5)
    assert failure.attempts == 3
    assert len(failure.reason) == 500
    assert Failure.of(failure.to_json()) == failure
    assert Failure.of(b"[]").attempts == Failure.of(b"{").attempts == 1


def test_a_record_reads_back_whatever_the_keys_are() -> None:
    record = Record("ann", b"/q/\xff\x00a", b"/q/b")
    assert Record.of(record.to_json()) == record
    assert Record.of(b"nonsense") is None


class TestListing:
    """What an owned slot asks for and makes of the answer."""

    def owned(self) -> OwnedSlot:
        return OwnedSlot(LAYOUT, SLOT, Fence(b"o", 1), retry_s=1.0, clock=lambda: 100.0)

    def listing(self, owned: OwnedSlot, *keys: bytes, total: int | None = None) -> None:
        owned.question()
        owned.listed(GetResult(9, tuple(map(item, keys)), total or len(keys), False))

    def test_what_is_in_hand_is_not_listed_again(self) -> None:
        owned = self.owned()
        self.listing(owned, b"a", b"b", b"c")
        hand = owned.reach(2, 100, "ann")
        assert hand is not None
        hand.filled([item(b"a"), item(b"b")], 10, {})
        self.listing(owned, b"a", b"ab", b"b", b"c")
        reached = [owned.reach(9, 100, "ann") for _ in range(2)]
        assert [(r.first, r.last) for r in reached if r] == [(b"ab", b"ab"), (b"c", b"c")]

    def test_what_was_settled_while_it_was_listed_is_not_claimed_again(self) -> None:
        owned = self.owned()
        self.listing(owned, b"a", b"b")
        hand = owned.reach(9, 100, "ann")
        assert hand is not None
        hand.filled([item(b"a"), item(b"b")], 10, {})
        owned.question()
        settled = acks(hand, b"a", b"b")
        apply({hand: settled})
        owned.settled(hand, [b"a", b"b"])
        owned.listed(GetResult(9, (item(b"a"), item(b"b")), 2, False))
        assert not owned.ready

    def test_a_failed_message_waits_and_then_comes_alone(self) -> None:
        owned = self.owned()
        owned.failures[b"b"] = Failure(1, "", "", 99_500)
        self.listing(owned, b"a", b"b", b"c")
        assert [owned.reach(9, 9, "x") for _ in range(2)][-1] is not None
        assert owned.reach(9, 9, "x") is None
        later = self.owned()
        later.failures[b"b"] = Failure(1, "", "", 98_500)
        self.listing(later, b"a", b"b", b"c")
        reached = [later.reach(9, 9, "x") for _ in range(3)]
        assert [r.first for r in reached if r] == [b"a", b"b", b"c"]

    def test_only_what_is_new_is_listed_when_all_was_listed_just_now(self) -> None:
        owned = self.owned()
        assert owned.question().keys == LAYOUT.slot(SLOT)
        key = LAYOUT.message(SLOT, 50_000_000_000, "h", "0", 1)
        self.listing(owned, key, total=100_000)
        again = owned.question()
        assert again.keys == LAYOUT.slot(SLOT).after(key)
        assert again.limit == 12_500
        recent = owned.question(recent=True)
        assert recent.keys.start == b"/q/c1/3/" + b"%019d" % 40_000_000_000

    def test_a_listing_that_was_cut_short_is_gone_on_with_where_it_ended(self) -> None:
        owned = self.owned()
        early, late = (LAYOUT.message(SLOT, at, "h", "0", 1) for at in (10, 90))
        self.listing(owned, early, late)
        assert owned.question().keys.start == late + b"\x00"
        owned.listed(GetResult(9, (item(early),), 2, True))
        assert owned.question().keys.start == early + b"\x00"


class TestHistory:
    def test_only_what_is_old_and_much_is_forgotten(self) -> None:
        history = History(keep_s=30, changes=1000)
        history.note(0, 500)
        assert history.due(29) is None
        assert history.due(30) is None  # 500 revisions are not worth it
        history.note(31, 2000)
        assert history.due(40) is None
        assert history.due(61) == 2000
        history.note(62, 2500)
        assert history.due(100) is None

    def test_nothing_is_due_before_anything_was_seen(self) -> None:
        assert History().due(1e9) is None


def test_a_claimed_message_counts_its_readings_and_unpacks() -> None:
    key = b"/q/c1/3/1_h_packed-500_0000000001"
    hand = hand_of(key)
    claimed = hand.pending[key]
    assert isinstance(claimed, Claimed)
    assert claimed.readings == 500
    assert [frame.value for frame in claimed.messages()] == [b"v"]
    assert claimed.slot == SLOT
