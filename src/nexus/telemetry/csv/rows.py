"""Rows of a CSV in, readings and refused rows out; every good row of a block comes through.

A row is refused for one of the reasons below and given with its line and its bytes. A file
without uuid has the identity host/index: the uuid of GPU 3 on node-7 is "node-7/3". In the wide
form a cell that is no number is refused alone (an empty one is "not collected": no reading), and
the row's other cells are readings.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.telemetry.csv.forms import Form
from nexus.telemetry.csv.labels import (
    Columns,
    LabelMemo,
    LabelsOfSeries,
    add_labels,
    fill_from_labels,
)
from nexus.telemetry.csv.lines import RowIndex, count_lines
from nexus.telemetry.csv.parse import MARKER_BYTES, BlockParser, ParsedBlock, one_array
from nexus.telemetry.csv.times import parse_times
from nexus.telemetry.csv.wide import melt
from nexus.telemetry.labels import ParsedLabels
from nexus.telemetry.reading import encoded, source_table

WRONG_COLUMNS: Final = "wrong number of columns"
NOT_TEXT: Final = "bytes are not text"
NOT_A_NUMBER: Final = "value is not a number"
NO_IDENTITY: Final = "no identity"
NO_METRIC: Final = "no metric name"
BAD_LABELS: Final = "labels are malformed"
UNCLOSED_QUOTE: Final = "a quote is not closed"

RAW_BYTES_MAX: Final = 65_536  # of a refused row: a broken file may have no line end at all

ROOM_BYTES: Final = MARKER_BYTES + 1

_NEWLINE: Final = 10
_EMPTY: Final = pa.scalar("", pa.string())
_NOTHING: Final = pa.scalar(None, pa.string())
_TEXT_ROLES: Final = (
    *("unit", "uuid", "gpu", "device", "model", "hostname", "cluster", "mig"),
    *("namespace", "pod", "container"),
)


@dataclass(slots=True)
class Taken:
    """The first bytes of some data, taken for a block; without rows if no row can begin there."""

    data: bytearray
    size: int
    block: ParsedBlock | None = None
    trouble: str = ""  # what is wrong with the file where these bytes end
    packed_size: int = 0  # of a gzip that ends with them


@dataclass(frozen=True, slots=True)
class Refused:
    """A row that is no reading, as it was."""

    reason: str
    line: int  # where it begins
    offset: int  # in the bytes that it was parsed with
    raw: bytes


@dataclass(slots=True)
class Rows:
    """What some bytes held: readings, refused rows, and how many lines they were."""

    table: pa.Table
    refused: list[Refused]
    lines: int


@dataclass
class RowParser:
    """Parses the rows of one file in two steps, which may run side by side for different blocks."""

    form: Form
    clock: Callable[[], float] = time.time
    _memo: LabelMemo = field(default_factory=LabelMemo)
    _series: LabelsOfSeries = field(default_factory=LabelsOfSeries)

    def __post_init__(self) -> None:
        self._parser = BlockParser(self.form)

    def take(self, data: bytearray, size: int, *, final: bool, full: bool) -> Taken | None:
        """Parse the whole rows in the first bytes of the data; None when there is no whole row.

        `ROOM_BYTES` after them may be written to. With `final` nothing will follow: the last
        row needs no line end. With that, or when no more data can be held (`full`), a line that
        can be no row is taken alone.
        """
        text_size = size
        if final and data[size - 1] != _NEWLINE:
            data[size], text_size = _NEWLINE, size + 1
        block = self._parser.parse(data, text_size)
        if block is not None:
            return Taken(data, min(block.size, size), block)
        return Taken(data, data.find(b"\n", 0, size) + 1 or size) if final or full else None

    def rows(self, taken: Taken, first_line: int) -> Rows:
        """The readings and the refused rows of what was taken, in the order of the file."""
        lines = count_lines(taken.data, taken.size)
        if taken.block is not None:
            table, reasons = self._readings(taken.block)
            refused = _refused(taken.block, reasons, first_line)
        else:
            table, refused = empty_table(), []
            raw = bytes(taken.data[: min(taken.size, RAW_BYTES_MAX)]).rstrip(b"\r\n")
            if taken.size:
                refused = [Refused(UNCLOSED_QUOTE, first_line, 0, raw)]
        if taken.trouble:
            refused.append(Refused(taken.trouble, first_line + lines, taken.size, b""))
        return Rows(table, refused, lines)

    def _readings(self, block: ParsedBlock) -> tuple[pa.Table, dict[int, str]]:
        columns, labels_error = self._columns(block)
        columns["uuid"] = identity(columns, block.count)
        times = encoded(block.text("timestamp"))
        parsed = parse_times(times.dictionary, int(self.clock() * 1e6))
        reasons = _Reasons(block.count)
        reasons.add(parsed.reasons.take(times.indices))
        reasons.add_where(_is_empty(columns["uuid"]), NO_IDENTITY)
        if labels_error is not None:
            reasons.add_where(pc.is_valid(labels_error), BAD_LABELS)
        timestamp = parsed.values.take(times.indices)
        make = self._wide if self.form.wide else self._long
        table = make(block, columns, timestamp, reasons)
        return table, reasons.by_row()

    def _long(
        self, block: ParsedBlock, columns: Columns, timestamp: pa.Array, reasons: "_Reasons"
    ) -> pa.Table:
        values = block.number(self.form.roles["source_value"])
        reasons.add_where(pc.is_null(values), NOT_A_NUMBER)
        reasons.add_where(_is_empty(columns["source_metric"]), NO_METRIC)
        good = reasons.good()
        kept = {**columns, "timestamp": timestamp, "source_value": values}
        if good is not None:
            kept = {name: column.filter(good) for name, column in kept.items()}
        return source_table(kept).drop_columns("ingested")

    def _wide(
        self, block: ParsedBlock, columns: Columns, timestamp: pa.Array, reasons: "_Reasons"
    ) -> pa.Table:
        good = reasons.good()
        values = [block.number(metric.index) for metric in self.form.metrics]
        for metric in self.form.metrics:
            bad = block.bad_number(metric.index)
            if bad is not None:
                reasons.add_where(bad, NOT_A_NUMBER)
        rows = {**columns, "timestamp": timestamp}
        return melt(rows, self.form.metrics, values, good).drop_columns("ingested")

    def _columns(self, block: ParsedBlock) -> tuple[Columns, pa.Array | None]:
        roles = [role for role in (*_TEXT_ROLES, "source_metric") if role in self.form.roles]
        columns: Columns = {role: encoded(block.text(role)) for role in roles}
        error = None
        if "labels" in self.form.roles:
            parsed = self._labels(block.text("labels"), columns)
            columns = fill_from_labels(columns, parsed)
            error = parsed.error if parsed.error.null_count < block.count else None
        extras = {self.form.names[i]: encoded(block.cells(i)) for i in self.form.extras}
        columns = add_labels(columns, extras)
        if self.form.wide:
            columns.pop("source_metric", None)
        return columns, error

    def _labels(self, texts: pa.ChunkedArray, columns: Columns) -> ParsedLabels:
        said = [columns[role] for role in ("source_metric", "uuid", "pod") if role in columns]
        if "uuid" not in columns:
            return self._memo.parse(encoded(texts))
        return self._series.parse(one_array(texts), said)


def _refused(block: ParsedBlock, reasons: dict[int, str], first_line: int) -> list[Refused]:
    """The refused rows in their order; `reasons` is by the row's place among the parsed."""
    by_row = {block.physical(row): reason for row, reason in reasons.items()}
    by_row.update(dict.fromkeys(block.misshapen, WRONG_COLUMNS))
    by_row.update(dict.fromkeys(block.unreadable, NOT_TEXT))
    if not by_row:
        return []
    index = RowIndex(bytes(memoryview(block.data)[: block.size]), block.rows, first_line)
    refused = []
    for row in sorted(by_row):
        raw = index.raw(row)
        if raw.strip(b" \t\r\n"):  # an empty line is nothing at all
            start, _ = index.span(row)
            line = index.line(row)
            refused.append(Refused(by_row[row], line, start, raw[:RAW_BYTES_MAX]))
    return refused


