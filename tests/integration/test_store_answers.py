"""Every store gives the answers that a Delta store gives, filled with the same readings."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from nexus.lake import files, table
from nexus.lake.table import LakeTable
from nexus.store.errors import BadKey, Unsupported
from nexus.store.etcd import parts
from nexus.store.port import (
    ANY,
    GPU_KEY,
    LATEST_KEY,
    QUARANTINE_KEY,
    RAW_MAX,
    READING_KEY,
    ROLLUP_KEY,
    GroupSteps,
    Page,
    Selection,
    Snapshot,
    Span,
)
from nexus.telemetry.tables import TABLES
from support import influx
from support.derived import HOUR, MINUTE, NOON, canonical
from support.etcd import EtcdMember
from support.etcd_stores import EtcdFilled, opened_at
from support.lake import FENCE, written
from support.lakes import Lake, any_selection, fleet_readings, opened, walked, without
from support.postgres import PostgresFilled, new_database

ALL = Page(100_000)
SPAN = Span(NOON, NOON + HOUR)
NOW_S = (NOON + HOUR) / 1_000_000
ADDED = ("mean", "sum", "busy_mean", "power_w", "memory_used", "memory_total")


class Both(NamedTuple):
    """The same readings in two stores."""

    delta: Snapshot
    other: Snapshot
    kind: str


class Filled(Protocol):
    """A store that takes what the Delta store takes."""

    @property
    def url(self) -> str: ...

    def add(self, rows: pa.Table) -> object: ...
    def refuse(self, rows: pa.Table) -> None: ...


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(files, "sync", lambda path: None)
        patched.setattr(table, "sync", lambda path: None)
        made = Lake(tmp_path_factory.mktemp("lake"))
        for rows in batches():
            made.add(rows)
        quarantine = LakeTable.open(made.store, TABLES["quarantine"])
        quarantine.append([written(quarantine.files_of, refused_rows(40))], "test", 0, FENCE)
        return made


@pytest.fixture(
    scope="module", params=["etcd", "postgres", "postgres rolled up", "influx", "influx rolled up"]
)
def both(request: pytest.FixtureRequest, lake: Lake) -> Iterator[Both]:
    """Two batches of a fleet's hour, of which a GPU moved, and names that are no path's."""
    with (
        filled(request.param, request.getfixturevalue) as store,
        opened(lake, clock=lambda: NOW_S) as one,
        opened_at(store.url, clock=lambda: NOW_S) as other,
    ):
        yield Both(one.snapshot(), other.snapshot(), request.param)


@contextmanager
def filled(kind: str, fixture: Callable[[str], Any]) -> Iterator[Filled]:
    with ExitStack() as stack:
        store: Filled
        rolled: PostgresFilled | influx.InfluxFilled
        if kind == "etcd":
            store = stack.enter_context(EtcdFilled(fixture("etcd"), "/both"))
        elif kind.startswith("influx"):
            url = influx.new_database(fixture("influx"), kind.replace(" ", "_"))
            store = rolled = stack.enter_context(influx.InfluxFilled(url))
        else:
            url = new_database(fixture("postgres"), kind.replace(" ", "_"))
            store = rolled = stack.enter_context(PostgresFilled(url))
        for rows in batches():
            store.add(rows)
            if kind.endswith("rolled up"):
                rolled.roll()  # so the second batch comes to windows that are stored
        if kind.endswith("rolled up"):
            rolled.roll()
        store.refuse(refused_rows(40))
        yield store


def batches() -> Iterator[pa.Table]:
    rng = random.Random(1)
    early = fleet_readings(rng, 300, NOON, NOON + 40 * MINUTE)
    yield early
    late = without(fleet_readings(rng, 300, NOON + 10 * MINUTE, NOON + HOUR), early)
    odd: list[dict[str, Any]] = [
        {"uuid": "GPU-1", "hostname": host, "cluster": "east", "timestamp": NOON + minute * MINUTE}
        for host, minute in (("h0", 3), ("h9", 50), ("h0", 51), ("h9", 52))
    ]
    odd += [
        {"uuid": "GPU/%é\n", "hostname": "a/b%2F", "cluster": "über\x7f", "metric": "odd/one_%"},
        {"uuid": "GPU-5", "hostname": "h1", "metric": "odd", "unit": "furlong", "value": None},
        {"uuid": "GPU-5", "hostname": "h1", "metric": "power", "labels": '{"k":"v\\n\\u00e9"}'},
    ]
    yield pa.concat_tables([late, canonical(odd)])


def refused_rows(count: int, raw: bytes = b"{}") -> pa.Table:
    rows = [
        {
            "refused": datetime(2025, 7, 18, 12, 0, n // 3, tzinfo=UTC),
            "reason": "value" if n % 2 else "time",
            "stage": "validate",
            "topic": "t",
            "partition": n % 3,
            "offset": n,
            "row": n % 2,
            "content_type": "text/csv",
            "source": "",
            "raw": raw if n % 2 else b"\xff\x00 no text",
            "day": datetime(2025, 7, 18, tzinfo=UTC).date(),
        }
        for n in range(count)
    ]
    return pa.Table.from_pylist(rows, TABLES["quarantine"].schema)


def same(both: Both, ask: Callable[[Snapshot], pa.Table]) -> pa.Table:
    """What both answer, which must be the same but for the last digit of a mean."""
    wanted, found = ask(both.delta), ask(both.other)
    assert found.schema.equals(wanted.schema)
    for name in wanted.column_names:
        some, others = found.column(name).to_pylist(), wanted.column(name).to_pylist()
        if name in ADDED:  # in another order, perhaps
            some, others = _numbers(some), _numbers(others)
            others = pytest.approx(others, rel=1e-9, abs=1e-6, nan_ok=True)
        assert some == others, name
    return found


def _numbers(values: list[float | None]) -> list[float]:
    return [float("nan") if value is None else value for value in values]


def same_pages(
    both: Both,
    ask: Callable[[Snapshot, Page], pa.Table],
    key: tuple[str, ...],
    limit: int,
    *,
    descending: bool = False,
) -> pa.Table:
    return same(
        both,
        lambda view: walked(lambda page: ask(view, page), key, limit, descending=descending),
    )


def selections() -> list[Selection]:
    rng = random.Random(5)
    return [
        ANY,
        Selection(uuids=("GPU-1", "GPU-5", "nobody")),
        Selection(hostnames=("h9", "a/b%2F")),
        Selection(metrics=("power", "gpu_util"), instances=(("power", "link=1"),)),
        *(any_selection(rng) for _ in range(2)),
    ]


@pytest.fixture
def each_way(both: Both, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Readings as they are; and of a store in etcd, which alone remembers some, from memory."""

    def ways() -> Iterator[None]:
        yield
        if both.kind == "etcd":
            monkeypatch.setattr(parts, "REMEMBERED_LEAST", 0)
            yield

    return ways()


