"""Reading a large range page by page, all of it as it was at one revision.

A page's number of keys follows the size of what came before, so that an answer stays near a size
in bytes; etcd itself can only be asked for a number of keys.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final

from nexus.etcd.errors import ResponseTooLarge
from nexus.etcd.operations import Get
from nexus.etcd.results import GetResult

FIRST_PAGE_KEYS: Final = 1_000
MOST_PAGE_KEYS: Final = 20_000
PAGE_BYTES: Final = 4 << 20
_KEY_OVERHEAD_BYTES: Final = 32

Read = Callable[[Get], Awaitable[GetResult]]


async def pages(read: Read, get: Get) -> AsyncGenerator[GetResult, None]:
    """The answers to one question, in order; `get.limit` is the size of the first page.

    The revision of the first page is that of all. Compacted when it is compacted meanwhile.
    """
    get = get._replace(limit=get.limit or FIRST_PAGE_KEYS)
    while True:
        page, get = await _page(read, get)
        yield page
        if not page.more or not page.items:
            return
        get = get._replace(
            keys=get.keys.after(page.items[-1].key),
            revision=get.revision or page.revision,
            limit=_next_limit(page),
        )


async def _page(read: Read, get: Get) -> tuple[GetResult, Get]:
    """The page, and the question that brought it: half the keys where it was too large."""
    while True:
        try:
            return await read(get), get
        except ResponseTooLarge:
            if get.limit == 1:
                raise
            get = get._replace(limit=get.limit // 2)


def _next_limit(page: GetResult) -> int:
    size = sum(len(item.key) + len(item.value) + _KEY_OVERHEAD_BYTES for item in page.items)
    fitting = PAGE_BYTES * len(page.items) // size
    return max(1, min(MOST_PAGE_KEYS, fitting))
