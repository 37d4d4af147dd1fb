"""What a question to a store in etcd costs, and what it is answered from while others write."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from nexus.etcd import EtcdError, Get
from nexus.etcd.blocking import BlockingClient
from nexus.store.errors import StoreAway, TooMuch
from nexus.store.etcd import parts, reading, store
from nexus.store.etcd.layout import data_keys, latest_key
from nexus.store.etcd.reading import Asked, Reader
from nexus.store.etcd.snapshot import EtcdSnapshot
from nexus.store.opening import open_store
from nexus.store.port import ANY, READING_KEY, GroupSteps, Page, Selection, Span
from support.derived import HOUR, MINUTE, NOON, canonical
from support.etcd import EtcdMember
from support.etcd_stores import EtcdFilled, opened_at
from support.lakes import fleet_readings, walked, without
from support.needs import need_program

ALL = Page(100_000)
SPAN = Span(NOON, NOON + HOUR)
SECOND = 1_000_000


@pytest.fixture
def filled(etcd: EtcdMember, name: str) -> Iterator[EtcdFilled]:
    with EtcdFilled(etcd, f"/{name}") as made:
        yield made


@pytest.fixture(autouse=True)
def every_look_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "FRESH_S", 0.0)


class Watched:
    """Notes what is asked of etcd, and how many keys come back."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gets: list[Get] = []
        self.keys = 0
        plain = Reader.together

        def together(this: Reader, gets: Any) -> Any:
            answer = plain(this, gets)
            self.gets += gets
            self.keys += sum(len(answer.got(number).items) for number in range(len(gets)))
            return answer

        monkeypatch.setattr(Reader, "together", together)

    def under(self, prefix: bytes) -> list[Get]:
        return [get for get in self.gets if get.keys.start.startswith(prefix)]


def every_second(gpus: int, minutes: int, start: int = NOON) -> pa.Table:
    rows = [
        {"uuid": f"GPU-{gpu:03d}", "hostname": "h", "cluster": "c", "metric": "power"}
        | {"timestamp": start + second * SECOND, "value": float(second)}
        for gpu in range(gpus)
        for second in range(minutes * 60)
    ]
    return canonical(rows)


def some(seed: int, count: int = 60) -> pa.Table:
    return fleet_readings(random.Random(seed), count, NOON, NOON + HOUR)


