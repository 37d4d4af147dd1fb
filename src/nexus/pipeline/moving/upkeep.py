"""Makes room in a store without losing a row: what that is depends on the kind of store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from nexus.etcd import Client
from nexus.etcd.blocking import BlockingClient
from nexus.lake.errors import StoreBusy, StoreError
from nexus.lake.lock import WriterLock
from nexus.lake.maintenance import Limits, TableReport, due, maintain
from nexus.lake.url import parse_store_url
from nexus.pipeline.moving.port import Wait
from nexus.store.opening import scheme_of

_DEAD_SHARE: Final = 0.02  # of a table's rows, and no fewer than these:
_DEAD_LEAST: Final = 1000
_KEEP_ALL: Final = Limits(retention={})  # to remove old days is the collector's business


class Step(NamedTuple):
    """Something that was done, or would be; `done` is False where it could not be."""

    what: str
    said: str
    done: bool = True


class Asked(NamedTuple):
    """What is to be done, and on whose behalf."""

    owner: str
    wait: Wait | None
    dry_run: bool


def vacuumed(url: str, asked: Asked) -> Iterator[Step]:
    """Step after step; nothing is changed with `dry_run`."""
    return KINDS.get(scheme_of(url), _delta)(url, asked)


def _delta(url: str, asked: Asked) -> Iterator[Step]:
    """What `nexus collector maintain` does, but that no day is too old."""
    store = parse_store_url(url)
    planned = due(store, limits=_KEEP_ALL).tables
    if not planned:
        raise StoreError(f"store {store}: there are no tables")
    if asked.dry_run:
        yield from map(_of_report, planned)
        return
    lock = WriterLock(store, asked.owner)
    wait = asked.wait
    fence = lock.acquire(
        None if wait is None else lambda: wait(lock.held_by() or "another collector")
    )
    try:
        tables: dict[str, TableReport] = {}
        is_complete = False
        while not is_complete:
            report = maintain(store, fence, limits=_KEEP_ALL)
            tables = {t.table: added(tables.get(t.table), t) for t in report.tables}
            is_complete = report.complete
    finally:
        lock.release()
    yield from map(_of_report, tables.values())


def added(before: TableReport | None, now: TableReport) -> TableReport:
    """One table's report after another run: what was done adds up."""
    if before is None:
        return now
    sums = ("merged", "into", "rows", "days", "vacuumed")
    return replace(now, **{name: getattr(before, name) + getattr(now, name) for name in sums})


def _of_report(report: TableReport) -> Step:
    if report.problem:
        return Step(report.table, report.problem, done=False)
    merged = f"{report.merged:,} files merged into {report.into:,}" if report.into else ""
    gone = f"{report.vacuumed:,} files removed that nobody reads" if report.vacuumed else ""
    done = ", ".join(filter(None, (merged, gone))) or "nothing to do"
    return Step(report.table, f"{done} ({report.files:,} files)")


def _postgres(url: str, asked: Asked) -> Iterator[Step]:
    from nexus.store.postgres.connecting import as_store_errors, connect  # noqa: PLC0415
    from nexus.store.postgres.url import parse_postgres_url  # noqa: PLC0415

    place = parse_postgres_url(url)
    with as_store_errors(place), connect(place, "store") as connection:
        yield from _staging(place, connection, asked)
        for name, why in connection.execute(_NEEDED, _NEED).fetchall():
            if not asked.dry_run:
                connection.execute(f'VACUUM (ANALYZE) "{name}"')
            yield Step(name, f"vacuumed and analysed: {why}")


_NEED: Final[Mapping[str, Any]] = {"share": _DEAD_SHARE, "least": _DEAD_LEAST}
# A table that is parted has no rows of its own, and nobody but us analyses it.
_NEEDED: Final = """
SELECT s.relname, CASE
  WHEN n_dead_tup > %(least)s + %(share)s * n_live_tup THEN n_dead_tup || ' dead rows'
  WHEN c.relkind = 'p' AND last_analyze IS NULL THEN 'parted by day, and never analysed'
  WHEN last_analyze IS NULL AND last_autoanalyze IS NULL THEN 'never analysed'
  ELSE n_mod_since_analyze || ' rows changed since it was analysed' END
FROM pg_stat_user_tables s JOIN pg_class c ON c.oid = s.relid
WHERE c.relnamespace = current_schema()::regnamespace AND s.relname NOT LIKE 'staged\\_%%' AND (
  n_dead_tup > %(least)s + %(share)s * n_live_tup
  OR (c.relkind = 'p' AND last_analyze IS NULL
      AND EXISTS (SELECT FROM pg_inherits WHERE inhparent = c.oid))
  OR (n_live_tup > 0 AND last_analyze IS NULL AND last_autoanalyze IS NULL)
  OR n_mod_since_analyze > %(least)s + 0.1 * n_live_tup)
ORDER BY n_dead_tup DESC, s.relname"""


def _staging(place: Any, connection: Any, asked: Asked) -> Iterator[Step]:
    """Staging tables are left over where no collector works: one that does has its own."""
    from nexus.store.postgres.lock import PostgresLock  # noqa: PLC0415
    from nexus.store.postgres.schema import check, version_of  # noqa: PLC0415
    from nexus.store.postgres.staging import staging_tables  # noqa: PLC0415

    if not (version := version_of(connection)):
        raise StoreError(f"store {place}: there are no tables")
    check(place, version)
    names = staging_tables(connection)
    if not names or asked.dry_run:
        yield from (Step(name, "removed, if no collector works with it") for name in names)
        return
    lock = PostgresLock(place, asked.owner)
    try:
        lock.acquire(_give_up)
    except StoreBusy as busy:
        yield Step("staging tables", f"left to {busy}")
        return
    try:
        for name in names:
            connection.execute(f'DROP TABLE IF EXISTS "{name}"')
            yield Step(name, "removed: no collector works with it")
    finally:
        lock.release()


def _give_up(who: str) -> None:
    raise StoreBusy(f"{who}, which writes to the store")


def _etcd(url: str, asked: Asked) -> Iterator[Step]:
    """What `nexus queue doctor --recover` does: etcd is one, whatever is in it."""
    from nexus.queue.etcd.doctor import health, plan, recover  # noqa: PLC0415
    from nexus.store.etcd.faults import as_store_errors  # noqa: PLC0415
    from nexus.store.etcd.url import parse_etcd_store_url  # noqa: PLC0415

    store = parse_etcd_store_url(url)

    async def steps(client: Client) -> list[Step]:
        if asked.dry_run:
            return [Step("etcd", said) for said in plan(await health(client))]
        key = store.layout.meta("writer")
        return [Step("etcd", each.said, each.done) async for each in recover(client, key)]

    with as_store_errors(store), BlockingClient(store.address.config()) as client:
        yield from client.run(steps)


def _influx(url: str, asked: Asked) -> Iterator[Step]:
    from nexus.store.influx.url import parse_influx_url  # noqa: PLC0415

    yield Step(parse_influx_url(url).name, "nothing to do: InfluxDB compacts its files by itself")


KINDS: Final[Mapping[str, Callable[[str, Asked], Iterator[Step]]]] = {
    "etcd": _etcd,
    "influxdb": _influx,
    "postgresql": _postgres,
    "postgres": _postgres,
}
