"""The pool: bounded at work, bounded in waiting, bounded in time."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from nexus.gateway.errors import TooSlow
from nexus.gateway.pool import Pool
from nexus.web.problems import Overloaded


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    opened = threading.Event()
    yield opened
    opened.set()


def test_what_the_work_says_is_the_answer() -> None:
    pool = Pool(1, 1, 5)
    assert asyncio.run(pool.call(lambda: 42)) == 42
    with pytest.raises(ZeroDivisionError):
        asyncio.run(pool.call(lambda: 1 // 0))
    pool.close()


def test_more_than_may_wait_are_refused_at_once(gate: threading.Event) -> None:
    async def story() -> None:
        pool = Pool(1, 2, 10)
        calls = [asyncio.create_task(pool.call(gate.wait)) for _ in range(3)]
        await asyncio.sleep(0)
        assert (pool.running, pool.waiting) == (1, 2)
        with pytest.raises(Overloaded):
            await pool.call(gate.wait)
        gate.set()
        assert await asyncio.gather(*calls) == [True] * 3
        assert await pool.call(lambda: "again") == "again"
        pool.close()

    asyncio.run(story())


def test_an_answer_that_takes_too_long_is_told_and_its_thread_still_counts(
    gate: threading.Event,
) -> None:
    async def story() -> None:
        pool = Pool(1, 0, 0.05)
        with pytest.raises(TooSlow, match=r"0\.05 s"):
            await pool.call(gate.wait)
        with pytest.raises(Overloaded):
            await pool.call(gate.wait)
        gate.set()
        for _ in range(200):
            if not pool.running:
                break
            await asyncio.sleep(0.01)
        assert await pool.call(lambda: "free") == "free"
        pool.close()

    asyncio.run(story())


def test_what_waited_too_long_is_never_begun(gate: threading.Event) -> None:
    begun: list[str] = []

    async def story() -> None:
        pool = Pool(1, 5, 10)
        busy = asyncio.create_task(pool.call(gate.wait))
        await asyncio.sleep(0)
        with pytest.raises(TooSlow):
            await pool.call(lambda: begun.append("late"), timeout_s=0.05)
        gate.set()
        assert await busy
        assert await pool.call(lambda: "next") == "next"
        pool.close()

    asyncio.run(story())
    assert begun == []
