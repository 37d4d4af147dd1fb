"""Who owns which slot: shared out evenly, moved seldom, and agreed on by everybody."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from nexus.etcd import KeyValue
from nexus.queue.etcd.layout import Slot
from nexus.queue.etcd.owners import EVERY, Span, View, share, spans_of

SLOTS = [Slot("c1", partition) for partition in range(12)]
names = st.sampled_from(["ann", "bob", "cid", "dan", "eve"])


def held(owner: str, token: int = 1) -> KeyValue:
    return KeyValue(b"k", owner.encode(), token, token, 1, 9)


def test_slots_are_shared_evenly() -> None:
    shared = share(SLOTS, dict.fromkeys(("ann", "bob", "cid", "dan", "eve"), EVERY), {})
    assert sorted(Counter(shared.values()).values()) == [2, 2, 2, 3, 3]


def test_a_new_worker_gets_its_share_and_nothing_else_moves() -> None:
    before = share(SLOTS, {"ann": EVERY, "bob": EVERY}, {})
    after = share(SLOTS, {"ann": EVERY, "bob": EVERY, "cid": EVERY}, before)
    assert Counter(after.values()) == {"ann": 4, "bob": 4, "cid": 4}
    moved = {slot for slot in SLOTS if before[slot] != after[slot]}
    assert {after[slot] for slot in moved} == {"cid"}


def test_what_a_gone_worker_had_goes_to_the_others() -> None:
    before = share(SLOTS, {"ann": EVERY, "bob": EVERY, "cid": EVERY}, {})
    after = share(SLOTS, {"ann": EVERY, "cid": EVERY}, before)
    assert Counter(after.values()) == {"ann": 6, "cid": 6}
    assert all(after[slot] == owner for slot, owner in before.items() if owner != "bob")


def test_a_worker_gets_only_partitions_of_its_range() -> None:
    shared = share(SLOTS, {"low": (Span(0, 3),), "high": (Span(8, 11),)}, {})
    assert {slot.partition for slot, worker in shared.items() if worker == "low"} == {0, 1, 2, 3}
    assert {slot.partition for slot in SLOTS if slot not in shared} == {4, 5, 6, 7}


def test_what_collectors_lead_is_no_workers() -> None:
    view = View(7, tuple(SLOTS), {"ann": EVERY}, {SLOTS[0]: held("ann")}, (Span(0, 8),))
    assert view.plan() == dict.fromkeys(SLOTS[9:], "ann")


def test_a_leaders_span_is_read_and_one_that_cannot_be_is_everything() -> None:
    assert spans_of("0-5,7") == (Span(0, 5), Span(7, 7))
    assert spans_of("all") == spans_of("0-x") == EVERY


@settings(max_examples=50)
@given(
    slots=st.sets(st.integers(0, 30)),
    workers=st.dictionaries(names, st.tuples(st.integers(0, 30), st.integers(0, 30))),
    owners=st.dictionaries(st.integers(0, 30), names),
)
def test_any_sharing_is_fair_and_final(
    slots: set[int], workers: dict[str, tuple[int, int]], owners: dict[int, str]
) -> None:
    spans = {name: (Span(min(two), max(two)),) for name, two in workers.items()}
    all_slots = [Slot("c", number) for number in slots]
    shared = share(all_slots, spans, {Slot("c", n): owner for n, owner in owners.items()})
    load = Counter(shared.values())
    for slot in all_slots:
        able = [name for name, (span,) in spans.items() if span.covers(slot)]
        assert (slot in shared) == bool(able)
        if able:
            assert shared[slot] in able
            assert load[shared[slot]] - min(load[name] for name in able) <= 1
    assert share(all_slots, spans, shared) == shared
