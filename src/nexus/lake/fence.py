"""The right to write to a store, as a number that only grows.

Every commit carries it as an application transaction, which makes delta-rs refuse a commit that
did not see another's; and a writer whose number is no longer the greatest is told so.
"""

from dataclasses import dataclass
from typing import Final

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from nexus.lake.url import StoreUrl
from nexus.telemetry.tables import TABLES

WRITER_APP: Final = "nexus-writer"
# And a day: retention removed rows of that day, so what was derived of them is all there is.
REMOVED_APP: Final = "removed:"
# The version of `readings` that a derived table stands for.
READINGS_APP: Final = "readings"


@dataclass(frozen=True, slots=True)
class Fence:
    """Who may write, and since which change of hands."""

    epoch: int
    owner: str


def last_epoch(store: StoreUrl) -> int:
    """The greatest turn that the store's tables know; 0 for a new store."""
    return max(_epoch_of(store, name) for name in TABLES)


def _epoch_of(store: StoreUrl, name: str) -> int:
    try:
        table = DeltaTable(store.table_uri(name), storage_options=store.storage_options)
    except TableNotFoundError:
        return 0
    return table.transaction_version(WRITER_APP) or 0