def test_one_gpus_minutes_read_no_other_keys(
    filled: EtcdFilled, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled.add(every_second(5, 10))
    with opened_at(filled.url) as asked:
        view = asked.snapshot()
        watched = Watched(monkeypatch)
        span = Span(NOON + 2 * MINUTE, NOON + 3 * MINUTE - 1)
        rows = view.readings(Selection(uuids=("GPU-001",)), span, ALL)
        assert rows.num_rows == 60
        assert watched.keys <= 62  # the readings, and the first of them when they were counted
        whole = data_keys(filled.layout.path("c", "h", "GPU-001"), span.start_us, span.end_us + 1)
        assert {get.keys for get in watched.gets} == {whole}
        watched.gets.clear()
        assert view.gpu("GPU-003").num_rows == 1
        assert view.latest(Selection(uuids=("GPU-003",)), ALL).num_rows == 1
        wanted = latest_key(filled.layout.path("c", "h", "GPU-003"))
        assert {get.keys.start for get in watched.gets} == {wanted}


def test_lists_of_gpus_never_read_their_readings(
    filled: EtcdFilled, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled.add(every_second(4, 5))
    watched = Watched(monkeypatch)
    with opened_at(filled.url) as asked:
        view = asked.snapshot()
        assert view.gpus(ANY, (), ALL).num_rows == 4
        assert view.fleet(ANY, ("hostname",)).column("gpus").to_pylist() == [4]
        assert view.metrics(ANY).num_rows == 1
        assert view.gpus_named("GPU-") == ["GPU-000", "GPU-001"]
    assert watched.keys < 20
    assert not [get for get in watched.gets if b"/data/" in get.keys.start]


@pytest.mark.parametrize("descending", [False, True])
def test_a_page_of_a_long_span_does_not_read_the_span(
    filled: EtcdFilled, monkeypatch: pytest.MonkeyPatch, descending: bool
) -> None:
    monkeypatch.setattr("nexus.store.questions.paging.SLICE_ROWS", 2000)  # rows of files: 100 keys
    filled.add(every_second(2, 40))
    long = Span(-(2**62), 2**62)
    with opened_at(filled.url) as asked:
        watched = Watched(monkeypatch)
        rows = asked.snapshot().readings(ANY, long, Page(10, None, descending))
        assert rows.num_rows == 10
        assert watched.keys < 300
        steps = asked.snapshot().rollups(ANY, long, 10, Page(5, None, descending))
        assert steps.num_rows == 5
        assert watched.keys < 600
        pages = walked(
            lambda page: asked.snapshot().readings(ANY, long, page),
            READING_KEY,
            1000,
            descending=descending,
        )
    assert pages.num_rows == 2 * 40 * 60


def test_documents_that_did_not_change_are_not_read_again(
    filled: EtcdFilled, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled.add(every_second(6, 1))
    with opened_at(filled.url) as asked:
        assert asked.snapshot().gpus(ANY, (), ALL).num_rows == 6
        watched = Watched(monkeypatch)
        assert asked.snapshot().gpus(ANY, (), ALL).num_rows == 6
        assert watched.keys == 3  # the store's own: its writer, and how far a stream has come
        watched.keys = 0
        filled.add(every_second(1, 1, NOON + HOUR))
        (row,) = asked.snapshot().latest(Selection(uuids=("GPU-000",)), ALL).to_pylist()
        assert row["timestamp"].timestamp() * SECOND == NOON + HOUR + 59 * SECOND
        assert asked.snapshot().gpus(ANY, (), ALL).num_rows == 6
        assert watched.keys <= 3 * 2 + 3


def answers(view: Any) -> list[object]:
    return [
        view.readings(ANY, SPAN, ALL).to_pylist(),
        view.rollups(ANY, SPAN, 60, ALL).to_pylist(),
        view.latest(ANY, ALL).to_pylist(),
        view.gpus(ANY, (), ALL).to_pylist(),
        view.summary(ANY, SPAN, ("hostname",)).to_pylist(),
    ]


def test_a_snapshot_does_not_move_while_readings_come(filled: EtcdFilled) -> None:
    first = some(1)
    filled.add(first)
    with opened_at(filled.url) as asked:
        view, untouched = asked.snapshot(), asked.snapshot()
        before = answers(view)
        more = without(some(2, 200), first)
        filled.add(more)
        later = asked.snapshot()
        assert later.readings(ANY, SPAN, ALL).num_rows == 60 + more.num_rows
        assert answers(later) != before
        assert answers(view) == before
        assert answers(untouched) == before
        assert later.versions["readings"] > view.versions["readings"]


def test_versions_change_with_the_store_and_with_nothing_else(filled: EtcdFilled) -> None:
    with opened_at(filled.url) as asked:
        filled.add(some(1))
        first = asked.snapshot()
        for number in range(5):
            filled.client.put(f"{filled.layout.prefix}-elsewhere".encode(), b"%d" % number)
        second = asked.snapshot()
        assert second.versions == first.versions
        assert isinstance(first, EtcdSnapshot)
        assert isinstance(second, EtcdSnapshot)
        assert second.revision == first.revision + 5
        filled.add(without(some(2), some(1)))
        assert asked.snapshot().versions["latest"] > second.versions["latest"]


def test_a_revision_that_is_compacted_away_is_left_for_the_newest(filled: EtcdFilled) -> None:
    filled.add(some(1))
    with opened_at(filled.url) as asked:
        view = asked.snapshot()
        more = without(some(2), some(1))
        filled.add(more)
        newest = filled.client.put(b"/compacted", b"").revision
        filled.client.run(lambda client: client.maintenance.compact(newest))
        assert view.readings(ANY, SPAN, ALL).num_rows == 60 + more.num_rows
        assert isinstance(view, EtcdSnapshot)
        assert view.revision >= newest
        assert view.latest(ANY, ALL).num_rows == asked.snapshot().latest(ANY, ALL).num_rows


def test_too_many_readings_are_refused_and_fewer_are_not(
    filled: EtcdFilled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "ROWS_MAX", 500)
    filled.add(every_second(5, 4))
    with opened_at(filled.url) as asked:
        view = asked.snapshot()
        with pytest.raises(TooMuch, match="less time or fewer GPUs"):
            view.summary(ANY, SPAN, ())
        with pytest.raises(TooMuch, match="more than 500"):
            view.groups(ANY, SPAN, GroupSteps(60, ("hostname",), 1000))
        one = Selection(uuids=("GPU-002",))
        assert view.summary(one, SPAN, ()).column("count").to_pylist() == [240]
        minute = Span(NOON, NOON + MINUTE - 1)
        assert view.summary(ANY, minute, ()).column("count").to_pylist() == [300]
        monkeypatch.setattr(reading, "SECONDS_MAX", -1.0)
        with pytest.raises(TooMuch, match="too much had to be read"):
            view.summary(one, SPAN, ())


def test_readings_come_in_calls_that_are_never_large(
    filled: EtcdFilled, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled.add(every_second(7, 3))
    with opened_at(filled.url) as asked:
        view = asked.snapshot()
        whole = view.readings(ANY, SPAN, ALL)
        monkeypatch.setattr(reading, "KEYS_AT_ONCE", 40)
        monkeypatch.setattr(reading, "RANGE_KEYS", 33)
        most = 0
        plain = Reader.together

        def together(this: Reader, gets: Any) -> Any:
            nonlocal most
            answer = plain(this, gets)
            most = max(most, sum(len(answer.got(number).items) for number in range(len(gets))))
            return answer

        monkeypatch.setattr(Reader, "together", together)
        assert view.readings(ANY, SPAN, ALL).equals(whole)
        assert 33 <= most <= 40
    assert whole.num_rows == 7 * 180


def test_answers_that_would_be_too_large_are_asked_for_in_pieces(
    etcd: EtcdMember, filled: EtcdFilled
) -> None:
    filled.add(every_second(3, 10))
    paths = [filled.layout.path("c", "h", f"GPU-{n:03d}") for n in range(3)]
    with BlockingClient(etcd.config(receive_bytes_max=20_000)) as narrow:
        reader = Reader(narrow, "test")
        newest = narrow.put(b"/now", b"").revision
        found = reader.items([Asked(data_keys(path)) for path in paths], newest)
        assert sorted(item.key for items in found for item in items) == sorted(
            item.key
            for path in paths
            for page in filled.client.scan(data_keys(path))
            for item in page.items
        )
        large = [f"{filled.layout.prefix}/large-{n}".encode() for n in range(9)]
        for key in large:
            filled.client.put(key, b"x" * 6_000)
        revision = narrow.put(b"/now", b"").revision
        assert reader.changed([*large, b"/nobody"], revision) == {
            **dict.fromkeys(large, b"x" * 6_000),
            b"/nobody": None,
        }
        filled.client.put(large[0], b"x" * 30_000)
        with pytest.raises(TooMuch, match="store test"):
            reader.changed(large, narrow.put(b"/now", b"").revision)


def test_of_a_reading_that_is_told_under_two_paths_the_first_counts(filled: EtcdFilled) -> None:
    told = {"uuid": "GPU-1", "cluster": "c", "metric": "power"}
    filled.add(canonical([{**told, "hostname": "old", "value": 1.0}]))
    filled.add(canonical([{**told, "hostname": "new", "value": 2.0}]))
    filled.add(canonical([{**told, "hostname": "new", "value": 3.0, "timestamp": NOON + SECOND}]))
    with opened_at(filled.url) as asked:
        view = asked.snapshot()
        assert view.readings(ANY, SPAN, ALL).column("value").to_pylist() == [1.0, 3.0]
        assert view.summary(ANY, SPAN, ()).column("max").to_pylist() == [3.0]
        assert view.latest(ANY, ALL).column("value").to_pylist() == [3.0]
        assert view.gpus(ANY, (), ALL).column("hostname").to_pylist() == ["new"]
        assert view.readings(Selection(hostnames=("old",)), SPAN, ALL).num_rows == 1


def test_a_gpu_that_is_removed_is_gone(filled: EtcdFilled) -> None:
    filled.add(every_second(3, 1))
    with opened_at(filled.url) as asked:
        first = asked.snapshot()
        assert first.latest(ANY, ALL).num_rows == 3
        filled.client.delete(filled.layout.gpu("GPU-001"))
        second = asked.snapshot()
        assert second.gpus(ANY, (), ALL).column("uuid").to_pylist() == ["GPU-000", "GPU-002"]
        assert second.latest(ANY, ALL).num_rows == 2
        assert second.versions != first.versions
        filled.client.delete(latest_key(filled.layout.path("c", "h", "GPU-002")))
        assert asked.snapshot().latest(ANY, ALL).column("uuid").to_pylist() == ["GPU-000"]


def test_a_store_without_anything_is_an_empty_one(etcd: EtcdMember, name: str) -> None:
    with opened_at(f"etcd://{etcd.endpoint}/{name}") as asked:
        view = asked.snapshot()
        assert view.versions == {}
        assert view.gpus(ANY, (), ALL).num_rows == 0
        assert view.gpu("GPU-1").num_rows == 0
        assert view.gpus_named("GPU") == []
        assert view.readings(ANY, SPAN, ALL).num_rows == 0
        assert view.rollups(ANY, SPAN, 60, ALL).num_rows == 0
        assert view.groups(ANY, SPAN, GroupSteps(60, (), 10)).num_rows == 0
        assert view.latest(ANY, ALL).num_rows == 0
        assert view.summary(ANY, SPAN, ("cluster",)).num_rows == 0
        assert view.fleet(ANY, ()).column("gpus").to_pylist() == [0]
        assert view.metrics(ANY).num_rows == 0
        assert view.quarantine(SPAN, (), ALL).num_rows == 0
        assert view.tables().num_rows == 0


def test_somebody_elses_value_is_said_to_be_one(filled: EtcdFilled) -> None:
    filled.add(every_second(1, 1))
    keys = data_keys(filled.layout.path("c", "h", "GPU-000"))
    first = filled.client.range(Get(keys, limit=1)).first
    assert first is not None
    filled.client.put(first.key, b"not JSON")
    with opened_at(filled.url) as asked:
        with pytest.raises(StoreAway, match="not its own"):
            asked.snapshot().readings(ANY, SPAN, ALL)
        filled.client.put(filled.layout.gpu("GPU-000"), b"nor this")
        with pytest.raises(StoreAway, match="not its own"):
            asked.snapshot()


def test_a_store_that_is_away_says_so_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "TIMEOUT_S", 0.5)
    member = EtcdMember(tmp_path).start()
    try:
        with EtcdFilled(member, "/away") as filled:
            filled.add(every_second(2, 1))
        asked = open_store(f"etcd://{member.endpoint}/away")
        view = asked.snapshot()
        assert view.readings(ANY, SPAN, ALL).num_rows == 120
        member.kill()
        with pytest.raises(StoreAway, match=f"store etcd://{member.endpoint}/away"):
            view.readings(ANY, SPAN, ALL)
        with pytest.raises(StoreAway):
            asked.snapshot()
        member.start()
        assert asked.snapshot().readings(ANY, SPAN, ALL).num_rows == 120
        assert view.gpus(ANY, (), ALL).num_rows == 2
        asked.close()
        asked.close()
        with pytest.raises(StoreAway, match="closed"):
            asked.snapshot()
    finally:
        member.kill()


def test_the_right_to_read_its_prefix_is_all_that_a_reader_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = EtcdMember(tmp_path).start()
    try:
        with EtcdFilled(member, "/guarded") as filled:
            filled.add(every_second(2, 1))
        for words in (
            ("user", "add", "root:secret"),
            ("user", "grant-role", "root", "root"),
            ("role", "add", "reader"),
            ("role", "grant-permission", "reader", "--prefix", "read", "/guarded/"),
            ("user", "add", "gateway:read-only"),
            ("user", "grant-role", "gateway", "reader"),
            ("auth", "enable"),
        ):
            etcdctl(member, *words)
        with pytest.raises(EtcdError, match="needs a password: set ETCD_PASSWORD"):
            open_store(f"etcd://gateway@{member.endpoint}/guarded")
        monkeypatch.setenv("ETCD_PASSWORD", "read-only")
        with opened_at(f"etcd://gateway@{member.endpoint}/guarded") as asked:
            view = asked.snapshot()
            assert view.readings(ANY, SPAN, ALL).num_rows == 120
            assert view.gpus(ANY, (), ALL).num_rows == 2
            assert view.tables().column("rows").to_pylist() == [120, 0, 2, 2]
        with (
            opened_at(f"etcd://gateway@{member.endpoint}/other") as asked,
            pytest.raises(StoreAway, match="permission"),
        ):
            asked.snapshot()
    finally:
        member.kill()


def etcdctl(member: EtcdMember, *words: str) -> None:
    command = [need_program("etcdctl"), "--endpoints", member.endpoint, *words]
    environ = {**os.environ, "ETCDCTL_API": "3"}
    subprocess.run(command, env=environ, check=True, capture_output=True, timeout=20)


def test_an_etcd_that_was_set_back_is_followed_there(tmp_path: Path) -> None:
    member = EtcdMember(tmp_path).start()
    try:
        with EtcdFilled(member, "/back") as filled:
            for minute in range(3):
                filled.add(every_second(3, 1, NOON + minute * MINUTE))
        with opened_at(f"etcd://{member.endpoint}/back") as asked:
            assert asked.snapshot().latest(ANY, ALL).num_rows == 3
            member.kill()
            shutil.rmtree(tmp_path / member.name)
            member.start()
            with EtcdFilled(member, "/back") as filled:
                filled.add(every_second(3, 1))
                last = asked.snapshot().latest(ANY, ALL).column("value").to_pylist()
                assert last == [59.0] * 3
                filled.add(every_second(1, 1, NOON + MINUTE))
                for _ in range(30):  # past the revision that was known before
                    filled.client.put(b"/elsewhere", b"")
            assert asked.snapshot().gpus(ANY, (), ALL).num_rows == 3
            seen = asked.snapshot().gpus(ANY, (), ALL).column("last_seen").cast(pa.int64())
            assert seen.to_pylist() == [NOON + s * SECOND for s in (119, 59, 59)]
    finally:
        member.kill()


def test_many_threads_ask_at_once_while_readings_come(filled: EtcdFilled) -> None:
    held = some(0)
    filled.add(held)
    wrong: list[object] = []
    done = threading.Event()

    with opened_at(filled.url) as asked:

        def ask() -> None:
            before = 0
            while not done.is_set():
                try:
                    view = asked.snapshot()
                    rows = view.readings(ANY, SPAN, ALL).num_rows
                    counted = view.summary(ANY, SPAN, ())
                    whole = sum(counted["count"].to_pylist()) + sum(counted["missing"].to_pylist())
                    if not before <= rows == whole:
                        wrong.append((before, rows, whole))
                    before = rows
                    view.latest(ANY, ALL)
                except Exception as error:  # noqa: BLE001
                    wrong.append(error)
                    return

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        for seed in range(1, 6):
            new = without(some(seed), held)
            held = pa.concat_tables([held, new])
            filled.add(new)
        done.set()
        for thread in threads:
            thread.join(30)
        assert not wrong
        assert asked.snapshot().readings(ANY, SPAN, ALL).num_rows == held.num_rows
