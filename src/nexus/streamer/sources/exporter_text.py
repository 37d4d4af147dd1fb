"""Prometheus text as columns: `parse` turns a page into names, label sets, values and times.

In a sample line the name has no brace and nothing after the labels has one, so the first `{` and
the last `}` cut every line at once, and only distinct names and label sets are looked at one by
one. A line that does not fit this (an exemplar, a quoted name) is read alone; one that fits
nothing is reported, and the page goes on. OpenMetrics is read as far as it is the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from nexus.streamer.sources.exporter_labels import STRING, LabelSet, parse_labels, unescape

BAD_LINES_KEPT: Final = 100
BAD_TEXT_MAX: Final = 4096

# Made once: pyarrow looks for numpy whenever it makes one, which takes long where there is none.
_0, _1, _2, _1000 = (pa.scalar(number) for number in (0, 1, 2, 1000))
_TRUE: Final = pa.scalar(True)

_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*", re.ASCII)
_FLOAT: Final = (
    r"^[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
    r"|[nN][aA][nN]|[iI][nN][fF](?:[iI][nN][iI][tT][yY])?)$"
)
_MILLISECONDS: Final = r"^[+-]?[0-9]{1,15}$"  # more would not be a time in microseconds
_SECONDS: Final = r"^[+-]?[0-9]{1,12}(?:\.[0-9]*)?(?:[eE][+-]?[0-9]{1,2})?$"
_VALUE_AND_TIME: Final = r"^(?P<value>[^ \t]+)(?:[ \t]+(?P<time>[^ \t]+))?$"
_EXEMPLAR: Final = r"(?:\s+#\s.*)?"
_ODD_LINE: Final = re.compile(
    rf"(?P<name>{_NAME.pattern})?\s*(?:\{{(?P<labels>(?:[^\"{{}}]++|{STRING})*+)\}}\s*)?"
    rf"(?P<value>[^\s{{}}#]+)(?:\s+(?P<time>[^\s{{}}#]+))?{_EXEMPLAR}"
)
_QUOTED_NAME: Final = re.compile(rf"\s*({STRING})\s*(?:,|$)")


class Family(NamedTuple):
    """What the page says about a metric beside its samples."""

    kind: str = "untyped"
    help: str = ""
    unit: str = ""


class BadLine(NamedTuple):
    """A line that is neither a comment nor a sample."""

    number: int  # from 1
    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class Exposition:
    """A page's samples, one row each; `label_sets` belongs to the dictionary of `labels`."""

    names: pa.DictionaryArray
    labels: pa.DictionaryArray
    label_sets: Sequence[LabelSet]
    values: pa.Array  # float64
    times_us: pa.Array  # int64, null where the line says none
    families: dict[str, Family]
    bad: list[BadLine] = field(default_factory=list)
    bad_count: int = 0

    def __len__(self) -> int:
        return len(self.values)

    def family(self, name: str) -> Family | None:
        """What is said about a sample's metric; OpenMetrics leaves out a counter's _total."""
        return self.families.get(name) or self.families.get(name.removesuffix("_total"))


class _Rows(NamedTuple):
    """Samples as columns; the text forms are not yet checked."""

    names: pa.Array
    labels: pa.Array
    values: pa.Array
    times: pa.Array  # null where there is none


class _Bad:
    """The first bad lines, and how many there were."""

    def __init__(self) -> None:
        self.kept: list[BadLine] = []
        self.count = 0

    def add(self, number: int, text: str, reason: str) -> None:
        self.count += 1
        if len(self.kept) < BAD_LINES_KEPT:
            self.kept.append(BadLine(number, text[:BAD_TEXT_MAX], reason))


def parse(body: bytes, *, openmetrics: bool = False) -> Exposition:
    """Read a page; only the lines that cannot be read are missing, and those are in `bad`."""
    bad = _Bad()
    lines = _lines(body, bad)
    comment = pc.starts_with(lines, "#")
    families = _families("\n".join(lines.filter(comment).to_pylist()))
    sample = pc.and_not(pc.greater(pc.binary_length(lines), _0), comment)
    at = pc.indices_nonzero(sample)
    rows, whole = _cut(lines.take(at))
    good = _good(rows, openmetrics)
    odd = pa.concat_arrays([at.filter(pc.invert(whole)), at.filter(whole).filter(pc.invert(good))])
    made = [_measured(_kept(rows, good), openmetrics)]
    if len(odd):
        made.append(_read_alone(lines, sorted(odd.to_pylist()), bad, openmetrics))
    return _exposition(made, families, bad)


def _lines(body: bytes, bad: _Bad) -> pa.Array:
    try:
        split = body.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        split = [_decoded(raw, number, bad) for number, raw in enumerate(body.split(b"\n"), 1)]
    return pc.ascii_trim_whitespace(pa.array(split, pa.string()))


def _decoded(raw: bytes, number: int, bad: _Bad) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        bad.add(number, raw.decode("utf-8", "replace"), "line is not UTF-8")
        return ""


# Comments are the same at every scrape, and a fleet has a handful of different ones.
@lru_cache(maxsize=64)
def _families(comments: str) -> dict[str, Family]:
    families: dict[str, Family] = {}
    for line in comments.split("\n"):
        parts = line[1:].split(None, 2)
        if len(parts) < 2 or parts[0] not in ("HELP", "TYPE", "UNIT"):
            continue
        known, text = families.get(parts[1], Family()), parts[2] if len(parts) == 3 else ""
        match parts[0]:
            case "HELP":
                families[parts[1]] = known._replace(help=unescape(text))
            case "TYPE":
                families[parts[1]] = known._replace(kind=text.lower())
            case _:
                families[parts[1]] = known._replace(unit=text)
    return families


