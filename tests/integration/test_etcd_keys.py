"""Keys, transactions and limits against a real etcd of one member."""

from __future__ import annotations

import pytest

from nexus.etcd import (
    Client,
    Compacted,
    Compare,
    Delete,
    DuplicateKey,
    FutureRevision,
    Get,
    KeyMissing,
    Keys,
    Order,
    Put,
    RequestTooLarge,
    ResponseTooLarge,
    TooManyOperations,
    Txn,
    absent,
    create_revision,
    lease,
    mod_revision,
    present,
    value,
    version,
)
from nexus.etcd.limits import Limits
from support.etcd import EtcdMember


@pytest.fixture
def root(name: str) -> bytes:
    """A prefix of the test's own."""
    return f"/{name}/".encode()


def test_a_key_is_put_read_at_any_revision_and_deleted(etcd: EtcdMember, root: bytes) -> None:
    async def story(client: Client) -> None:
        first = await client.put(root, b"one")
        second = await client.put(root, b"two")
        newest = await client.get(root)
        assert newest is not None
        assert (newest.value, newest.version) == (b"two", 2)
        assert (newest.create_revision, newest.mod_revision) == (first.revision, second.revision)
        older = await client.get(root, revision=first.revision)
        assert older is not None
        assert older.value == b"one"
        assert (await client.delete(root)).deleted == 1
        assert await client.get(root) is None

    etcd.run(story)


def test_a_range_obeys_its_bounds_filters_and_orders(etcd: EtcdMember, root: bytes) -> None:
    async def story(client: Client) -> None:
        made = [(await client.put(root + b"%d" % i, b"%d" % i)).revision for i in range(6)]
        span = Keys(root + b"1", root + b"4")
        inside = await client.range(Get(span))
        assert [item.value for item in inside.items] == [b"1", b"2", b"3"]
        limited = await client.range(Get(span, limit=2))
        assert (len(limited.items), limited.total, limited.more) == (2, 3, True)
        late = await client.range(Get(Keys.prefix(root), mod_from=made[3], mod_to=made[4]))
        assert [item.value for item in late.items] == [b"3", b"4"]
        born = await client.range(Get(Keys.prefix(root), created_from=made[5], created_to=made[5]))
        assert [item.value for item in born.items] == [b"5"]
        names = await client.range(Get(span, keys_only=True, serializable=True))
        assert {item.value for item in names.items} == {b""}
        last = await client.range(Get(Keys.prefix(root), limit=1, order=Order.NEWEST_FIRST))
        assert last.first is not None
        assert last.first.value == b"5"
        assert await client.count(Keys.prefix(root)) == 6
        assert (await client.delete(Keys.prefix(root))).deleted == 6

    etcd.run(story)


def test_a_scan_shows_one_revision_whatever_is_written_meanwhile(
    etcd: EtcdMember, root: bytes
) -> None:
    async def story(client: Client) -> None:
        for start in range(0, 600, 100):
            await client.txn(
                then=[Put(root + b"%04d" % i, b"old") for i in range(start, start + 100)]
            )
        seen: list[bytes] = []
        revisions: set[int] = set()
        async for page in client.scan(Get(Keys.prefix(root), limit=50)):
            await client.put(root + b"%04d" % (599 - len(revisions)), b"new")
            await client.put(root + b"9999", b"late")
            seen += [item.value for item in page.items]
            revisions.add(page.revision)
        assert seen == [b"old"] * 600

    etcd.run(story)


def test_a_scan_asks_for_less_when_a_page_is_too_large_for_the_client(
    etcd: EtcdMember, root: bytes
) -> None:
    async def story(client: Client) -> None:
        for i in range(20):
            await client.put(root + b"%02d" % i, bytes(100_000))
        with pytest.raises(ResponseTooLarge):
            await client.range(Get(Keys.prefix(root)))
        seen = [item.key async for page in client.scan(Keys.prefix(root)) for item in page.items]
        assert len(seen) == 20

    etcd.run(story, receive_bytes_max=500_000)


def test_a_scan_of_a_compacted_revision_says_so(etcd: EtcdMember, root: bytes) -> None:
    async def story(client: Client) -> None:
        for i in range(3):
            await client.put(root + b"%d" % i, b"")
        pages = client.scan(Get(Keys.prefix(root), limit=1))
        await anext(pages)
        newest = await client.put(root, b"")
        assert await client.maintenance.compact(newest.revision)
        assert not await client.maintenance.compact(newest.revision)
        with pytest.raises(Compacted):
            await anext(pages)
        with pytest.raises(FutureRevision):
            await client.get(root, revision=newest.revision + 1000)

    etcd.run(story)


