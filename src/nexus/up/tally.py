"""How much a run has added to the tables, counted in the tables themselves.

Loads the libraries that read tables: import it when there is something to count.
"""

from __future__ import annotations

from typing import Final

import pyarrow.compute as pc

from nexus.lake.table import LakeTable
from nexus.lake.url import StoreUrl, parse_store_url
from nexus.telemetry.tables import TABLES
from nexus.up.summary import Tally

# Each commit is read; a run of days has too many to make anyone wait for them.
_COMMITS_MAX: Final = 10_000


def tally(store: str, since: int) -> Tally:
    """What versions of `readings` later than `since` brought."""
    place = parse_store_url(store)
    return Tally(_readings(place, since), _gpus(place))


def _readings(place: StoreUrl, since: int) -> int | None:
    table = LakeTable.find(place, TABLES["readings"])
    if table is None:
        return 0
    if table.version - since > _COMMITS_MAX:
        return None
    return sum(file.rows for file in table.added_between(since, table.version))


def _gpus(place: StoreUrl) -> int:
    table = LakeTable.find(place, TABLES["gpus"])
    if table is None:
        return 0
    uuids = table.delta.to_pyarrow_table(columns=["uuid"]).column("uuid")
    return int(pc.count_distinct(uuids).as_py())
