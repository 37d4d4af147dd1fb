"""What dies around a commit to InfluxDB, a writer or the server, loses nothing and doubles nothing.

The same with a whole collector is in `chaos/test_influx_kills.py`.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from nexus.bench.local_influx import LocalInflux
from nexus.store.influx.lock import InfluxLock
from nexus.store.port import ANY, Page, Span
from support.derived import NOON, canonical
from support.etcd_stores import opened_at
from support.influx import InfluxFilled, influx_server, new_database
from support.waiting import wait_until

ALWAYS = Span(-(2**62), 2**62)
ROWS = 500


@pytest.fixture
def server() -> Iterator[LocalInflux]:
    """One of its own, which is killed as the story goes."""
    with influx_server() as made:
        yield made


def batch(number: int) -> pa.Table:
    rows = [
        {"uuid": f"GPU-{n % 7}", "metric": "power", "timestamp": NOON + number * ROWS + n}
        for n in range(ROWS)
    ]
    return canonical([{**row, "value": float(n)} for n, row in enumerate(rows)])


def dying_writer(url: str, after: bool) -> None:
    """Stores one batch, and dies before or after the commit of the next."""
    store = InfluxFilled(url).__enter__()
    store.add(batch(store.number + 1))
    wrote = store.written(batch(store.number + 1))
    if after:
        store.commit(wrote)
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_writer_or_a_server_that_is_killed_loses_nothing_and_doubles_nothing(
    server: LocalInflux,
) -> None:
    url = new_database(server, "kills")
    for after in (False, True):
        child = multiprocessing.get_context("spawn").Process(target=dying_writer, args=(url, after))
        child.start()
        child.join(60)
        assert child.exitcode == -signal.SIGKILL
    with InfluxFilled(url) as store:  # at once: the one before is known to be gone
        assert store.number == 2, "two of the first, of which one was not committed, and two more"
        server.kill()
        back = threading.Timer(0.5, server.start)
        back.start()
        store.commit(store.written(batch(3), again=True))  # writes until the server is there
        back.join()
        store.written(batch(4))
        server.kill()
        server.start()
        store.add(batch(4))
        store.roll()
    with opened_at(url) as opened:
        view = opened.snapshot()
        found = view.readings(ANY, ALWAYS, Page(100_000)).column("timestamp").cast(pa.int64())
        assert found.to_pylist() == list(range(NOON, NOON + 5 * ROWS))
        held = {row["name"]: row["rows"] for row in view.tables().to_pylist()}
        assert held["readings"] == 5 * ROWS


def test_a_turn_that_is_given_back_is_free_and_one_that_is_kept_is_not(
    server: LocalInflux,
) -> None:
    url = new_database(server, "turns")
    with InfluxFilled(url) as store:
        other = InfluxLock(store.place, "other")
        waited: list[str] = []

        def wait(who: str) -> None:
            waited.append(who)
            store.lock.release()

        other.acquire(wait)
    assert waited == ["test"]
    assert not other.lost()
    other.release()
    wait_until(lambda: not any(t.name == "influx-turn" for t in threading.enumerate()), within=10)