def test_every_kind_of_compare_decides_a_transaction(etcd: EtcdMember, root: bytes) -> None:
    async def story(client: Client) -> None:
        held = await client.leases.grant(60)
        made = (await client.put(root, b"m", lease=held.id)).revision
        changed = (await client.put(root, b"n", lease=held.id)).revision
        holding: list[Compare] = [
            value(root).equals(b"n"),
            value(root).differs(b"m"),
            value(root).greater(b"m"),
            value(root).less(b"o"),
            version(root).equals(2),
            version(root).less(3),
            create_revision(root).equals(made),
            mod_revision(root).equals(changed),
            mod_revision(root).greater(made),
            lease(root).equals(held.id),
            lease(root).differs(0),
            present(root),
            absent(root + b"none"),
        ]
        failing: list[Compare] = [
            value(root).equals(b"m"),
            version(root).greater(2),
            create_revision(root).differs(made),
            mod_revision(root).less(changed),
            lease(root).equals(1),
            absent(root),
            present(root + b"none"),
            value(root + b"none").equals(b""),
        ]
        assert [(await client.txn(when=[each])).succeeded for each in holding] == [True] * 13
        assert [(await client.txn(when=[each])).succeeded for each in failing] == [False] * 8
        await client.leases.revoke(held)

    etcd.run(story)


def test_a_compare_over_a_range_must_hold_for_every_key(etcd: EtcdMember, root: bytes) -> None:
    async def story(client: Client) -> None:
        for i in range(3):
            await client.put(root + b"%d" % i, b"")
        read = await client.range(Get(Keys.prefix(root)))
        unchanged = mod_revision(Keys.prefix(root)).less(read.revision + 1)
        await client.put(root + b"1x", b"late")
        refused = await client.txn(when=[unchanged], then=[Delete(Keys.prefix(root))])
        assert not refused.succeeded
        up_to_the_late_one = mod_revision(Keys(root, root + b"1x")).less(read.revision + 1)
        done = await client.txn(when=[up_to_the_late_one], then=[Delete(Keys(root, root + b"1x"))])
        assert done.succeeded
        assert await client.count(Keys.prefix(root)) == 2

    etcd.run(story)


def test_a_transaction_tells_what_each_operation_did(etcd: EtcdMember, root: bytes) -> None:
    async def story(client: Client) -> None:
        await client.put(root + b"a", b"1")
        await client.put(root + b"b", b"2")
        inner = Txn(when=(absent(root + b"a"),), otherwise=(Get(Keys(root + b"a")),))
        done = await client.txn(
            then=[
                Put(root + b"a", b"3", want_previous=True),
                Get(Keys.prefix(root)),
                Delete(Keys(root + b"b"), want_previous=True),
                inner,
            ]
        )
        put, got, deleted, nested = done.results
        assert put.previous.value == b"1"  # type: ignore[union-attr]
        assert [item.value for item in got.items] == [b"3", b"2"]  # type: ignore[union-attr]
        assert deleted.previous[0].value == b"2"  # type: ignore[union-attr, index]
        assert not nested.succeeded  # type: ignore[union-attr]
        assert nested.got(0).items[0].value == b"3"  # type: ignore[union-attr]
        assert {each.revision for each in done.results} == {done.revision}

    etcd.run(story)


def test_a_put_can_keep_the_value_or_the_lease(etcd: EtcdMember, root: bytes) -> None:
    async def story(client: Client) -> None:
        held = await client.leases.grant(60)
        await client.put(root, b"1", lease=held.id)
        await client.txn(then=[Put(root, b"2", keep_lease=True)])
        await client.txn(then=[Put(root, keep_value=True, lease=held.id)])
        item = await client.get(root)
        assert item is not None
        assert (item.value, item.lease) == (b"2", held.id)
        with pytest.raises(KeyMissing):
            await client.txn(then=[Put(root + b"none", keep_value=True)])
        await client.leases.revoke(held)

    etcd.run(story)


def test_what_the_server_refuses_is_named(etcd: EtcdMember, root: bytes) -> None:
    async def story(client: Client) -> None:
        with pytest.raises(RequestTooLarge, match="1600"):
            await client.put(root, bytes(1_600_000))
        with pytest.raises(RequestTooLarge):
            await client.put(root, bytes(3_000_000))
        with pytest.raises(TooManyOperations):
            await client.txn(then=[Put(root + b"%d" % i) for i in range(129)])
        with pytest.raises(DuplicateKey):
            await client.txn(then=[Put(root), Put(root)])
        assert await client.count(Keys.prefix(root)) == 0

    etcd.run(story)


def test_the_limits_of_a_server_are_found_out(etcd: EtcdMember) -> None:
    async def story(client: Client) -> Limits:
        return await client.limits()

    assert etcd.run(story) == Limits(operations=128, request_bytes=1_572_864)


def test_raised_limits_are_found_out_too(tmp_path_factory: pytest.TempPathFactory) -> None:
    flags = ("--max-txn-ops", "1000", "--max-request-bytes", "4194304")
    raised = EtcdMember(tmp_path_factory.mktemp("raised"), flags=flags).start()

    async def story(client: Client) -> None:
        limits = await client.limits()
        assert limits == Limits(operations=1000, request_bytes=4_194_304)
        await client.txn(then=[Put(b"%d" % i) for i in range(limits.operations)])
        with pytest.raises(TooManyOperations):
            await client.txn(then=[Put(b"%d" % i) for i in range(limits.operations + 1)])
        await client.put(b"large", bytes(limits.request_bytes - 1000))
        with pytest.raises(RequestTooLarge):
            await client.put(b"large", bytes(limits.request_bytes))

    try:
        raised.run(story)
    finally:
        raised.kill()
