"""Conditions of a query as SQL, with the values that are bound to them.

Only names of columns that this package knows become part of the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from nexus.store.errors import BadKey
from nexus.store.port import LIMIT_MAX, Page, Selection
from nexus.store.questions.held import moment
from nexus.store.questions.spans import Stretch

# The column that each part of a selection is about.
SELECTED: Final[Mapping[str, str]] = {
    "uuids": "uuid",
    "migs": "mig",
    "gpus": "gpu",
    "hostnames": "hostname",
    "clusters": "cluster",
    "models": "model",
    "namespaces": "namespace",
    "pods": "pod",
    "metrics": "metric",
}
NAMED_MAX: Final = 200  # values that stand in a statement one by one, for statistics to prune by
_INT64: Final = 2**63


class Conditions:
    """Conditions that must all hold."""

    def __init__(self) -> None:
        self.params: dict[str, Any] = {}
        self._parts: list[str] = []

    def __str__(self) -> str:
        return " AND ".join(self._parts) or "TRUE"

    def sharing(self) -> Conditions:
        """Conditions of another part of the same statement: names are given once in all of it."""
        other = Conditions()
        other.params = self.params
        return other

    def bind(self, value: Any) -> str:
        """A name for a value."""
        name = f"p{len(self.params)}"
        self.params[name] = value
        return f"${name}"

    def add(self, condition: str) -> None:
        self._parts.append(condition)

    def among(self, column: str, values: Sequence[Any]) -> None:
        """The column has one of these values; any, if there are none."""
        if len(values) == 1:
            self.add(f"{column} = {self.bind(values[0])}")
        elif len(values) > NAMED_MAX:
            self.add(f"{column} IN (SELECT unnest({self.bind(list(values))}))")
        elif values:
            named = ", ".join(self.bind(value) for value in dict.fromkeys(values))
            self.add(f"{column} IN ({named})")

    def select(self, which: Selection, *, metrics: bool = True) -> None:
        """Rows of these series; without `metrics`, of any metric."""
        for part, column in SELECTED.items():
            if metrics or part != "metrics":
                self.among(column, getattr(which, part))
        for metric, instances in which.instances_by_metric().items() if metrics else ():
            names = ", ".join(self.bind(instance) for instance in instances)
            self.add(f"(metric <> {self.bind(metric)} OR instance IN ({names}))")

    def during(self, column: str, stretches: Sequence[Stretch]) -> None:
        """The column's moment lies in one of these, which are in order."""
        if not stretches:
            self.add("FALSE")
            return
        # The whole first, which statistics of row groups can be held against.
        hull = Stretch(stretches[0].low, stretches[-1].high)
        self.add(self._within(column, hull))
        if len(stretches) > 1:
            each = (f"({self._within(column, stretch)})" for stretch in stretches)
            self.add(f"({' OR '.join(each)})")

    def after(self, key: Sequence[str], schema: pa.Schema, page: Page) -> None:
        """Rows that come after the page's key."""
        if page.after is None:
            return
        values = checked_key(page.after, key, schema)
        sign = "<" if page.descending else ">"
        first, *others = (self.bind(value) for value in values)
        rest = f"({', '.join(key[1:])}) {sign} ({', '.join(others)})"
        self.add(f"({key[0]} {sign} {first} OR ({key[0]} = {first} AND {rest}))")

    def _within(self, column: str, stretch: Stretch) -> str:
        low, high = self.bind(moment(stretch.low)), self.bind(moment(stretch.high - 1))
        return f"{column} >= {low} AND {column} <= {high}"


def checked_key(given: Sequence[Any], key: Sequence[str], schema: pa.Schema) -> list[Any]:
    """A key's values as the columns have them; BadKey if no row can have it."""
    if len(given) != len(key):
        raise BadKey(f"a key of {len(key)} values was expected, not of {len(given)}")
    return [_checked(value, schema.field(name)) for value, name in zip(given, key, strict=True)]


def checked_limit(page: Page) -> int:
    """A page's limit; ValueError if it is out of bounds."""
    if not 1 <= page.limit <= LIMIT_MAX:
        raise ValueError(f"a page has 1 to {LIMIT_MAX} rows, not {page.limit}")
    return page.limit


def ordering(key: Sequence[str], page: Page) -> str:
    """The order of a query's rows."""
    way = "DESC" if page.descending else "ASC"
    return ", ".join(f"{name} {way}" for name in key)


def _checked(value: Any, field: pa.Field) -> Any:
    wanted = str if pa.types.is_string(field.type) else int
    if not isinstance(value, wanted) or isinstance(value, bool):
        raise BadKey(f"{value!r} is no value of {field.name}")
    if isinstance(value, int):
        if not -_INT64 <= value < _INT64:
            raise BadKey(f"{value} is out of bounds for {field.name}")
        return moment(value) if pa.types.is_timestamp(field.type) else value
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadKey(f"{value!r} is no text") from None
    return value
