"""The label sets of CSV rows: each distinct text is parsed once a file, not once a block.

Columns that the CSV leaves empty are filled from the labels; what remains of a label set, and the
CSV's columns that are no part of a reading, become the reading's labels.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.telemetry.labels import (
    SPELLINGS,
    ParsedLabels,
    canonical_labels,
    labels_of,
    parse_labels,
    with_labels,
)
from nexus.telemetry.reading import encoded

MEMO_TEXTS_MAX: Final = 65_536

_NAMES_MAX: Final = 1 << 19
_RADIX: Final = pa.scalar(1 << 20, pa.int64())  # three names in one number; a block has fewer rows
_NO_NUMBER: Final = pa.scalar(None, pa.int32())

Columns = dict[str, pa.DictionaryArray]


class _Store:
    """Parsed label sets, each by its number."""

    def __init__(self) -> None:
        self.size = 0
        nothing = parse_labels(pa.array([], pa.string()))
        self._parsed: Columns = {name: encoded(made) for name, made in nothing.columns.items()}
        self._errors = nothing.error

    def add(self, texts: pa.Array) -> pa.Array:
        """Parse more label sets; their numbers."""
        parsed = parse_labels(pa.array(map(_as_label_set, texts.to_pylist()), pa.string()))
        self._parsed = {
            name: encoded(pa.chunked_array([self._parsed[name], encoded(column)]))
            for name, column in parsed.columns.items()
        }
        self._errors = pa.concat_arrays([self._errors, parsed.error])
        first, self.size = self.size, self.size + len(texts)
        return pa.array(range(first, self.size), pa.int32())

    def rows(self, numbers: pa.Array) -> ParsedLabels:
        """The label sets of some rows."""
        columns = {
            name: pa.DictionaryArray.from_arrays(known.indices.take(numbers), known.dictionary)
            for name, known in self._parsed.items()
        }
        columns["labels"] = _compact(columns["labels"])
        return ParsedLabels(columns, self._errors.take(numbers))


class LabelMemo:
    """Label sets that were parsed before, by their text; up to a bound, then it begins anew."""

    def __init__(self) -> None:
        self._forget()

    @property
    def size(self) -> int:
        """How many texts it knows."""
        return len(self._numbers)

    def parse(self, texts: pa.DictionaryArray) -> ParsedLabels:
        """The same as `parse_labels`, faster for texts that were here before."""
        distinct = texts.dictionary.to_pylist()
        known = list(map(self._numbers.get, distinct))
        if None in known:
            self._learn(distinct)
            known = list(map(self._numbers.get, distinct))
        return self._store.rows(pa.array(known, pa.int32()).take(texts.indices))

    def _forget(self) -> None:
        self._numbers: dict[str, int] = {}
        self._store = _Store()

    def _learn(self, distinct: list[str]) -> None:
        new = [text for text in distinct if text not in self._numbers]
        if len(self._numbers) + len(new) > MEMO_TEXTS_MAX:
            self._forget()
            new = distinct
        numbers = self._store.add(pa.array(new, pa.string())).to_pylist()
        self._numbers.update(zip(new, numbers, strict=True))


class LabelsOfSeries:
    """Label sets by the series they belong to: the metric, the GPU and its holder.

    A series mostly has one label set for long, so a row's text is compared with the last one of
    its series, which is much cheaper than to look the text up. Where that does not hold, the
    texts are looked up after all.
    """

    def __init__(self) -> None:
        self._memo = LabelMemo()
        self._forget()

    def parse(self, texts: pa.Array, series: Sequence[pa.DictionaryArray]) -> ParsedLabels:
        """The label sets of some rows; `series` are the columns that tell the series apart."""
        key = self._key(series)
        numbers = self._unchanged(texts, key)
        if numbers.null_count:
            self._learn(texts, key, pc.is_null(numbers))
            numbers = self._unchanged(texts, key)
        if numbers.null_count:  # a series with several label sets at a time
            return self._memo.parse(encoded(texts))
        return self._store.rows(numbers)

    def _forget(self) -> None:
        self._names: list[pa.Array] = []  # of each column of the series, to number them
        self._keys = pa.array([], pa.int64())
        self._texts = pa.array([], pa.string())
        self._numbers = pa.array([], pa.int32())
        self._store = _Store()

    def _key(self, series: Sequence[pa.DictionaryArray]) -> pa.Array:
        """One number for each row's series."""
        if any(len(names) > _NAMES_MAX for names in self._names):
            self._forget()
        self._names = self._names or [pa.array([], pa.string()) for _ in series]
        key = pa.repeat(pa.scalar(0, pa.int64()), len(series[0]))
        for nth, column in enumerate(series):
            key = pc.add(pc.multiply(key, _RADIX), self._numbered(nth, column))
        return key

    def _numbered(self, nth: int, column: pa.DictionaryArray) -> pa.Array:
        found = pc.index_in(column.dictionary, value_set=self._names[nth])
        if found.null_count:
            new = column.dictionary.filter(pc.is_null(found))
            self._names[nth] = pa.concat_arrays([self._names[nth], new])
            found = pc.index_in(column.dictionary, value_set=self._names[nth])
        return found.cast(pa.int64()).take(column.indices)

    def _unchanged(self, texts: pa.Array, key: pa.Array) -> pa.Array:
        """The number of each row's label set; null where it is not the series' last one."""
        found = pc.index_in(key, value_set=self._keys)
        same = pc.equal(texts, self._texts.take(found))
        return pc.if_else(same, self._numbers.take(found), _NO_NUMBER)

    def _learn(self, texts: pa.Array, key: pa.Array, changed: pa.Array) -> None:
        texts, key = texts.filter(changed), key.filter(changed)
        keys = key.unique()
        firsts = texts.take(pc.index_in(keys, value_set=key))
        if self._store.size + len(keys) > MEMO_TEXTS_MAX:
            self._keys, self._texts, self._numbers = (
                column.slice(0, 0) for column in (self._keys, self._texts, self._numbers)
            )
            self._store = _Store()
        kept = pc.invert(pc.is_in(self._keys, value_set=keys))
        numbers = self._store.add(firsts)
        self._keys = pa.concat_arrays([self._keys.filter(kept), keys])
        self._texts = pa.concat_arrays([self._texts.filter(kept), firsts])
        self._numbers = pa.concat_arrays([self._numbers.filter(kept), numbers])


