"""Who is here: each member a key under a prefix, kept by its lease and gone with it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import NamedTuple

from nexus.etcd.claims import Fence, claim, fenced, release
from nexus.etcd.client import Client
from nexus.etcd.follow import follow
from nexus.etcd.keys import Keys
from nexus.etcd.lease import Lease
from nexus.etcd.operations import Put
from nexus.etcd.results import KeyValue


class Member(NamedTuple):
    """One registration. A member that comes back is another one: its token is greater.

    Whoever knows for certain that a member is dead may revoke its lease, and need not wait.
    """

    name: str
    value: bytes
    token: int
    lease: int


class Members(NamedTuple):
    """All registrations as of a revision."""

    by_name: Mapping[str, Member]
    revision: int


class Membership:
    """The members under one prefix, which ends with a slash."""

    def __init__(self, client: Client, prefix: bytes) -> None:
        self._client = client
        self._prefix = prefix

    async def register(self, name: str, value: bytes, lease: Lease) -> Fence:
        """Be a member. Waits until an earlier registration under the name has ended."""
        return await claim(self._client, self._prefix + name.encode(), value, lease)

    async def update(self, fence: Fence, value: bytes) -> None:
        """Change what the registration says; Fenced when it has ended."""
        then = Put(fence.key, value, keep_lease=True)
        await fenced(self._client, fence, [then])

    async def leave(self, fence: Fence) -> None:
        """Be a member no more, at once; safe to call twice."""
        await release(self._client, fence)

    async def members(self) -> Members:
        by_name: dict[str, Member] = {}
        revision = 0
        async for page in self._client.scan(Keys.prefix(self._prefix)):
            by_name.update(map(self._member, page.items))
            revision = revision or page.revision
        return Members(by_name, revision)

    async def observe(self) -> AsyncGenerator[Members, None]:
        """The members now, and at every change."""
        async with aclosing(follow(self._client, Keys.prefix(self._prefix))) as views:
            async for view in views:
                yield Members(dict(map(self._member, view.items.values())), view.revision)

    def _member(self, item: KeyValue) -> tuple[str, Member]:
        name = item.key.removeprefix(self._prefix).decode(errors="replace")
        return name, Member(name, item.value, item.create_revision, item.lease)
