"""Who may take messages out of a queue in etcd, and what is taken: against a real etcd."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from nexus.etcd import Client, EtcdConfig, Fence, Fenced, Keys, NoSpace, Put, connect
from nexus.etcd.blocking import BlockingClient
from nexus.queue.errors import QueueAway, QueueError
from nexus.queue.etcd.counts import Count
from nexus.queue.etcd.deleting import Deleter, Taken
from nexus.queue.etcd.identity import QueueAnew
from nexus.queue.etcd.layout import Layout, Slot
from nexus.queue.etcd.lead import Lead, QueueTaken
from nexus.queue.etcd.positions import Position, Positions
from support.etcd import CuttingProxy, EtcdMember
from support.hand_queue import HandQueue
from support.published import Sent
from support.waiting import wait_until

A, B = Slot("east", 0), Slot("west", 3)
JSON: list[Sent] = [(b'{"n": 1}', [("content-type", b"application/json")])]
LEASE_S = 6  # a busy machine must not lose it
ID = "0123456789abcdef"


@pytest.fixture
def queue(etcd: EtcdMember, name: str) -> Iterator[HandQueue]:
    with HandQueue(etcd, f"/{name}") as made:
        yield made


def elect(queue: HandQueue) -> Fence:
    queue.etcd.put(queue.layout.meta("id"), ID.encode())
    key = queue.layout.meta("collectors", "all")
    return Fence(key, queue.etcd.put(key, b"{}").revision)


class Taker:
    """A deleter for a test without an event loop."""

    def __init__(self, queue: HandQueue) -> None:
        async def made(client: Client) -> Deleter:
            return Deleter(client, queue.layout, "collectors-all")

        self._etcd = queue.etcd
        self.deleter = queue.etcd.run(made)

    def clear(self, fence: Fence, *stores: Positions) -> Taken:
        return self._etcd.run(lambda _: self.deleter.clear([A, B], stores, fence))


def at(slots: dict[Slot, Position], floor: int = 0) -> Positions:
    return Positions(floor, slots, ID)


def name_of(queue: HandQueue, slot: Slot, key: bytes) -> bytes:
    return key.removeprefix(queue.layout.slot(slot).start)


def test_what_every_store_has_is_deleted_and_counted_and_nothing_else(queue: HandQueue) -> None:
    first = queue.put(A, JSON * 5)
    middle = queue.put(B, JSON * 3)
    last = queue.put(A, JSON * 4)
    fence, taker = elect(queue), Taker(queue)
    done = Position(first[-1].mod_revision)
    sweep = Position(0, last[-1].mod_revision, name_of(queue, A, first[2].key))
    assert taker.clear(fence, at({A: done}), at({A: sweep})).took == Count(3, 3)
    assert [k.key for k in queue.waiting()] == sorted(k.key for k in [*first[3:], *middle, *last])
    whole = Position(last[-1].mod_revision)
    assert taker.clear(fence, at({A: whole, B: whole}), at({A: whole})).took.keys == 6
    assert {k.key for k in queue.waiting()} == {k.key for k in middle}, "the second has none of B"
    assert taker.clear(fence, at({A: whole, B: whole}), at({A: whole, B: whole})).took.keys == 3
    assert queue.waiting() == []
    totals = queue.totals()
    assert (totals.published.keys, totals.taken.keys, totals.expired) == (12, 12, 0)


def test_what_was_there_before_the_start_stays(queue: HandQueue) -> None:
    before = queue.put(A, JSON * 3)
    ours = queue.put(A, JSON * 3)
    upto = Position(ours[-1].mod_revision)
    taken = Taker(queue).clear(elect(queue), at({A: upto}, floor=before[-1].mod_revision))
    assert taken.took.keys == 3
    assert [k.key for k in queue.waiting()] == [k.key for k in before]


def test_a_message_that_comes_late_between_them_is_left(
    queue: HandQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = queue.put(A, JSON * 4, at_ns=1_000)
    between = queue.layout.message(A, 1_000, "host", "0", 1) + b"-late"
    assert put[1].key < between < put[2].key
    fence, taker = elect(queue), Taker(queue)
    real, is_first = Client.txn, True

    async def late(self: Client, **more: Any) -> Any:
        nonlocal is_first
        if is_first and any(op for op in more.get("then", ()) if isinstance(op, Put)):
            is_first = False
            await self.put(between, b"{}")
        return await real(self, **more)

    monkeypatch.setattr(Client, "txn", late)
    taken = taker.clear(fence, at({A: Position(put[-1].mod_revision)}))
    assert taken == Taken(Count(4, 4), conflicts=1)
    assert [k.key for k in queue.waiting()] == [between]
    assert queue.totals().taken.keys == 4, "counted once"


def test_one_that_no_longer_leads_deletes_nothing(queue: HandQueue) -> None:
    put = queue.put(A, JSON * 4)
    old = elect(queue)
    queue.etcd.delete(old.key)
    upto = at({A: Position(put[-1].mod_revision)})
    with pytest.raises(Fenced):
        Taker(queue).clear(old, upto)
    elect(queue)
    with pytest.raises(Fenced):
        Taker(queue).clear(old, upto)
    assert len(queue.waiting()) == 4


def test_places_of_another_queue_take_nothing(queue: HandQueue) -> None:
    put = queue.put(A, JSON * 4)
    fence = elect(queue)
    upto = Position(put[-1].mod_revision)
    with pytest.raises(QueueAnew, match="another queue"):
        Taker(queue).clear(fence, Positions(0, {A: upto}, "another"))
    with pytest.raises(QueueAnew, match="set back"):
        Taker(queue).clear(fence, at({A: Position(1 << 40)}))
    assert len(queue.waiting()) == 4


def test_an_expired_message_is_counted_and_a_taken_one_is_not(queue: HandQueue) -> None:
    lease = queue.etcd.run(lambda client: client.leases.grant(60))
    queue.put(A, JSON * 3, lease=lease.id)
    put = queue.put(A, JSON * 2)
    queue.etcd.run(lambda client: client.leases.revoke(lease))
    assert queue.totals().expired == 3
    Taker(queue).clear(elect(queue), at({A: Position(put[-1].mod_revision)}))
    assert queue.totals().expired == 3
    assert queue.totals().taken.keys == 2


def test_many_gaps_take_many_transactions(queue: HandQueue) -> None:
    put = queue.put(A, JSON * 700)
    late = [item.key + b"-" for item in put[:300]]
    for key in late:
        queue.etcd.put(key, b"{}")
    taken = Taker(queue).clear(elect(queue), at({A: Position(put[-1].mod_revision)}))
    assert taken.took.keys == 700
    assert [k.key for k in queue.waiting()] == late
    assert queue.totals().taken.keys == 700


def test_an_answer_that_is_lost_does_not_count_twice(etcd: EtcdMember, queue: HandQueue) -> None:
    put = queue.put(A, JSON * 50)
    fence = elect(queue)
    upto = at({A: Position(put[-1].mod_revision)})

    async def story() -> Taken:
        async with CuttingProxy(etcd.port) as proxy:
            config = EtcdConfig((proxy.endpoint,), timeout_s=20, attempt_s=1)
            async with connect(config) as client:
                deleter = Deleter(client, queue.layout, "collectors-all")
                await client.limits()
                real = client.txn

                async def losing(**more: Any) -> Any:
                    if any(isinstance(op, Put) for op in more.get("then", ())):
                        proxy.lose_answers, client.txn = True, real  # type: ignore[method-assign]
                        asyncio.get_running_loop().call_later(0.5, restore)
                    return await real(**more)

                def restore() -> None:
                    proxy.lose_answers = False
                    cutting.append(asyncio.ensure_future(proxy.cut()))

                cutting: list[asyncio.Future[None]] = []
                client.txn = losing  # type: ignore[method-assign]
                taken = await deleter.clear([A], [upto], fence)
                await asyncio.gather(*cutting)
                return taken

    assert asyncio.run(story()).took.keys == 50
    assert queue.waiting() == []
    assert queue.totals().taken.keys == 50


def test_at_the_quota_messages_still_go_and_are_counted_later(tmp_path: Path) -> None:
    member = EtcdMember(tmp_path / "etcd", flags=("--quota-backend-bytes", "1500000")).start()
    try:
        with HandQueue(member, "/q") as queue:
            put = queue.put(A, JSON * 20)
            fence = elect(queue)
            fill(queue.etcd)
            taker = Taker(queue)
            assert taker.clear(fence, at({A: Position(put[-1].mod_revision)})).took.keys == 20
            assert queue.waiting() == []
            assert queue.totals().taken.keys == 0
            recover(queue.etcd, member)
            more = queue.put(A, JSON)
            taker.clear(fence, at({A: Position(more[-1].mod_revision)}))
            assert queue.totals().taken.keys == 21
    finally:
        member.kill()


def fill(etcd: BlockingClient) -> None:
    """Until etcd takes nothing more."""
    with suppress(NoSpace):
        for _ in range(100):
            etcd.put(b"/fill", bytes(100_000))
        raise AssertionError("it has no quota")


def recover(etcd: BlockingClient, member: EtcdMember) -> None:
    async def story(client: Client) -> None:
        deleted = await client.delete(Keys(b"/fill"))
        await client.maintenance.compact(deleted.revision, physical=True)
        await client.maintenance.defragment(member.endpoint)
        for alarm in await client.maintenance.alarms():
            await client.maintenance.disarm(alarm)

    etcd.run(story)


# Who leads


@pytest.fixture
def leads(etcd: EtcdMember, queue: HandQueue) -> Iterator[Any]:
    made: list[tuple[Lead, BlockingClient]] = []

    def make(name: str, partitions: str = "") -> Lead:
        client = BlockingClient(etcd.config())
        lead = Lead(client, queue.layout, partitions, name, lease_s=LEASE_S)
        made.append((lead, client))
        lead.start()
        return lead

    yield make
    for lead, client in made:
        lead.stop()
        client.close()


def revoke(queue: HandQueue, span: str = "all") -> None:
    """What etcd does when nobody renews."""
    found = queue.etcd.get(queue.layout.meta("collectors", span))
    assert found is not None
    queue.etcd.run(lambda client: client.leases.revoke(found.lease))


def test_a_second_one_stands_by_and_takes_over_when_the_first_ends(leads: Any) -> None:
    first = leads("c0")
    assert first.wait(10)
    second = leads("c1")
    wait_until(lambda: second.standing, what="the second stands by")
    assert second.standing.startswith("c0 collects")
    assert second.fence is None
    token = first.check().token
    first.stop()
    assert second.wait(5)
    assert second.check().token > token, "a token only grows"


def test_one_that_lost_its_lease_to_another_may_not_go_on(leads: Any, queue: HandQueue) -> None:
    first = leads("c0")
    assert first.wait(10)
    second = leads("c1")
    wait_until(lambda: second.standing, what="the second stands by")
    revoke(queue)
    assert second.wait(5)
    wait_until(lambda: first.usurper, what="the first sees it")
    with pytest.raises(QueueTaken, match="c1 has taken over"):
        first.check()
    assert second.check()


def test_one_whose_lease_ran_out_goes_on_if_nobody_led_meanwhile(
    leads: Any, queue: HandQueue
) -> None:
    first = leads("c0")
    assert first.wait(10)
    token = first.check().token
    revoke(queue)
    wait_until(lambda: first.fence is None, what="it notices")
    with pytest.raises(QueueAway):
        first.check()
    assert first.wait(10)
    assert first.check().token > token


def test_one_that_led_and_ended_in_between_is_noticed_too(leads: Any, queue: HandQueue) -> None:
    first = leads("c0")
    assert first.wait(10)
    # Another came and went while the first was paused: only the note of it is left.
    queue.etcd.put(queue.layout.meta("led", "0-5"), b"{}")
    revoke(queue)
    wait_until(lambda: first.usurper, what="it sees that somebody led")
    with pytest.raises(QueueTaken):
        first.check()


def test_spans_that_overlap_exclude_each_other_and_others_do_not(leads: Any) -> None:
    low, high = leads("c0", "0-5"), leads("c1", "6-11")
    assert low.wait(10)
    assert high.wait(10)
    middle, whole = leads("c2", "5-6"), leads("c3")
    wait_until(lambda: middle.standing and whole.standing, what="both stand by")
    low.stop()
    wait_until(lambda: "c1" in middle.standing, what="it waits for the other now")
    assert not middle.wait(0.3)
    high.stop()
    wait_until(lambda: middle.fence or whole.fence, what="one of them leads")


def test_collectors_wait_for_workers_that_own_a_slot(leads: Any, queue: HandQueue) -> None:
    owner = queue.layout.meta("owners", str(A))
    queue.etcd.put(owner, b"w7")
    other, same = leads("c0", "3"), leads("c1")
    assert other.wait(10), "no slot of its own is owned"
    wait_until(lambda: same.standing, what="it stands by")
    other.stop()
    wait_until(lambda: "worker w7" in same.standing, what="for the worker")
    queue.etcd.delete(owner)
    assert same.wait(5)


def test_one_that_etcd_refuses_for_good_says_so(etcd: EtcdMember) -> None:
    """A lease of ten thousand years is more than etcd gives."""
    with BlockingClient(etcd.config()) as client:
        lead = Lead(client, Layout("/refused"), "", "c0", lease_s=300_000_000_000)
        lead.start()
        wait_until(lambda: lead.refusal, what="a refusal")
        with pytest.raises(QueueError, match="queue /refused: "):
            lead.check()
        lead.stop()
