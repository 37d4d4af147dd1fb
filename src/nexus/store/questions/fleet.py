"""GPUs with what they are doing now, one by one and by groups."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from nexus.store.errors import Unsupported
from nexus.store.port import FLEET_GROUPS, GPU_KEY, GPU_ROWS, Page, Selection, fleet_rows
from nexus.store.questions.asking import Asking, as_schema
from nexus.store.questions.conditions import Conditions, checked_limit, ordering
from nexus.store.questions.held import moment
from nexus.store.questions.spans import SECOND
from nexus.store.states import BUSY_LEAST, HELD_BYTES, STATES, State

_COLUMNS: Final = ", ".join(GPU_ROWS.names)


def gpus(asking: Asking, which: Selection, states: tuple[str, ...], page: Page) -> pa.Table:
    """A page of GPUs; see the port."""
    limit = checked_limit(page)
    where = Conditions()
    where.select(which, metrics=False)
    where.among("state", states)
    where.after(GPU_KEY, GPU_ROWS, page)
    return _gpus(asking, where, f"ORDER BY {ordering(GPU_KEY, page)} LIMIT {where.bind(limit)}")


def gpu(asking: Asking, uuid: str) -> pa.Table:
    """One GPU with all its instances."""
    where = Conditions()
    where.among("uuid", [uuid])
    return _gpus(asking, where, "ORDER BY uuid, mig")


def named(uuids: Sequence[str], prefix: str) -> list[str]:
    """Of uuids in order, the first two that begin so."""
    first = bisect_left(uuids, prefix)
    return [uuid for uuid in uuids[first : first + 2] if uuid.startswith(prefix)]


def fleet(asking: Asking, which: Selection, by: tuple[str, ...]) -> pa.Table:
    """The fleet by groups; see the port."""
    if unknown := [name for name in by if name not in FLEET_GROUPS]:
        raise Unsupported(f"GPUs cannot be grouped by {unknown[0]}")
    by = tuple(dict.fromkeys(by))
    where = Conditions()
    where.select(which, metrics=False)
    counts = ", ".join(
        f"count(*) FILTER (state = '{state}') AS {state.replace('-', '_')}" for state in STATES
    )
    known = f"FILTER (state <> '{State.UNKNOWN}')"
    sql = f"""
        SELECT {"".join(f"{name}, " for name in by)}
               count(DISTINCT (cluster, hostname)) AS hosts, count(*) AS gpus, {counts},
               sum(power_now) {known} AS power_w, avg(busy) {known} AS busy_mean,
               sum(used_now) {known} AS memory_used, sum(total_now) {known} AS memory_total,
               max(temperature_now) {known} AS temperature_max, max(last_seen) AS last_seen
        FROM ({_judged(asking, where)}) WHERE {where}
        {f"GROUP BY {', '.join(by)} ORDER BY {', '.join(by)}" if by else ""}"""
    return as_schema(asking.ask(sql, where.params, {"devices": _devices(asking)}), fleet_rows(by))


def _gpus(asking: Asking, where: Conditions, rest: str) -> pa.Table:
    sql = f"SELECT {_COLUMNS} FROM ({_judged(asking, where)}) WHERE {where} {rest}"
    return as_schema(asking.ask(sql, where.params, {"devices": _devices(asking)}), GPU_ROWS)


def _devices(asking: Asking) -> pa.Table:
    return asking.known().devices()


def _judged(asking: Asking, params: Conditions) -> str:
    """Devices with their state and the values that are not too old to be of use."""
    since = params.bind(moment(round((asking.now_s() - asking.unknown_after_s) * SECOND)))

    def now(name: str) -> str:
        return f"CASE WHEN {name}_at >= {since} THEN {name} END"

    busy = f"coalesce({now('engine')}, {now('util')})"
    total = f"coalesce({now('memory_total')}, ({now('memory_used')}) + ({now('memory_free')}))"
    return f"""
        SELECT *, CASE
            WHEN last_seen < {since} OR busy IS NULL THEN '{State.UNKNOWN}'
            WHEN busy >= {BUSY_LEAST} THEN '{State.ACTIVE}'
            WHEN pod <> '' OR used_now > {HELD_BYTES} THEN '{State.IDLE_HELD}'
            ELSE '{State.FREE}' END AS state
        FROM (SELECT *, {busy} AS busy, {now("power")} AS power_now, {total} AS total_now,
                     {now("memory_used")} AS used_now, {now("temperature")} AS temperature_now
              FROM devices)"""
