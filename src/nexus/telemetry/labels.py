"""Prometheus label sets, parsed in bulk: each distinct text once, however many readings carry it.

Labels that are columns of a reading (in any of the spellings that exporters use) are taken out;
the rest becomes the reading's canonical `labels` text. A label is left out of the rest only if
its column says the same, so nothing is lost when two spellings disagree.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.telemetry.reading import encoded
from nexus.telemetry.scalars import EMPTY, NO_TEXT

# The spellings of each column, the strongest first. Prometheus renames what a scraped target
# says to exported_* when it clashes with the target's own labels, so that is the workload's.
SPELLINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "source_metric": ("__name__",),
    "uuid": ("UUID", "gpu_uuid", "uuid"),
    "gpu": ("gpu", "gpu_id"),
    "device": ("device",),
    "model": ("modelName", "model_name", "model"),
    "hostname": ("Hostname", "hostname"),
    "cluster": ("cluster",),
    "mig": ("GPU_I_ID",),
    "namespace": ("exported_namespace", "namespace"),
    "pod": ("exported_pod", "pod"),
    "container": ("exported_container", "container"),
}
COLUMN_OF: Final = {name: column for column, names in SPELLINGS.items() for name in names}

_PAIR: Final = re.compile(r'\s*([a-zA-Z_][\w.:]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(,|$)', re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
# In a text of only such labels, the name can be taken out as text.
_SIMPLE: Final = r'^\{?([a-zA-Z_]\w*="[^"\\,={}]*",?)*\}?$'
_NAME: Final = r'\b__name__="(?P<name>[^"]*)",?'


@dataclass(frozen=True)
class ParsedLabels:
    """The columns found in label texts, row for row, as dictionary arrays ("" where not said)."""

    columns: dict[str, pa.DictionaryArray]  # the keys of SPELLINGS, and `labels`
    error: pa.Array  # why a row's text is no label set; null where it is one


def canonical_labels(labels: Mapping[str, str]) -> str:
    """The one text of a label map: a JSON object with sorted keys; "" when it is empty."""
    if not labels:
        return ""
    return json.dumps(labels, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def labels_of(text: str) -> dict[str, str]:
    """The map that a canonical text stands for; none if it is no such text."""
    try:
        parsed = json.loads(text) if text else {}
    except ValueError:
        return {}
    if not isinstance(parsed, dict):
        return {}
    return {name: value for name, value in parsed.items() if isinstance(value, str)}


def parse_label_set(text: str) -> dict[str, str]:
    """Parse one Prometheus label set, with or without its braces; ValueError says what is wrong."""
    text = text.strip()
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1]
    labels: dict[str, str] = {}
    at = 0
    while at < len(text):
        pair = _PAIR.match(text, at)
        if pair is None:
            raise ValueError(f"labels are malformed at character {at}: {text[at : at + 20]!r}")
        value = pair[2]
        labels[pair[1]] = _ESCAPE.sub(_unescaped, value) if "\\" in value else value
        at = pair.end()
    return labels


def split_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """The columns that a label map holds, and what is left of it as `labels`.

    An empty label is as good as none: Prometheus makes no difference either.
    """
    found = {column: _first(labels, names) for column, names in SPELLINGS.items()}
    rest = {
        name: value
        for name, value in labels.items()
        if value and not (name in COLUMN_OF and found[COLUMN_OF[name]] == value)
    }
    return {**found, "labels": canonical_labels(rest)}


def parse_labels(texts: pa.Array | pa.ChunkedArray) -> ParsedLabels:
    """Parse a column of label sets; a malformed one gives its row an error and no labels."""
    rows = encoded(pc.fill_null(texts, EMPTY))
    names, rest = _apart(rows.dictionary)
    distinct = encoded(rest)
    parsed = [_parse(text) for text in distinct.dictionary.to_pylist()]

    def spread(column: str) -> pa.DictionaryArray:
        found = pa.array([split[column] for split, _ in parsed], pa.string())
        return _taken(found.take(distinct.indices), rows.indices)

    columns = {column: spread(column) for column in _UNNAMED}
    said = pa.array([split["source_metric"] for split, _ in parsed], pa.string())
    columns["source_metric"] = _taken(pc.coalesce(names, said.take(distinct.indices)), rows.indices)
    errors = pa.array([error for _, error in parsed], pa.string())
    return ParsedLabels(columns, errors.take(distinct.indices).take(rows.indices))


def parsed_json(texts: pa.Array | pa.ChunkedArray) -> ParsedLabels:
    """The same for canonical label texts, which may name columns in other spellings."""
    rows = encoded(texts)
    splits = [_split_text(text) for text in rows.dictionary.to_pylist()]
    columns = {
        column: _taken(pa.array([split[column] for split in splits], pa.string()), rows.indices)
        for column in (*SPELLINGS, "labels")
    }
    return ParsedLabels(columns, pa.nulls(len(rows), pa.string()))


def with_labels(table: pa.Table, parsed: ParsedLabels) -> pa.Table:
    """Fill a table's empty columns from its parsed labels, and set its `labels`.

    Where a column already says something else than the label does, the column stands and the
    label stays among the labels, under its plain name.
    """
    labels = parsed.columns["labels"]
    for column in SPELLINGS:
        mine, theirs = encoded(table.column(column)), parsed.columns[column]
        if _is_blank(theirs):
            continue
        if _is_blank(mine):
            table = _replaced(table, column, theirs)
            continue
        here, there = mine.cast(pa.string()), theirs.cast(pa.string())
        table = _replaced(table, column, encoded(pc.if_else(pc.equal(here, EMPTY), there, here)))
        labels = _kept_beside(labels, column, here, there)
    return _replaced(table, "labels", labels)


def _split_text(text: str) -> dict[str, str]:
    labels = labels_of(text)
    named = {name: value for name, value in labels.items() if name in COLUMN_OF}
    if not named:
        return {**_NOTHING, "labels": text}
    others = {name: value for name, value in labels.items() if name not in COLUMN_OF}
    split = split_labels(named)
    return {**split, "labels": canonical_labels(others | labels_of(split["labels"]))}


def _kept_beside(
    labels: pa.DictionaryArray, column: str, mine: pa.Array, theirs: pa.Array
) -> pa.DictionaryArray:
    """The labels, with those added back that the table's own column contradicts."""
    differ = pc.and_(
        pc.and_(pc.not_equal(mine, EMPTY), pc.not_equal(theirs, EMPTY)), pc.not_equal(mine, theirs)
    )
    if not pc.any(differ).as_py():
        return labels
    name = SPELLINGS[column][0]
    pairs = pa.table({"labels": labels.cast(pa.string()), "theirs": theirs, "differ": differ})
    distinct = pairs.filter(differ).group_by(["labels", "theirs"]).aggregate([])
    made = [
        canonical_labels({**labels_of(row["labels"]), name: row["theirs"]})
        for row in distinct.to_pylist()
    ]
    found = pairs.append_column("row", pa.array(range(len(pairs)), pa.int64())).join(
        distinct.append_column("made", pa.array(made, pa.string())), ["labels", "theirs"]
    )
    found = found.sort_by("row")
    return encoded(pc.if_else(found["differ"], found["made"], found["labels"]))


