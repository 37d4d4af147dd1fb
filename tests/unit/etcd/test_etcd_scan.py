"""Pages of a large range: how they are cut, and what holds them together."""

from __future__ import annotations

import asyncio

from nexus.etcd.errors import ResponseTooLarge
from nexus.etcd.keys import Keys
from nexus.etcd.operations import Get
from nexus.etcd.results import GetResult, KeyValue
from nexus.etcd.scan import MOST_PAGE_KEYS, PAGE_BYTES, pages


class Store:
    """Keys of one size, and the questions that were asked."""

    def __init__(self, count: int, value_bytes: int, most_bytes: int = 1 << 40) -> None:
        value = bytes(value_bytes)
        self.items = [KeyValue(b"%07d" % i, value, 1, 1, 1, 0) for i in range(count)]
        self.most_bytes = most_bytes
        self.asked: list[Get] = []

    async def read(self, get: Get) -> GetResult:
        self.asked.append(get)
        found = [item for item in self.items if get.keys.start <= item.key < get.keys.end]
        shown = found[: get.limit]
        if sum(len(item.value) for item in shown) > self.most_bytes:
            raise ResponseTooLarge("too large")
        return GetResult(40 + len(self.asked), tuple(shown), len(found), len(found) > len(shown))

    def scanned(self, limit: int = 0) -> list[bytes]:
        async def whole() -> list[bytes]:
            get = Get(Keys(b"0", b"9"), limit=limit)
            return [item.key async for page in pages(self.read, get) for item in page.items]

        return asyncio.run(whole())


def test_every_key_comes_once_in_order_at_the_first_pages_revision() -> None:
    store = Store(2500, 10)
    assert store.scanned(limit=7) == [item.key for item in store.items]
    assert {get.revision for get in store.asked[1:]} == {41}


def test_pages_grow_and_shrink_with_the_size_of_what_comes() -> None:
    small, large = Store(5000, 1), Store(100, 100_000)
    small.scanned()
    large.scanned(limit=10)
    assert 1000 < small.asked[1].limit <= MOST_PAGE_KEYS
    assert large.asked[1].limit <= PAGE_BYTES // 100_000


def test_a_page_that_is_too_large_is_asked_for_in_halves() -> None:
    store = Store(30, 1000, most_bytes=5000)
    assert len(store.scanned(limit=16)) == 30
    assert [get.limit for get in store.asked[:3]] == [16, 8, 4]


def test_an_empty_range_is_one_empty_page() -> None:
    store = Store(0, 0)
    assert store.scanned() == []
    assert len(store.asked) == 1
