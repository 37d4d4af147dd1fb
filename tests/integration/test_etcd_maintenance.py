"""Status, compaction, defragmentation and the way out of a full database, on a real etcd."""

from __future__ import annotations

from pathlib import Path

import pytest

from nexus.etcd import AlarmKind, Client, Keys, NoSpace
from support.etcd import EtcdMember

QUOTA = 16 << 20


def test_a_full_database_refuses_puts_until_it_is_emptied_compacted_and_disarmed(
    tmp_path: Path,
) -> None:
    member = EtcdMember(tmp_path, flags=("--quota-backend-bytes", str(QUOTA))).start()

    async def fill(client: Client) -> None:
        for i in range(100):
            await client.put(b"k%d" % i, bytes(1_000_000))

    async def story(client: Client) -> None:
        with pytest.raises(NoSpace) as told:
            await fill(client)
        assert told.value.retriable
        (alarm,) = await client.maintenance.alarms()
        assert alarm.kind is AlarmKind.NO_SPACE
        full = await client.maintenance.status()
        assert full.problems
        assert await client.get(b"k0") is not None
        with pytest.raises(NoSpace):
            await client.leases.grant(10)
        freed = await client.delete(Keys.prefix(b"k"))
        assert await client.maintenance.compact(freed.revision, physical=True)
        await client.maintenance.defragment(member.endpoint)
        await client.maintenance.disarm(alarm)
        assert await client.maintenance.alarms() == ()
        await client.put(b"k", b"")
        empty = await client.maintenance.status()
        assert empty.is_leader
        assert empty.db_bytes < full.db_bytes / 10
        assert empty.db_in_use_bytes <= empty.db_bytes
        hashed = await client.maintenance.hash(member.endpoint)
        assert (hashed.compact_revision, hashed.revision) == (freed.revision, empty.revision)

    try:
        member.run(story)
    finally:
        member.kill()