def _cut(samples: pa.Array) -> tuple[_Rows, pa.Array]:
    """The pieces of each line that has them all, in order, and which lines those are."""
    bare = pc.invert(pc.match_substring(samples, "{"))
    if pc.any(bare).as_py():  # `name value` becomes `name{} value`: one way for both
        empty_set = pc.replace_substring_regex(samples, r"^([^\s{}]+)(\s)", r"\1{}\2")
        samples = pc.if_else(bare, empty_set, samples)
    pieces = pc.split_pattern(samples, "{", max_splits=1)
    opened = pc.equal(pc.list_value_length(pieces), _2)
    pieces = pieces.filter(opened)
    tails = pc.split_pattern(pc.list_element(pieces, _1), "}", max_splits=1, reverse=True)
    closed = pc.equal(pc.list_value_length(tails), _2)
    pieces, tails = pieces.filter(closed), tails.filter(closed)
    values, times = _value_and_time(pc.ascii_trim_whitespace(pc.list_element(tails, _1)))
    names = pc.ascii_trim_whitespace(pc.list_element(pieces, _0)).dictionary_encode()
    labels = pc.list_element(tails, _0).dictionary_encode()
    whole = pc.replace_with_mask(opened, opened, closed)
    return _Rows(names, labels, values, times), whole


def _value_and_time(numbers: pa.Array) -> tuple[pa.Array, pa.Array]:
    if not pc.any(pc.match_substring_regex(numbers, r"[ \t]")).as_py():
        return numbers, pa.nulls(len(numbers), pa.string())
    values, times = pc.extract_regex(numbers, _VALUE_AND_TIME).flatten()
    return pc.fill_null(values, ""), pc.if_else(pc.equal(times, ""), None, times)


def _good(rows: _Rows, openmetrics: bool) -> pa.Array:
    """Which rows are samples: a name, a label set, a number, and no time or one that is one."""
    named = [_NAME.fullmatch(name) is not None for name in rows.names.dictionary.to_pylist()]
    labelled = [parse_labels(text) is not None for text in rows.labels.dictionary.to_pylist()]
    numeric = pc.match_substring_regex(rows.values, _FLOAT)
    timed = pc.match_substring_regex(rows.times, _SECONDS if openmetrics else _MILLISECONDS)
    spelt = pc.and_(
        pa.array(named, pa.bool_()).take(rows.names.indices),
        pa.array(labelled, pa.bool_()).take(rows.labels.indices),
    )
    return pc.and_(spelt, pc.and_(numeric, pc.fill_null(timed, _TRUE)))


def _kept(rows: _Rows, good: pa.Array) -> _Rows:
    return rows if pc.all(good).as_py() else _Rows(*(column.filter(good) for column in rows))


def _measured(rows: _Rows, openmetrics: bool) -> _Rows:
    """Values as numbers, times as microseconds; the text was checked before."""
    if openmetrics:
        seconds = pc.multiply(rows.times.cast(pa.float64()), 1e6)
        times = pc.round(seconds).cast(pa.int64(), safe=False)
    else:
        times = pc.multiply(rows.times.cast(pa.int64()), _1000)
    return rows._replace(values=rows.values.cast(pa.float64()), times=times)


def _read_alone(lines: pa.Array, at: list[int], bad: _Bad, openmetrics: bool) -> _Rows:
    """The lines that the quick way could not read, one by one."""
    read = []
    for number in at:
        line = lines[number].as_py()
        row = _odd_sample(line, openmetrics)
        if row is None:
            bad.add(number + 1, line, "line is not a sample")
        else:
            read.append(row)
    names, labels, values, times = zip(*read, strict=True) if read else ((), (), (), ())
    return _measured(
        _Rows(
            pa.array(names, pa.string()).dictionary_encode(),
            pa.array(labels, pa.string()).dictionary_encode(),
            pa.array(values, pa.string()),
            pa.array(times, pa.string()),
        ),
        openmetrics,
    )


def _odd_sample(line: str, openmetrics: bool) -> tuple[str, str, str, str | None] | None:
    match = _ODD_LINE.fullmatch(line)
    if match is None:
        return None
    name, labels = match["name"], match["labels"] or ""
    if name is None:
        quoted = _QUOTED_NAME.match(labels)
        if quoted is None:
            return None
        name, labels = unescape(quoted[1][1:-1]), labels[quoted.end() :]
    time_form = _SECONDS if openmetrics else _MILLISECONDS
    if parse_labels(labels) is None or not re.fullmatch(_FLOAT, match["value"]):
        return None
    if match["time"] is not None and not re.fullmatch(time_form, match["time"]):
        return None
    return name, labels, match["value"], match["time"]


def _exposition(made: list[_Rows], families: dict[str, Family], bad: _Bad) -> Exposition:
    rows = made[0] if len(made) == 1 else _Rows(*map(_appended, *made))
    sets = [parse_labels(text) or () for text in rows.labels.dictionary.to_pylist()]
    return Exposition(
        rows.names, rows.labels, sets, rows.values, rows.times, families, bad.kept, bad.count
    )


def _appended(first: pa.Array, second: pa.Array) -> pa.Array:
    joined = pa.chunked_array([first, second])
    return joined.unify_dictionaries().combine_chunks()