def test_readings_are_the_same(both: Both, each_way: Iterator[None]) -> None:
    for _ in each_way:
        rng = random.Random(1)
        low = NOON + rng.randrange(HOUR)
        spans = [SPAN, Span(low, low + rng.randrange(HOUR)), Span(-(2**62), 2**62)]
        for number, which in enumerate([ANY, *selections()]):
            span = spans[number % len(spans)]
            same_pages(
                both,
                lambda view, page: view.readings(which, span, page),  # noqa: B023
                READING_KEY,
                rng.choice([97, 1000]),
                descending=bool(number % 2),
            )


def test_steps_and_groups_of_them_are_the_same(both: Both, each_way: Iterator[None]) -> None:
    for _ in each_way:
        rng = random.Random(1)
        for which in selections():
            if which.hostnames and both.kind.endswith("rolled up"):
                continue  # a window is all of the host that its last reading names, and a GPU moved
            step = rng.choice([1, 60, 90, 3600, 86_400])
            same(both, lambda view: view.rollups(which, SPAN, step, ALL))  # noqa: B023
            steps = GroupSteps(step, ("hostname", "metric"), 1000, top=rng.choice([None, 1]))
            same(both, lambda view: view.groups(which, SPAN, steps))  # noqa: B023
        for descending in (False, True):
            found = same_pages(
                both,
                lambda view, page: view.rollups(ANY, SPAN, 60, page),
                ROLLUP_KEY,
                250,
                descending=descending,
            )
            assert found.num_rows > 500


def test_summaries_are_the_same(both: Both, each_way: Iterator[None]) -> None:
    for _ in each_way:
        for which in selections():
            for by in [(), ("namespace", "metric"), ("cluster", "hostname", "gpu")]:
                found = same(both, lambda view: view.summary(which, SPAN, by))  # noqa: B023
                assert pc.all(found.column("exact")).as_py() is not False


