"""What a store in etcd remembers of large questions is what etcd holds, whatever happened since."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from nexus.store.etcd import memory, parts, store
from nexus.store.etcd.layout import data_keys
from nexus.store.etcd.memory import BLOCK_US
from nexus.store.etcd.reading import Reader
from nexus.store.etcd.snapshot import EtcdSnapshot
from nexus.store.etcd.store import EtcdStore
from nexus.store.port import ANY, Page, Selection, Snapshot, Span
from support.derived import HOUR, NOON, canonical
from support.etcd import EtcdMember
from support.etcd_stores import EtcdFilled, opened_at

ALL = Page(100_000)
SPAN = Span(NOON, NOON + HOUR)
SECOND = 1_000_000


@pytest.fixture
def filled(etcd: EtcdMember, name: str) -> Iterator[EtcdFilled]:
    with EtcdFilled(etcd, f"/{name}") as made:
        yield made


@pytest.fixture(autouse=True)
def everything_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "FRESH_S", 0.0)
    monkeypatch.setattr(parts, "REMEMBERED_LEAST", 0)


def at(*seconds: float, gpus: int = 3, metric: str = "power") -> pa.Table:
    return canonical(
        {"uuid": f"GPU-{gpu}", "hostname": "h", "cluster": "c", "metric": metric}
        | {"timestamp": NOON + round(second * SECOND), "value": second}
        for gpu in range(gpus)
        for second in seconds
    )


def count(view: Snapshot, which: Selection = ANY, span: Span = SPAN) -> int:
    found: list[int] = view.summary(which, span, ()).column("count").to_pylist()
    return sum(found)


class Sent:
    """How many readings etcd sends."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.readings = 0
        plain = Reader.items

        def items(this: Reader, *given: Any) -> Iterator[Any]:
            for portion in plain(this, *given):
                self.readings += sum(b"/data/" in item.key for item in portion)
                yield portion

        monkeypatch.setattr(Reader, "items", items)


def test_only_what_is_new_is_read_again(
    filled: EtcdFilled, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled.add(at(*range(600)))
    sent = Sent(monkeypatch)
    with opened_at(filled.url) as asked:
        assert count(asked.snapshot()) == 1800
        assert sent.readings == 1800
        sent.readings = 0
        assert count(asked.snapshot()) == 1800
        assert sent.readings == 3 * 10  # the last ten seconds, which may not be all there
        filled.add(at(*range(600, 605)))
        sent.readings = 0
        assert count(asked.snapshot()) == 1815
        assert sent.readings == 3 * 15
        sent.readings = 0
        assert count(asked.snapshot(), Selection(uuids=("GPU-1",))) == 605
        assert sent.readings == 10


def test_what_comes_late_is_found_and_only_its_block_is_read_again(
    filled: EtcdFilled, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled.add(at(*range(600)))
    with opened_at(filled.url) as asked:
        assert count(asked.snapshot()) == 1800
        filled.add(at(250.5, gpus=1))
        sent = Sent(monkeypatch)
        assert count(asked.snapshot()) == 1801
        block = BLOCK_US // SECOND
        assert sent.readings == block + 1 + 3 * 10
        filled.add(at(250.5, metric="gpu_util"))
        rows = asked.snapshot().readings(ANY, Span(NOON + 250 * SECOND, NOON + 251 * SECOND), ALL)
        assert rows.num_rows == 6 + 1 + 3


def test_what_was_swept_is_forgotten(filled: EtcdFilled) -> None:
    filled.add(at(*range(600)))
    with opened_at(filled.url) as asked:
        assert count(asked.snapshot()) == 1800
        for gpu in range(3):
            path = filled.layout.path("c", "h", f"GPU-{gpu}")
            filled.client.delete(data_keys(path, None, NOON + 350 * SECOND))
        assert count(asked.snapshot()) == 750
        filled.add(at(120.0, 349.0))  # and again something that is as old
        assert count(asked.snapshot()) == 756


def test_no_more_than_so_much_is_remembered(
    filled: EtcdFilled, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled.add(at(*range(0, 3000, 5)))
    monkeypatch.setattr(memory, "ROWS_AT_ONCE", 500)
    with opened_at(filled.url) as asked:
        assert isinstance(asked, EtcdStore)
        asked._memory._rows_kept = 700
        for _ in range(2):
            assert count(asked.snapshot()) == 1800
            assert 600 < asked._memory.rows <= 700
        assert asked._memory.rows == sum(block.keys for block in asked._memory._blocks.values())


def test_a_snapshot_from_before_goes_to_what_is_remembered(filled: EtcdFilled) -> None:
    filled.add(at(*range(100)))
    with opened_at(filled.url) as asked:
        before = asked.snapshot()
        filled.add(at(*range(100, 200)))
        later = asked.snapshot()
        assert count(later) == 600
        assert count(before) == 600
        assert isinstance(before, EtcdSnapshot)
        assert isinstance(later, EtcdSnapshot)
        assert before.revision >= later.revision


def test_a_clock_that_is_decades_off_does_no_harm(filled: EtcdFilled) -> None:
    filled.add(at(*range(100)))
    filled.add(at(-NOON / SECOND + 1, 10**9, gpus=1))
    with opened_at(filled.url) as asked:
        ever = Span(-(2**62), 2**62)
        for _ in range(2):
            assert count(asked.snapshot(), span=ever) == 302
            assert count(asked.snapshot()) == 300


@pytest.mark.parametrize("seed", range(2))
def test_whatever_happens_answers_are_those_without_memory(filled: EtcdFilled, seed: int) -> None:
    rng = random.Random(seed)
    told: set[float] = set()
    newest = 0.0
    with opened_at(filled.url) as asked, opened_at(filled.url) as forgetful:
        for _ in range(25):
            fate = rng.random()
            if fate < 0.5:  # in order
                newest += rng.uniform(0, 90)
                seconds = {
                    round(newest + rng.uniform(-12, 12), 3) for _ in range(rng.randrange(40))
                }
            elif fate < 0.7:  # late
                seconds = {round(rng.uniform(0, newest + 1), 3) for _ in range(rng.randrange(4))}
            elif fate < 0.8:
                swept(filled, rng.uniform(0, newest))
                continue
            else:
                same(asked.snapshot(), forgetful, rng, newest)
                continue
            if new := {second for second in seconds if second >= 0} - told:
                told |= new
                filled.add(at(*new, gpus=rng.choice([1, 3])))
        same(asked.snapshot(), forgetful, rng, newest)


def swept(filled: EtcdFilled, second: float) -> None:
    for gpu in range(3):
        path = filled.layout.path("c", "h", f"GPU-{gpu}")
        filled.client.delete(data_keys(path, None, NOON + round(second * SECOND)))


def same(view: Snapshot, forgetful: Any, rng: random.Random, newest: float) -> None:
    ends = sorted(NOON + rng.randrange(-SECOND, round((newest + 20) * SECOND)) for _ in range(2))
    span = rng.choice([SPAN, Span(ends[0], ends[1])])
    found = view.readings(ANY, span, ALL)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(parts, "REMEMBERED_LEAST", 10**9)
        wanted = forgetful.snapshot().readings(ANY, span, ALL)
    assert found.equals(wanted)
