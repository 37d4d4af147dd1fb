"""What the store holds, table by table."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from nexus.lake.errors import StoreError
from nexus.store.influx.asking import Ways
from nexus.store.influx.journal import Came, State, day_of
from nexus.store.influx.layout import policy_of
from nexus.store.influx.talking import Influx
from nexus.store.port import TABLE_ROWS

_TIMES: Final = ("oldest", "newest", "last_commit")
_PLAIN: Final = pa.schema(
    [pa.field(f.name, pa.int64()) if f.name in _TIMES else f for f in TABLE_ROWS]
)


def tables(ways: Ways, state: State) -> pa.Table:
    """A row for each table; a file is a day. Sizes are the server's, if it tells them."""
    known = ways.newest.at(state)
    sizes = _sizes(ways.reader.influx)
    derived = {
        "latest": known.rows.num_rows,
        "gpus": known.state.devices().num_rows if known.rows.num_rows else 0,
    }
    rows = []
    for name in sorted(state.versions):
        hours = [came for came in state.held.get(name, {}).values() if came.rows]
        rows.append(
            {
                "name": name,
                "version": state.versions[name],
                "rows": derived.get(name, sum(came.rows for came in hours)),
                "files": len({day_of(came.low) for came in hours}),
                "bytes": sizes.get(policy_of(name), 0),
                **_ends(hours),
                "last_commit": state.changed[name],
            }
        )
    return pa.Table.from_pylist(rows, _PLAIN).cast(TABLE_ROWS)


def _ends(hours: list[Came]) -> dict[str, int | None]:
    if not hours:
        return {"oldest": None, "newest": None}
    return {"oldest": min(c.low for c in hours), "newest": max(c.high for c in hours)}


def _sizes(influx: Influx) -> dict[str, int]:
    """Bytes by policy; nothing where the user may not know."""
    try:
        rows = influx.tell("SHOW STATS FOR 'shard'")
    except StoreError:
        return {}
    found: dict[str, int] = {}
    for row in rows:
        if row.get("database") == influx.place.database:
            policy = str(row.get("retentionPolicy"))
            found[policy] = found.get(policy, 0) + int(row.get("diskBytes", 0))
    return found
