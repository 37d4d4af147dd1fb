"""Taking messages out of a queue by hand: exactly those that were seen, and counted as taken.

Where etcd is at its quota it takes no puts, but deletes still work. Then what was taken out is
counted afterwards, once there is room; until then it looks as if it had expired.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final, NamedTuple

from nexus.etcd import (
    Ambiguous,
    Client,
    Compare,
    Delete,
    Get,
    GetResult,
    Keys,
    KeyValue,
    NoSpace,
    mod_revision,
)
from nexus.queue.etcd.counts import Count, Tally
from nexus.queue.etcd.layout import Layout

PAGE_KEYS: Final = 1_000
KEPT_KEYS: Final = 30  # with their values: so many of the largest still fit an answer
# Called with messages before they are deleted; returns when they are safe elsewhere.
Keep = Callable[[Sequence[KeyValue]], None]


class Drained(NamedTuple):
    """What was taken out so far, and how much of that is not counted yet."""

    taken: Count = Count()
    uncounted: Count = Count()


class Drain:
    """Takes out messages or dead letters of one queue, page by page."""

    def __init__(
        self,
        client: Client,
        layout: Layout,
        keep: Keep | None = None,
        page_keys: int | None = None,
    ) -> None:
        self._client = client
        self._layout = layout
        self._keep = keep
        self._page_keys = page_keys or (PAGE_KEYS if keep is None else KEPT_KEYS)
        who = f"drained-{secrets.token_hex(4)}"
        self._tally = Tally(layout.meta("taken", who), "nexus queue drain")
        self.drained = Drained()

    async def messages(self, keys: Keys) -> AsyncGenerator[Drained, None]:
        """All messages of a range, and how often they failed; tells of each page."""
        while (page := await self._page(keys)).items:
            count = Count.of([item.key for item in page.items])
            taken = self._deletes(page, self._layout.messages, self._layout.metas("failed"))
            try:
                if await self._counted(count, [_unchanged(page)], taken):
                    self._add(count, Count())
            except NoSpace:
                if await self._repeated([_unchanged(page)], taken):
                    self._add(count, count)
            yield self.drained

    async def dead_letters(self) -> AsyncGenerator[Drained, None]:
        """All dead letters, and what is said of them. They were counted when they died."""
        dead = self._layout.dead_letters
        while (page := await self._page(dead)).items:
            taken = self._deletes(page, dead, self._layout.metas("dead"))
            if await self._repeated([_unchanged(page)], taken):
                self._add(Count.of([item.key for item in page.items]), Count())
            yield self.drained

    async def count_afterwards(self) -> Drained:
        """Count what etcd took no put for; what it still takes none for stays uncounted."""
        if self.drained.uncounted.keys:
            try:
                await self._counted(self.drained.uncounted, [], [])
            except NoSpace:
                return self.drained
            self.drained = Drained(self.drained.taken)
        return self.drained

    async def _page(self, keys: Keys) -> GetResult:
        wanted = Get(keys, limit=self._page_keys, keys_only=self._keep is None)
        page = await self._client.range(wanted)
        if self._keep is not None and page.items:
            self._keep(page.items)
        return page

    def _deletes(self, page: GetResult, keys: Keys, beside: Keys) -> list[Delete]:
        """The messages, and the keys of the same names that belong to them."""
        span = _span(page)
        others = (beside.start + key.removeprefix(keys.start) for key in span)
        return [Delete(span), Delete(Keys(*others))]

    async def _counted(self, count: Count, when: Sequence[Compare], then: Sequence[Delete]) -> bool:
        """Delete and count in one step; False if something was put in between."""
        tally = self._tally
        step = tally.step(count, time.time_ns() // 1_000_000)
        while True:
            try:
                done = await self._client.txn(
                    when=[step.when, *when], then=[step.put, *then], otherwise=[tally.get]
                )
            except Ambiguous:  # it compares the tally that it changes
                continue
            if done.succeeded:
                tally.done(step, done.revision)
            return done.succeeded or tally.was_done(step, done.got(0).first)

    async def _repeated(self, when: Sequence[Compare], then: Sequence[Delete]) -> bool:
        """Delete without a put; to delete twice is the same as once."""
        while True:
            try:
                return (await self._client.txn(when=when, then=then)).succeeded
            except Ambiguous:
                continue

    def _add(self, count: Count, uncounted: Count) -> None:
        so_far = self.drained
        self.drained = Drained(so_far.taken.plus(count), so_far.uncounted.plus(uncounted))


def _span(page: GetResult) -> Keys:
    return Keys(page.items[0].key, page.items[-1].key + b"\x00")


def _unchanged(page: GetResult) -> Compare:
    """Nothing was put among these keys since they were read."""
    return mod_revision(_span(page)).less(page.revision + 1)
