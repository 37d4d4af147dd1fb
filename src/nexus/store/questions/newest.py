"""The last reading of each series, and which metrics there are.

Series that had a reading of late are in memory; those that ended earlier are in their table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from nexus.store.port import LATEST_KEY, METRIC_ROWS, READING_ROWS, Page, Selection, only
from nexus.store.questions.asking import Asking, as_schema
from nexus.store.questions.conditions import Conditions, checked_limit, ordering
from nexus.store.questions.held import moment
from nexus.store.questions.known import State
from nexus.store.questions.spans import Stretch
from nexus.store.questions.units import said_in, with_units

_COLUMNS: Final = ", ".join(READING_ROWS.names)
_ALWAYS: Final = Stretch(-(2**62), 2**62)


def latest(asking: Asking, which: Selection, page: Page, since_us: int | None) -> pa.Table:
    """A page of last readings; see the port."""
    limit = checked_limit(page)
    schema = only(READING_ROWS, page.columns)
    where = Conditions()
    if since_us is not None:
        where.add(f"timestamp >= {where.bind(moment(since_us))}")
    where.select(which)
    where.after(LATEST_KEY, READING_ROWS, page)
    state = asking.known()
    source = _source(asking, state, which, where.sharing(), since_us)
    sql = (
        f"SELECT {', '.join(schema.names)} FROM {source} WHERE {where}"
        f" ORDER BY {ordering(LATEST_KEY, page)} LIMIT {where.bind(limit)}"
    )
    return as_schema(asking.ask(sql, where.params, {"last_known": state.last}), schema)


def metrics(asking: Asking, which: Selection) -> pa.Table:
    """The metrics that have readings; see the port."""
    where = Conditions()
    where.select(which)
    state = asking.known()
    source = _source(asking, state, which, where.sharing())
    sql = (
        "SELECT metric, max(unit) AS said, count(*) AS series, max(timestamp) AS newest"
        f" FROM {source} WHERE {where} GROUP BY metric ORDER BY metric"
    )
    found = asking.ask(sql, where.params, {"last_known": state.last})
    return as_schema(with_units(found, said_in(found)), METRIC_ROWS)


def said_units(asking: Asking, names: Sequence[str]) -> dict[str, str]:
    """The units that readings of these metrics say."""
    found = metrics(asking, Selection(metrics=tuple(names)))
    return dict(zip(found["metric"].to_pylist(), found["unit"].to_pylist(), strict=True))


def _source(
    asking: Asking, state: State, which: Selection, where: Conditions, since_us: int | None = None
) -> str:
    """All series, or those that had a reading since; rows may still have to be selected."""
    if state.horizon is None or (since_us is not None and since_us >= state.horizon):
        return "last_known"
    files = asking.files("latest", [_ALWAYS], which)
    if not files:
        return "last_known"
    where.add(f"timestamp < {where.bind(moment(state.horizon))}")
    where.select(which)
    older = f"SELECT {_COLUMNS} FROM {asking.source('latest', files, where)} WHERE {where}"
    return (
        f"(SELECT {_COLUMNS} FROM last_known UNION ALL BY NAME"
        f" SELECT * FROM ({older}) ANTI JOIN last_known USING ({', '.join(LATEST_KEY)}))"
    )