def _apart(texts: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The metric's name and the rest of each text (null and the whole text if not plain to see).

    Without the metric's name, all the texts of one GPU are the same: far fewer to parse.
    """
    simple = pc.match_substring_regex(texts, _SIMPLE)
    names = pc.struct_field(pc.extract_regex(texts, _NAME), "name")
    names = pc.if_else(simple, names, NO_TEXT)
    rest = pc.replace_substring_regex(texts, _NAME, "", max_replacements=1)
    return names, pc.if_else(pc.is_valid(names), rest, texts)


@lru_cache(maxsize=16_384)
def _parse(text: str) -> tuple[dict[str, str], str | None]:
    try:
        return split_labels(parse_label_set(text)), None
    except ValueError as error:
        return _NOTHING, str(error)


def _taken(values: pa.Array, indices: pa.Array) -> pa.DictionaryArray:
    """The values at the indices, encoded without ever making the rows' text."""
    compact = encoded(values)
    return pa.DictionaryArray.from_arrays(compact.indices.take(indices), compact.dictionary)


def _is_blank(column: pa.DictionaryArray) -> bool:
    return bool(pc.all(pc.equal(column.dictionary, EMPTY)).as_py() in (True, None))


def _replaced(table: pa.Table, column: str, values: pa.DictionaryArray) -> pa.Table:
    field = table.schema.field(column).with_type(values.type)
    return table.set_column(table.schema.get_field_index(column), field, values)


def _first(labels: Mapping[str, str], names: Iterable[str]) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")


def _unescaped(match: re.Match[str]) -> str:
    return "\n" if match[1] == "n" else match[1]


_NOTHING: Final = split_labels({})
_UNNAMED: Final = (*(column for column in SPELLINGS if column != "source_metric"), "labels")
