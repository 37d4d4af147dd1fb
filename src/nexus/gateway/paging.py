"""Pages of lists: one row more than asked for tells whether there is a next page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import pyarrow as pa

from nexus.gateway.cursors import Cursor, Kind, decode_cursor, encode_cursor, question_hash
from nexus.store.port import Page, last_key
from nexus.web.problems import BadParameter

_MOMENTS: Final = frozenset({"timestamp", "start", "refused"})
_WHOLES: Final = frozenset({"partition", "offset", "row"})


class InPages(Protocol):
    """A query that has pages."""

    @property
    def limit(self) -> int: ...
    @property
    def cursor(self) -> str: ...
    def question(self) -> dict[str, object]: ...


class Pages:
    """The pages of one question."""

    def __init__(self, path: str, query: InPages, key: tuple[str, ...]) -> None:
        self._key = key
        self._limit = query.limit
        self._question = question_hash(path, query.question())
        self.cursor = (
            decode_cursor(query.cursor, self._question, kinds_of(key)) if query.cursor else None
        )

    def page(self, *, descending: bool = False) -> Page:
        """What to ask the store for."""
        return Page(self._limit + 1, self.cursor.key if self.cursor else None, descending)

    def cut(
        self, rows: pa.Table, pinned: tuple[int, int, str] | None = None
    ) -> tuple[pa.Table, str | None]:
        """The rows of this page, and the cursor of the next if there is one."""
        if rows.num_rows <= self._limit:
            return rows, None
        kept = rows.slice(0, self._limit)
        return kept, self._after(last_key(kept, self._key) or (), pinned)

    def of_groups(
        self, rows: pa.Table, pinned: tuple[int, int, str] | None = None
    ) -> tuple[pa.Table, str | None]:
        """A page of rows that came all at once, sorted by their groups."""
        ordered = rows.sort_by([(name, "ascending") for name in self._key]) if self._key else rows
        if self.cursor is not None:
            keys = zip(*(ordered.column(name).to_pylist() for name in self._key), strict=True)
            behind = [key > self.cursor.key for key in keys]
            ordered = ordered.filter(pa.array(behind, pa.bool_()))
        return self.cut(ordered, pinned)

    def _after(self, key: tuple[Any, ...], pinned: tuple[int, int, str] | None) -> str:
        return encode_cursor(Cursor(key, pinned), self._question)


def kinds_of(key: Sequence[str]) -> list[Kind]:
    """What the parts of a key are."""
    return [
        "moment" if name in _MOMENTS else "whole" if name in _WHOLES else "text" for name in key
    ]


def refuse_cursor(cursor: str) -> None:
    """An answer that comes whole has no pages."""
    if cursor:
        raise BadParameter.of("cursor", "goes with layout=rows alone: columns come all at once")