class _Reasons:
    """Why each row is refused, if it is: the first reason given counts."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._reasons: pa.Array | None = None

    def add(self, reasons: pa.Array) -> None:
        if reasons.null_count < len(reasons):
            self._reasons = (
                reasons if self._reasons is None else pc.coalesce(self._reasons, reasons)
            )

    def add_where(self, bad: pa.Array, reason: str) -> None:
        if pc.any(bad).as_py():
            self.add(pc.if_else(bad, pa.scalar(reason), _NOTHING))

    def good(self) -> pa.Array | None:
        """Which rows are good; None when all are."""
        return None if self._reasons is None else pc.is_null(self._reasons)

    def by_row(self) -> dict[int, str]:
        if self._reasons is None:
            return {}
        rows = pc.indices_nonzero(pc.is_valid(self._reasons))
        return dict(zip(rows.to_pylist(), self._reasons.take(rows).to_pylist(), strict=True))


def empty_table() -> pa.Table:
    """Readings, none."""
    nothing = {
        "timestamp": pa.array([], pa.timestamp("us", "UTC")),
        "source_metric": pa.array([], pa.string()),
        "source_value": pa.array([], pa.float64()),
    }
    return source_table(nothing).drop_columns("ingested")


def identity(columns: Columns, count: int) -> pa.DictionaryArray:
    """The uuid; where there is none the index if it is one, else host/index, else empty."""
    nothing = encoded(pa.repeat(_EMPTY, count))
    uuid = columns.get("uuid", nothing)
    if not pc.any(pc.equal(uuid.dictionary, _EMPTY)).as_py():
        return uuid
    gpu = columns.get("gpu", nothing).cast(pa.string())
    host = columns.get("hostname", nothing).cast(pa.string())
    both = pc.and_(pc.not_equal(gpu, ""), pc.not_equal(host, ""))
    made = pc.if_else(both, pc.binary_join_element_wise(host, gpu, "/"), "")
    made = pc.if_else(pc.match_substring_regex(gpu, "^(GPU|MIG)-"), gpu, made)
    said = uuid.cast(pa.string())
    return encoded(pc.if_else(pc.equal(said, ""), made, said))


def _is_empty(column: pa.DictionaryArray) -> pa.Array:
    return pc.equal(column.dictionary, _EMPTY).take(column.indices)
