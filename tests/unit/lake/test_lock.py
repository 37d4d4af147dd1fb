"""One writer a store: whoever is second waits or is told, and every turn has a greater number."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from deltalake.exceptions import CommitFailedError

from nexus.lake.errors import Fenced, StoreBusy, StoreError
from nexus.lake.fence import Fence
from nexus.lake.lease import Lease, LeaseHold
from nexus.lake.local_lock import FileHold
from nexus.lake.lock import WriterLock
from nexus.lake.table import LakeTable
from nexus.lake.url import StoreUrl
from support.lake import READINGS, append, every_second, store_in
from support.waiting import wait_until

never = Lease(0, "nobody", 0, 0)
MakeLock = Callable[[str], WriterLock]


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def store(tmp_path: Path) -> StoreUrl:
    return store_in(tmp_path)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["file", "lease"])
def lock_of(request: pytest.FixtureRequest, store: StoreUrl, clock: Clock) -> Iterator[MakeLock]:
    """Locks of one store for different owners, of each kind."""
    made: list[WriterLock] = []

    def make(owner: str) -> WriterLock:
        is_file = request.param == "file"
        hold = FileHold(store) if is_file else LeaseHold(store, lease_s=3600, clock=clock)
        made.append(WriterLock(store, owner, hold))
        return made[-1]

    yield make
    for lock in made:
        lock.release()


def test_the_second_is_told_who_holds_the_store(lock_of: MakeLock) -> None:
    lock_of("one").acquire()
    second = lock_of("two")
    assert "one" in (second.held_by() or "")
    with pytest.raises(StoreBusy, match=r"one.* writes to it; one writer a store"):
        second.acquire()


def test_the_second_waits_until_the_first_lets_go(lock_of: MakeLock) -> None:
    first, waits = lock_of("one"), []
    first.acquire()

    def wait() -> None:
        waits.append(1)
        if len(waits) == 3:
            first.release()

    assert lock_of("two").acquire(wait) == Fence(2, "two")
    assert len(waits) == 3


def test_waiting_can_be_given_up(lock_of: MakeLock) -> None:
    lock_of("one").acquire()

    def give_up() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lock_of("two").acquire(give_up)


def test_every_turn_has_a_greater_number(lock_of: MakeLock) -> None:
    epochs = []
    for owner in ("one", "two", "one"):
        with lock_of(owner) as lock:
            epochs.append(lock.acquire().epoch)
    assert epochs == [1, 2, 3]


def test_release_is_safe_to_call_twice_and_without_a_turn(lock_of: MakeLock) -> None:
    lock = lock_of("one")
    lock.release()
    lock.acquire()
    assert not lock.lost()
    lock.release()
    lock.release()
    with pytest.raises(StoreError, match="not held"):
        _ = lock.fence
    assert lock_of("two").acquire().epoch == 2


def test_numbers_go_on_from_the_tables_when_the_lock_was_deleted(
    lock_of: MakeLock, store: StoreUrl
) -> None:
    LakeTable.open(store, READINGS).claim(Fence(41, "long ago"))
    assert lock_of("one").acquire().epoch == 42


def test_a_killed_process_leaves_the_store_to_the_next(store: StoreUrl) -> None:
    code = (
        "import sys, time\n"
        "from nexus.lake.lock import WriterLock\n"
        "from nexus.lake.url import parse_store_url\n"
        "WriterLock(parse_store_url(sys.argv[1]), 'child').acquire()\n"
        "print('held', flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(store)], stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "held\n"
            mine = WriterLock(store, "parent")
            with pytest.raises(StoreBusy, match=f"child .process {child.pid}"):
                mine.acquire()
        finally:
            child.kill()
    assert mine.acquire().epoch == 2
    mine.release()


def test_a_store_that_cannot_be_written_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(StoreError, match="cannot write there"):
        WriterLock(store_in(tmp_path / "file"), "one").acquire()


# Leases only


def test_a_lease_that_ran_out_is_taken_and_its_holder_shut_out(
    store: StoreUrl, clock: Clock
) -> None:
    old, new = (
        WriterLock(store, owner, LeaseHold(store, lease_s=10, clock=clock))
        for owner in ("old", "new")
    )
    fence = old.acquire()
    table = LakeTable.open(store, READINGS)
    append(table, every_second(1), fence=fence)
    clock.now += 9
    with pytest.raises(StoreBusy):
        new.acquire()
    clock.now += 2  # the old one has slept through its lease
    assert old.lost()
    taken = new.acquire()
    assert taken == Fence(2, "new")
    LakeTable.open(store, READINGS).claim(taken)
    with pytest.raises(Fenced):
        append(table, every_second(1), fence=fence)
    old.release()
    assert not new.lost()
    assert new.held_by() == "new"
    new.release()


def test_a_lease_is_renewed_while_its_holder_lives(store: StoreUrl, clock: Clock) -> None:
    hold, other = (LeaseHold(store, lease_s=0.1, clock=clock) for _ in range(2))
    assert hold.take("one") is not None
    for _ in range(3):
        clock.now += 0.09  # without a renewal it would have run out after two
        ends_ms = round((clock.now + 0.1) * 1000)
        wait_until(lambda: (other._newest() or never).expires_ms >= ends_ms, what="a renewal")  # noqa: B023
        assert not hold.lost()
        assert other.take("two") is None
    hold.give_back()
    assert other.held_by() is None


@pytest.mark.parametrize("looks_again", [True, False])
def test_a_lease_follows_only_the_one_that_was_seen(store: StoreUrl, looks_again: bool) -> None:
    first, second = LeaseHold(store), LeaseHold(store)
    assert second._newest() is None
    first.take("first")
    if looks_again:
        assert second.held_by() == "first"
    with pytest.raises(CommitFailedError):
        second._swapped(1, "second", 1)
    assert not first.lost()
    first.give_back()


def test_of_two_who_want_a_free_lease_one_gets_it(store: StoreUrl, clock: Clock) -> None:
    holds = [LeaseHold(store, lease_s=3600, clock=clock) for _ in range(2)]
    seen = [hold._newest() for hold in holds]  # both have looked, and found it free
    assert seen == [None, None]
    fences = [hold.take(f"{number}") for number, hold in enumerate(holds)]
    assert fences == [Fence(1, "0"), None]
    for hold in holds:
        hold.give_back()
