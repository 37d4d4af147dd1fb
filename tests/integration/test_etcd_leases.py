"""Leases, claims, elections and membership against a real etcd of one member."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from pathlib import Path

import pytest

from nexus.etcd import (
    Client,
    Election,
    EtcdConfig,
    Fence,
    Fenced,
    Leader,
    LeaseLost,
    LeaseNotFound,
    Membership,
    Put,
    Taken,
    claim,
    connect,
    fenced,
    lock,
    release,
    try_claim,
)
from support.etcd import CuttingProxy, EtcdMember, eventually


@pytest.fixture
def root(name: str) -> bytes:
    """A prefix of the test's own."""
    return f"/{name}/".encode()


def test_a_key_ends_with_its_lease(etcd: EtcdMember, root: bytes) -> None:
    async def story(client: Client) -> None:
        lease = await client.leases.grant(60)
        await client.put(root, b"", lease=lease.id)
        told = await client.leases.look(lease.id, keys=True)
        assert (told.granted_s, told.keys) == (60, (root,))
        await client.leases.renew(lease)
        await client.leases.revoke(lease)
        await client.leases.revoke(lease)
        assert lease.lost()
        assert await client.get(root) is None
        with pytest.raises(LeaseNotFound):
            await client.leases.look(lease.id)
        with pytest.raises(LeaseNotFound):
            await client.put(root, b"", lease=lease.id)

    etcd.run(story)


def test_a_held_lease_outlives_its_time_even_while_the_loop_is_blocked(
    etcd: EtcdMember, root: bytes
) -> None:
    async def story(client: Client) -> None:
        async with client.leases.hold(2) as lease:
            await client.put(root, b"", lease=lease.id)
            time.sleep(2.4)  # noqa: ASYNC251 - a loop that does something else for too long
            assert not lease.lost()
            assert await client.get(root) is not None
        assert await client.get(root) is None

    etcd.run(story)


def test_a_process_that_hangs_loses_its_lease(etcd: EtcdMember, root: bytes) -> None:
    async def story(client: Client) -> None:
        async with client.leases.hold(1, stall_s=0.4) as lease:
            await client.put(root, b"", lease=lease.id)
            time.sleep(1.7)  # noqa: ASYNC251
            assert lease.lost()
            with pytest.raises(LeaseLost):
                lease.check()

    etcd.run(story)


def test_the_holder_knows_of_a_possible_loss_before_a_paused_server_acts_on_it(
    tmp_path: Path,
) -> None:
    member = EtcdMember(tmp_path).start()

    async def story(client: Client) -> None:
        async with client.leases.hold(1) as lease:
            await client.put(b"k", b"", lease=lease.id)
            member.pause()
            async with asyncio.timeout(5):
                await lease.wait_lost()
            member.resume()
            assert lease.lost()  # and stays so, though the server may still have it

    try:
        member.run(story, attempt_s=1.0)
    finally:
        member.kill()


def test_a_revoked_lease_is_noticed_by_its_holder(etcd: EtcdMember, root: bytes) -> None:
    async def story(client: Client) -> None:
        async with client.leases.hold(2) as lease:
            await client.leases.revoke(lease.id)
            async with asyncio.timeout(5):
                await lease.wait_lost()

    etcd.run(story)


def test_a_grant_whose_answer_is_lost_leaves_one_lease(etcd: EtcdMember) -> None:
    async def story(direct: Client) -> None:
        async with (
            CuttingProxy(etcd.port) as proxy,
            connect(EtcdConfig((proxy.endpoint,), attempt_s=0.5)) as client,
        ):
            await client.get(b"connected")
            proxy.lose_answers = True
            granting = asyncio.create_task(client.leases.grant(30))
            await asyncio.sleep(0.2)
            proxy.lose_answers = False
            await proxy.cut()
            lease = await granting
            assert (await direct.leases.look(lease.id)).granted_s == 30

    etcd.run(story)


def test_a_claim_has_one_holder_and_a_token_that_only_grows(etcd: EtcdMember, root: bytes) -> None:
    async def story(client: Client) -> None:
        async with client.leases.hold(5) as first, client.leases.hold(5) as second:
            won = await try_claim(client, root, b"first", first)
            assert isinstance(won, Fence)
            assert await try_claim(client, root, b"first", first) == won
            taken = await try_claim(client, root, b"second", second)
            assert isinstance(taken, Taken)
            assert taken.holder.value == b"first"
            waiting = asyncio.create_task(claim(client, root, b"second", second))
            await asyncio.sleep(0.1)
            assert not waiting.done()
            await release(client, won)
            await release(client, won)
            later = await waiting
            assert later.token > won.token

    etcd.run(story)


def test_a_claim_whose_answer_is_lost_is_ours_all_the_same(etcd: EtcdMember, root: bytes) -> None:
    async def story(direct: Client) -> None:
        async with (
            CuttingProxy(etcd.port) as proxy,
            connect(EtcdConfig((proxy.endpoint,))) as client,
        ):
            lease = await client.leases.grant(30)
            proxy.lose_answers = True
            claiming = asyncio.create_task(claim(client, root, b"", lease))
            made = await eventually(lambda: direct.get(root))
            proxy.lose_answers = False
            await proxy.cut()
            assert await claiming == Fence(root, made.create_revision)

    etcd.run(story)