def _as_label_set(text: str) -> str:
    """Labels written as a JSON object, in the form that all others have."""
    if not text.startswith('{"'):
        return text
    try:
        labels: dict[str, object] = json.loads(text)
    except ValueError:
        return text  # refused where it is parsed
    return ",".join(
        f"{name}={json.dumps(str(said), ensure_ascii=False)}" for name, said in labels.items()
    )


def fill_from_labels(columns: Columns, parsed: ParsedLabels) -> Columns:
    """Give empty columns what the labels say, and add `labels`; a column's own word stands."""
    filled = {**columns, "labels": parsed.columns["labels"]}
    for name in SPELLINGS:
        theirs, mine = parsed.columns[name], columns.get(name)
        if _is_blank(theirs):
            continue
        if mine is None or _is_blank(mine):
            filled[name] = theirs
        elif not _agree(mine, theirs):
            return _filled_row_by_row(columns, parsed)
    return filled


def add_labels(columns: Columns, extras: Mapping[str, pa.DictionaryArray]) -> Columns:
    """Put further columns among the labels; a label of the same name that is there stands."""
    if not extras:
        return columns
    base = columns.get("labels")
    parts = [*extras.values(), *([base] if base is not None else [])]
    rows, distinct = _combinations(parts)
    names = list(extras)
    made = [_merged(names, combination) for combination in distinct]
    known = encoded(pa.array(made, pa.string()))
    spread = pa.DictionaryArray.from_arrays(known.indices.take(rows), known.dictionary)
    return {**columns, "labels": spread}


def _merged(names: Sequence[str], combination: Sequence[str]) -> str:
    extras = {name: cell for name, cell in zip(names, combination, strict=False) if cell}
    base = combination[len(names)] if len(combination) > len(names) else ""
    return canonical_labels({**extras, **labels_of(base)})


def _combinations(parts: Sequence[pa.DictionaryArray]) -> tuple[pa.Array, list[list[str]]]:
    """Which distinct combination each row has, and the combinations."""
    key = parts[0].indices.cast(pa.int64())
    for part in parts[1:]:
        width = max(len(part.dictionary), 1)
        key = pc.add(pc.multiply(key, width), part.indices.cast(pa.int64()))
        key = key.dictionary_encode().indices.cast(pa.int64())  # keeps it small: no overflow
    found = key.dictionary_encode()
    firsts = pc.index_in(found.dictionary, value_set=key).cast(pa.int64())
    cells = [part.take(firsts).to_pylist() for part in parts]
    return found.indices, [list(combination) for combination in zip(*cells, strict=True)]


def _filled_row_by_row(columns: Columns, parsed: ParsedLabels) -> Columns:
    count = len(parsed.error)
    nothing = encoded(pa.repeat(pa.scalar("", pa.string()), count))
    names = [*SPELLINGS, "labels"]
    table = pa.table([columns.get(name, nothing) for name in names], names=names)
    done = with_labels(table, parsed)
    return {**columns, **{name: encoded(done.column(name)) for name in names}}


def _agree(mine: pa.DictionaryArray, theirs: pa.DictionaryArray) -> bool:
    """Whether both say the same in every row; by indices, without making the rows' text."""
    here = pc.index_in(theirs.dictionary, value_set=mine.dictionary)
    return pc.all(pc.equal(here.take(theirs.indices), mine.indices), skip_nulls=False).as_py() is (
        True
    )


def _compact(column: pa.DictionaryArray) -> pa.DictionaryArray:
    """The same with only those texts in its dictionary that it has."""
    used = column.indices.dictionary_encode()
    return pa.DictionaryArray.from_arrays(used.indices, column.dictionary.take(used.dictionary))


def _is_blank(column: pa.DictionaryArray) -> bool:
    known = column.dictionary  # of distinct texts
    return len(known) == 0 or (len(known) == 1 and not known[0].as_py())
