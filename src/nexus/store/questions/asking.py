"""What every question stands on: a way to the rows of a store, at one version of its tables.

A question is one statement of DuckDB over what `source` gives; so all stores answer with the same
statements, and cannot come to differ. A kind of store is one class with these methods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from nexus.store.port import Selection
from nexus.store.questions.conditions import Conditions
from nexus.store.questions.coverage import Rolled
from nexus.store.questions.held import Held
from nexus.store.questions.known import State
from nexus.store.questions.spans import Stretch


class First(NamedTuple):
    """The first rows by a column, all that share the last one's value with it."""

    column: str
    descending: bool
    rows: int


class Asking(Protocol):
    """One snapshot's tables, to be asked."""

    @property
    def unknown_after_s(self) -> float:
        """After so long a GPU that said nothing is in an unknown state."""

    def now_s(self) -> float: ...

    def files(self, name: str, stretches: Sequence[Stretch], which: Selection) -> list[Held]:
        """The pieces of a table that may hold rows of these times and series."""

    def source(
        self, name: str, files: Sequence[Held], conditions: Conditions, first: First | None = None
    ) -> str:
        """A table of these pieces, for the FROM of a statement.

        It has at least the rows for which the conditions hold, and may have others; with `first`
        at least those of them that come first.
        """

    def ask(
        self, sql: str, params: Mapping[str, Any], tables: Mapping[str, pa.Table] | None = None
    ) -> pa.Table:
        """The rows of one statement; `tables` can be named in it."""

    def share(self, which: Selection) -> float:
        """About what part of all rows are of the GPUs that were named."""

    def known(self) -> State:
        """What is known last."""

    def rolled(self, name: str, width: int, asked: Stretch) -> Rolled | None:
        """What a rollup can answer for; None if it does not exist."""

    def days(self, name: str, whole: Stretch) -> set[str]:
        """The days of a stretch of which a table has rows."""

    def removed(self, day: str) -> bool:
        """Whether readings of a day were removed by retention."""


def as_schema(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with exactly the columns of a schema."""
    columns = [_column(rows, field) for field in schema]
    return pa.table(columns, schema=schema)


def _column(rows: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    column = rows.column(field.name)
    return column if column.type == field.type else column.cast(field.type)