def test_waiting_for_a_claim_ends_when_the_lease_is_lost(etcd: EtcdMember, root: bytes) -> None:
    async def story(client: Client) -> None:
        holder = await client.leases.grant(60)
        await try_claim(client, root, b"", holder)
        lease = await client.leases.grant(1)
        with pytest.raises(LeaseLost):
            await claim(client, root, b"", lease)
        with pytest.raises(LeaseLost):
            await try_claim(client, root, b"", lease)
        revoked = await client.leases.grant(60)
        await client.leases.revoke(revoked.id)  # without its holder's knowledge
        with pytest.raises(LeaseLost):
            await try_claim(client, root + b"free", b"", revoked)
        assert revoked.lost()

    etcd.run(story)


def test_a_paused_leaders_write_with_its_old_token_is_refused(
    etcd: EtcdMember, root: bytes
) -> None:
    async def story(client: Client) -> None:
        election = Election(client, root + b"leader")
        paused = await client.leases.grant(1)  # nobody renews it: its holder is paused
        old = await election.campaign(b"one", paused)
        await fenced(client, old, [Put(root + b"data", b"from one")])
        async with client.leases.hold(5) as lease:
            new = await election.campaign(b"two", lease)
            assert new.token > old.token
            await fenced(client, new, [Put(root + b"data", b"from two")])
            with pytest.raises(Fenced):
                await fenced(client, old, [Put(root + b"data", b"late")])
            data = await client.get(root + b"data")
            assert data is not None
            assert data.value == b"from two"
            await election.resign(old)  # its own claim is over; the other's stays
            assert await election.leader() == Leader(b"two", new.token)

    etcd.run(story)


def test_a_fenced_write_tells_other_compares_from_a_lost_claim(
    etcd: EtcdMember, root: bytes
) -> None:
    async def story(client: Client) -> None:
        async with client.leases.hold(5) as lease:
            fence = await claim(client, root, b"", lease)
            other = Fence(root + b"other", 1)
            done = await fenced(client, fence, [Put(root + b"x")], when=[other.holds()])
            assert not done.succeeded
            assert await client.get(root + b"x") is None

    etcd.run(story)


def test_whoever_observes_an_election_sees_every_leader(etcd: EtcdMember, root: bytes) -> None:
    async def story(client: Client) -> None:
        election = Election(client, root)
        async with aclosing(election.observe()) as leaders, client.leases.hold(5) as lease:
            assert await anext(leaders) is None
            first = await election.campaign(b"one", lease)
            assert await anext(leaders) == Leader(b"one", first.token)
            await election.resign(first)
            assert await anext(leaders) is None
            assert await election.leader() is None

    etcd.run(story)


def test_a_lock_lets_one_in_at_a_time(etcd: EtcdMember, root: bytes) -> None:
    async def story(client: Client) -> None:
        tokens: list[int] = []
        inside = 0

        async def work() -> None:
            nonlocal inside
            async with lock(client, root, ttl_s=5) as fence:
                inside += 1
                assert inside == 1
                await asyncio.sleep(0.02)
                tokens.append(fence.token)
                inside -= 1

        await asyncio.gather(*(work() for _ in range(4)))
        assert tokens == sorted(set(tokens))
        assert len(tokens) == 4

    etcd.run(story)


def test_members_come_change_and_go_with_their_leases(etcd: EtcdMember, root: bytes) -> None:
    async def story(client: Client) -> None:
        group = Membership(client, root)
        async with aclosing(group.observe()) as changes, client.leases.hold(5) as lease:
            assert (await anext(changes)).by_name == {}
            fence = await group.register("one", b"a:1", lease)
            assert (await anext(changes)).by_name["one"].value == b"a:1"
            await group.update(fence, b"a:2")
            seen = (await anext(changes)).by_name["one"]
            assert (seen.value, seen.token) == (b"a:2", fence.token)
            dying = await client.leases.grant(60)
            other = await group.register("two", b"b:1", dying)
            assert set((await anext(changes)).by_name) == {"one", "two"}
            await client.leases.revoke((await group.members()).by_name["two"].lease)
            assert set((await anext(changes)).by_name) == {"one"}
            with pytest.raises(Fenced):
                await group.update(other, b"b:2")
            await group.leave(fence)
            assert (await group.members()).by_name == {}

    etcd.run(story)


def test_a_member_that_comes_back_waits_for_the_end_of_its_former_self(
    etcd: EtcdMember, root: bytes
) -> None:
    async def story(client: Client) -> None:
        group = Membership(client, root)
        crashed = await client.leases.grant(1)
        before = await group.register("one", b"", crashed)
        async with client.leases.hold(5) as lease:
            after = await group.register("one", b"", lease)
            assert after.token > before.token

    etcd.run(story)
