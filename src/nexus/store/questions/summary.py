"""What the readings of a span amount to, by groups.

Percentiles of few readings are exact. Of many, each window of a rollup says its least value, its
50th, 95th and 99th percentile and its greatest: that bounds how many of its values are at most
any other, from below and from above. The bounds of all windows, added up, hold the percentile
between two values, and the answer says how far off it may be.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import pyarrow as pa

from nexus.store.errors import TooMuch, Unsupported
from nexus.store.port import (
    LIMIT_MAX,
    SUMMARY_GROUPS,
    Selection,
    Span,
    summary_groups,
    summary_rows,
)
from nexus.store.questions import parts
from nexus.store.questions.asking import Asking, as_schema
from nexus.store.questions.conditions import Conditions
from nexus.store.questions.coverage import Coverage, coverage
from nexus.store.questions.newest import said_units
from nexus.store.questions.paging import weights
from nexus.store.questions.rolled import WIDTHS, rollups_for
from nexus.store.questions.spans import DAY, Stretch, outer
from nexus.store.questions.units import with_units

EXACT_ROWS: Final = 2_000_000  # readings that are looked at one by one
WINDOWS_MAX: Final = 500_000  # minutes; of more, hours are taken
PERCENTS: Final = {"p50": 50, "p95": 95, "p99": 99}


def summary(asking: Asking, which: Selection, span: Span, by: tuple[str, ...]) -> pa.Table:
    """The summary of a span; see the port."""
    if unknown := [name for name in by if name not in SUMMARY_GROUPS]:
        raise Unsupported(f"readings cannot be summarised by {unknown[0]}")
    groups, schema = summary_groups(by), summary_rows(by)
    whole = Stretch(span.start_us, span.end_us + 1)
    if whole.low >= whole.high:
        return schema.empty_table()
    where = Conditions()
    covered = _covered(asking, which, whole)
    if covered.rolled:
        sql = _bounded(asking, which, covered, groups, where)
    else:
        sql = _exact(asking, which, covered, groups, where)
    if not sql:
        return schema.empty_table()
    order = ", ".join(groups)
    limit = where.bind(LIMIT_MAX + 1)
    found = asking.ask(f"SELECT * FROM ({sql}) ORDER BY {order} LIMIT {limit}", where.params)
    if found.num_rows > LIMIT_MAX:
        raise TooMuch(f"there are more than {LIMIT_MAX} groups: group by less")
    return as_schema(with_units(found, partial(said_units, asking)), schema)


def _covered(asking: Asking, which: Selection, whole: Stretch) -> Coverage:
    """Readings alone where they are few and all there; else rollups, and readings at the ends."""
    share = asking.share(which)
    files = asking.files("readings", [whole], which)
    if _rows(weights(files, share, whole)) <= EXACT_ROWS and _all_there(asking, whole):
        return Coverage(raw=[whole])
    rolled = rollups_for(asking, whole, None)
    windows = weights(asking.files("rollup_1m", [whole], which), share, whole)
    hours, minutes = (asking.days(name, whole) for name in ("rollup_1h", "rollup_1m"))
    if _rows(windows) <= WINDOWS_MAX and hours <= minutes:
        rolled = [rollup for rollup in rolled if rollup.table == "rollup_1m"]
    return coverage(whole, rolled)


def _all_there(asking: Asking, whole: Stretch) -> bool:
    """Whether no day has windows of readings that retention has removed."""
    there = asking.days("readings", outer(whole, DAY))
    rolled = set[str]().union(*(asking.days(name, whole) for name in WIDTHS))
    return all(day in there and not asking.removed(day) for day in rolled)


def _exact(
    asking: Asking, which: Selection, covered: Coverage, groups: Sequence[str], params: Conditions
) -> str:
    where = params.sharing()
    source = _readings(asking, which, covered, where)
    if not source:
        return ""
    values = ", list_sort(list(value) FILTER (value IS NOT NULL)) AS sorted"
    ranks = "".join(f", sorted[{_rank('count', p)}] AS {name}" for name, p in PERCENTS.items())
    errors = "".join(f", 0.0 AS {name}_error" for name in PERCENTS)
    made = parts.of_readings(source, where, groups, (), values)
    return parts.together([made], groups, (), f"{ranks}{errors}, true AS exact")


def _bounded(
    asking: Asking, which: Selection, covered: Coverage, groups: Sequence[str], params: Conditions
) -> str:
    made: list[str] = []
    points: list[str] = []
    named = ", ".join(groups)
    for rollup, stretches in covered.rolled:
        where = params.sharing()
        if files := asking.files(rollup.table, stretches, which):
            where.during("start", stretches)
            where.select(which)
            source = asking.source(rollup.table, files, where)
            made.append(parts.of_windows(source, where, groups, ()))
            points.append(f"SELECT {named}, {_POINTS} FROM {source} WHERE {where} AND count > 0")
    where = params.sharing()
    if source := _readings(asking, which, covered, where):
        made.append(parts.of_readings(source, where, groups, ()))
        points.append(
            f"SELECT {named}, value AS x, 1 AS least, 1 AS most FROM {source}"
            f" WHERE {where} AND value IS NOT NULL"
        )
    if not made:
        return ""
    whole = parts.together(made, groups)
    found = _percentiles(points, named)
    errors = ", ".join(
        f"greatest({name} - {name}_low, {name}_high - {name}) AS {name}_error" for name in PERCENTS
    )
    exact = " AND ".join(f"{name}_low = {name}_high" for name in PERCENTS)
    return (
        f"SELECT *, {errors}, coalesce({exact}, true) AS exact"
        f" FROM ({whole}) LEFT JOIN ({found}) USING ({named})"
    )


def _percentiles(points: Sequence[str], named: str) -> str:
    """For each group and percentile what it is about, at least and at most."""
    found = ", ".join(
        f"min(x) FILTER (l + m >= 2 * {_rank('n', percent)}) AS {name},"
        f" min(x) FILTER (m >= {_rank('n', percent)}) AS {name}_low,"
        f" min(x) FILTER (l >= {_rank('n', percent)}) AS {name}_high"
        for name, percent in PERCENTS.items()
    )
    return f"""
        SELECT {named}, {found} FROM (
          SELECT {named}, x, sum(least) OVER upto AS l, sum(most) OVER upto AS m,
                 sum(least) OVER (PARTITION BY {named}) AS n
          FROM (SELECT {named}, x, sum(least) AS least, sum(most) AS most
                FROM ({" UNION ALL BY NAME ".join(points)}) GROUP BY {named}, x)
          WINDOW upto AS (PARTITION BY {named} ORDER BY x))
        GROUP BY {named}"""


def _readings(asking: Asking, which: Selection, covered: Coverage, where: Conditions) -> str:
    files = asking.files("readings", covered.raw, which)
    if not files:
        return ""
    where.during("timestamp", covered.raw)
    where.select(which)
    return asking.source("readings", files, where)


def _rows(weighed: Sequence[tuple[Stretch, float]]) -> float:
    return sum(rows for _, rows in weighed)


def _rank(count: str, percent: int) -> str:
    """The place of the least value that so many percent of the values do not exceed."""
    return f"(({count} * {percent} + 99) // 100)"


def _steps(upto: Sequence[str]) -> str:
    """What each point adds to how many values there are up to it."""
    before = ("0", *upto[:-1])
    return f"[{', '.join(f'({b}) - ({a})' for a, b in zip(before, upto, strict=True))}]"


_R50, _R95, _R99 = (_rank("count", percent) for percent in PERCENTS.values())
_LEAST: Final = _steps(("1", _R50, _R95, _R99, "count"))
_MOST: Final = _steps(
    (
        f"greatest(1, {_R50} - 1)",
        f"greatest({_R50}, {_R95} - 1)",
        f"greatest({_R95}, {_R99} - 1)",
        f"greatest({_R99}, count - 1)",
        "count",
    )
)
_POINTS: Final = (
    f"unnest([min, p50, p95, p99, max]) AS x, unnest({_LEAST}) AS least, unnest({_MOST}) AS most"
)
