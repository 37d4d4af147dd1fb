"""A lease by its holder's clock, and the thread that renews it."""

from __future__ import annotations

import asyncio

import pytest

from nexus.etcd.config import EtcdConfig
from nexus.etcd.errors import LeaseLost
from nexus.etcd.keepalive import Keeper, Renewer
from nexus.etcd.lease import Lease, steady_clock


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Answers(Renewer):
    """Renewals without a server: each takes the next answer."""

    def __init__(self, *answers: float | None) -> None:
        super().__init__(EtcdConfig(("a:1",)), lambda: "", "a:1")
        self.left = list(answers)

    def renew(self, lease_id: int, timeout_s: float) -> float | None:
        return self.left.pop(0) if self.left else 0.0


def test_the_deadline_counts_from_the_sending_not_from_the_answer() -> None:
    clock = Clock()
    lease = Lease(1, 10, sent_at=98.0, margin_s=1.0, clock=clock)
    assert lease.remaining_s() == 7.0
    clock.now = 106.9
    assert not lease.lost()
    clock.now = 107.0
    assert lease.lost()
    with pytest.raises(LeaseLost):
        lease.check()


def test_a_renewal_moves_the_deadline_by_what_the_server_gives() -> None:
    clock = Clock()
    lease = Lease(1, 10, sent_at=100.0, clock=clock)
    clock.now = 105.0
    assert lease.renewed(sent_at=104.0, ttl_s=20)
    assert (lease.remaining_s(), lease.ttl_s) == (19.0, 20)


def test_a_lease_that_was_lost_is_not_found_again_by_a_late_answer() -> None:
    clock = Clock()
    lease = Lease(1, 10, sent_at=100.0, clock=clock)
    clock.now = 110.0
    assert not lease.renewed(sent_at=109.9, ttl_s=10)
    assert lease.lost()
    assert lease.remaining_s() == 0.0


def test_work_under_a_lease_is_stopped_when_the_lease_is_lost() -> None:
    async def story() -> None:
        lease = Lease(1, 0.1, sent_at=steady_clock())
        with pytest.raises(LeaseLost):
            await lease.guard(asyncio.sleep(60))

    asyncio.run(story())


def test_work_that_ends_in_time_has_its_result_and_its_own_errors() -> None:
    async def failing() -> None:
        raise ValueError("mine")

    async def story() -> None:
        lease = Lease(1, 60, sent_at=steady_clock())
        assert await lease.guard(asyncio.sleep(0, "done")) == "done"
        with pytest.raises(ValueError, match="mine"):
            await lease.guard(failing())

    asyncio.run(story())


def test_a_keeper_renews_again_after_silence_and_stops_when_the_lease_is_gone() -> None:
    async def story() -> None:
        answers = Answers(None, 0.6, None, None, 0.6, 0.0)
        lease = Lease(1, 0.6, sent_at=steady_clock())
        keeper = Keeper(lease, answers, stall_s=10)
        keeper.start()
        async with asyncio.timeout(10):
            await lease.wait_lost()
        await keeper.stop()
        await keeper.stop()
        assert answers.left == []

    asyncio.run(story())


def test_everyone_who_waits_is_told_of_the_loss() -> None:
    async def story() -> None:
        lease = Lease(1, 60, sent_at=steady_clock())
        waiting = [asyncio.create_task(lease.wait_lost()) for _ in range(3)]
        await asyncio.sleep(0)
        await asyncio.to_thread(lease.drop)
        async with asyncio.timeout(10):
            await asyncio.gather(*waiting)

    asyncio.run(story())