def test_what_is_known_last_is_the_same(both: Both) -> None:
    for number, which in enumerate(selections()):
        same_pages(
            both,
            lambda view, page: view.latest(which, page),  # noqa: B023
            LATEST_KEY,
            101,
            descending=bool(number % 2),
        )
        same(both, lambda view: view.latest(which, ALL, NOON + 50 * MINUTE))  # noqa: B023
        same(both, lambda view: view.metrics(which))  # noqa: B023


def test_gpus_and_the_fleet_are_the_same(both: Both) -> None:
    for which in selections():
        same_pages(both, lambda view, page: view.gpus(which, (), page), GPU_KEY, 4)  # noqa: B023
        same(both, lambda view: view.gpus(which, ("active", "unknown"), ALL))  # noqa: B023
        for by in [(), ("cluster", "hostname")]:
            same(both, lambda view: view.fleet(which, by))  # noqa: B023


def test_a_gpu_is_found_by_its_uuid_and_by_a_prefix(both: Both) -> None:
    for uuid in ("GPU-1", "GPU-3", "GPU/%é\n", "h0/", "GPU-", "nobody"):
        same(both, lambda view: view.gpu(uuid))  # noqa: B023
    for prefix in ("", "GPU", "GPU-3", "GPU/", "h0", "h0/", "%", "x"):
        assert both.other.gpus_named(prefix) == both.delta.gpus_named(prefix)


def test_only_columns_that_are_asked_for_are_in_the_answer(both: Both) -> None:
    page = Page(100, columns=("timestamp", "uuid", "value"))
    found = same(both, lambda view: view.readings(ANY, SPAN, page))
    assert found.column_names == ["timestamp", "uuid", "value"]


@pytest.mark.parametrize("descending", [False, True])
def test_what_was_refused_is_the_same(both: Both, descending: bool) -> None:
    for reasons in [(), ("value",), ("nothing",)]:
        same_pages(
            both,
            lambda view, page: view.quarantine(SPAN, reasons, page),  # noqa: B023
            QUARANTINE_KEY,
            7,
            descending=descending,
        )
    assert same(both, lambda view: view.quarantine(Span(NOON, NOON), (), ALL)).num_rows == 3


def test_of_a_large_message_that_was_refused_the_beginning_and_the_size_are_kept(
    etcd: EtcdMember, name: str
) -> None:
    with EtcdFilled(etcd, f"/{name}") as filled:
        filled.refuse(refused_rows(2, raw=b"x" * 1_000_000))
        with opened_at(filled.url) as store:
            rows = store.snapshot().quarantine(SPAN, ("value",), ALL).to_pylist()
    assert [(len(row["raw"]), row["raw_size"]) for row in rows] == [(RAW_MAX, 1_000_000)]


def test_tables_say_how_much_there_is(both: Both) -> None:
    told = {row["name"]: row for row in both.other.tables().to_pylist()}
    other = {row["name"]: row for row in both.delta.tables().to_pylist()}
    rolled = {"rollup_1m", "rollup_1h"} if both.kind.endswith("rolled up") else set()
    wanted = {"readings", "quarantine", "latest", "gpus"} | rolled
    assert told.keys() == wanted == both.other.versions.keys()
    for name in ("readings", "quarantine"):
        assert told[name]["rows"] == other[name]["rows"]
    assert told["latest"]["rows"] == both.delta.latest(ANY, ALL).num_rows
    assert told["gpus"]["rows"] == both.delta.gpus(ANY, (), ALL).num_rows
    for end in ("oldest", "newest"):
        apart = told["readings"][end] - other["readings"][end]
        assert abs(apart.total_seconds()) < 0.002
    assert told["readings"]["last_commit"] is not None
    assert 50 < told["readings"]["bytes"] / told["readings"]["rows"] < 800


def test_what_no_store_can_answer_is_refused(both: Both) -> None:
    with pytest.raises(Unsupported, match="value"):
        both.other.summary(ANY, SPAN, ("value",))
    with pytest.raises(Unsupported, match="metric"):
        both.other.fleet(ANY, ("metric",))
    with pytest.raises(BadKey):
        both.other.readings(ANY, SPAN, Page(10, (1,)))
    with pytest.raises(BadKey):
        both.other.quarantine(SPAN, (), Page(10, (1,)))
    with pytest.raises(ValueError, match="100000"):
        both.other.readings(ANY, SPAN, Page(0))
