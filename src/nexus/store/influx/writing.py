"""What a task does with its readings: points of them, and once for each context what it says.

What its texts say is written to InfluxDB before the first reading that has them, and remembered by
the process, with the beginning of the line that its readings have.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nexus.store.influx.journal import Came
from nexus.store.influx.layout import CONTEXT, OWN, READING_TAGS, TEXTS, place_of
from nexus.store.influx.lines import lines, series_key, text_fields
from nexus.store.influx.reading import conditions, during
from nexus.store.influx.talking import Influx
from nexus.store.port import ANY, RAW_MAX
from nexus.store.questions.spans import DAY, HOUR, MINUTE, Stretch
from nexus.telemetry.reading import ENCODED_TEXT, encoded, in_one_piece
from nexus.telemetry.scalars import NO, scalar

Tell = Callable[[pa.Array], pa.Table]  # given numbers of contexts, their TEXTS and `hash`
_Moments = npt.NDArray[np.int64]

PIECES_MAX: Final = 1000  # of time, that a commit tells apart
_BITS: Final = 2**64 - 1
# Rows that were refused at one moment lie apart by nanoseconds, as their places in the queue do.
_ROW_BITS: Final = 14
SPREAD_NS: Final = 2**36
_TAGS: Final = tuple(name for name in READING_TAGS if name != CONTEXT)
_THERE: Final = pa.schema([pa.field("time", pa.int64()), pa.field(CONTEXT, ENCODED_TEXT)])
_NOTHING: Final = scalar(None, pa.float64())


def context_name(number: int) -> str:
    """The number of a context, as the tag of its readings."""
    return f"{number & _BITS:016x}"


class Contexts:
    """The contexts that one process has told a store, and how the lines of their readings begin."""

    def __init__(self) -> None:
        self._numbers = pa.array([], pa.int64())
        self._keys = pa.array([], pa.string())

    def keys(self, influx: Influx, numbers: pa.Array, tell: Tell) -> pa.Array:
        """For each of these contexts, each named once, how lines begin; those that are new are
        told first."""
        places = pc.index_in(numbers, value_set=self._numbers)
        if places.null_count:
            self._learn(influx, tell(numbers.filter(places.is_null())))
            places = pc.index_in(numbers, value_set=self._numbers)
        return self._keys.take(places)

    def _learn(self, influx: Influx, told: pa.Table) -> None:
        numbers = in_one_piece(told.column("hash"))
        texts = {name: told.column(name).cast(pa.string()) for name in TEXTS}
        names = [context_name(number) for number in numbers.to_pylist()]
        of_contexts = pa.array([f"contexts,{CONTEXT}={name}" for name in names], pa.string())
        rows = [
            dict(zip(TEXTS, row, strict=True))
            for row in zip(*(texts[name].to_pylist() for name in TEXTS), strict=True)
        ]
        # One field, not one for each text: fields are what a new series costs.
        said = text_fields(pa.array([json.dumps(row, ensure_ascii=False) for row in rows]))
        now = pa.repeat(scalar(time.time_ns() // 1000, pa.int64()), len(names))
        for body in lines(of_contexts, [("said", said)], now):
            influx.write(OWN, body)
        made = [
            series_key("readings", {CONTEXT: name, **{tag: row[tag] for tag in _TAGS}})
            for name, row in zip(names, rows, strict=True)
        ]
        self._numbers = pa.concat_arrays([self._numbers, numbers])
        self._keys = pa.concat_arrays([self._keys, pa.array(made, pa.string())])


class Writer:
    """Writes the rows of one task."""

    def __init__(self, influx: Influx, contexts: Contexts) -> None:
        self._influx = influx
        self._contexts = contexts
        self._came: list[Came] = []
        self.readings = self.refused = 0

    @property
    def came(self) -> list[Came]:
        """What came when."""
        return merged(self._came)

    def add(self, rows: pa.Table, tell: Tell) -> None:
        """Store readings, each once, that have a `context`."""
        if not rows.num_rows:
            return
        distinct = pc.dictionary_encode(in_one_piece(rows.column(CONTEXT)))
        keys = self._contexts.keys(self._influx, distinct.dictionary, tell)
        moments, ingested = (
            in_one_piece(rows.column(name)).cast(pa.int64()) for name in ("timestamp", "ingested")
        )
        value, source = (in_one_piece(rows.column(n)) for n in ("value", "source_value"))
        # Every field is dear: what the source said is there only if it is not the value.
        is_same = pc.fill_null(pc.equal(value, source), NO)
        fields = [
            ("ingested", ingested),
            ("value", value),
            ("source_value", pc.if_else(is_same, _NOTHING, source)),
        ]
        for body in lines(keys.take(distinct.indices), fields, moments):
            self._influx.write("readings", body)
        self._came += came_of(moments.to_numpy(), ingested.to_numpy())
        self.readings += rows.num_rows

    def is_stored(self, rows: pa.Table, uuids: pa.ChunkedArray) -> pa.Array:
        """Which of these readings, of these GPUs, are there already."""
        moments = in_one_piece(rows.column("timestamp")).cast(pa.int64())
        ends = pc.min_max(moments)
        stretch = Stretch(ends["min"].as_py(), ends["max"].as_py() + 1)
        there = [
            self._influx.ask(
                f'SELECT "ingested", "{CONTEXT}" FROM {place_of("readings")}'
                f" WHERE {during(stretch)}{where}",
                params,
                _THERE,
            )
            for where, params in conditions(ANY, pc.unique(uuids.cast(pa.string())).to_pylist())
        ]
        found = pa.concat_tables(there)
        names = pc.dictionary_encode(in_one_piece(rows.column(CONTEXT)))
        said = pa.array([context_name(n) for n in names.dictionary.to_pylist()], pa.string())
        known = _identities(found.column("time"), encoded(found.column(CONTEXT)))
        own = pa.DictionaryArray.from_arrays(names.indices, said)
        return pc.is_in(_identities(moments, own), value_set=known)

    def refuse(self, rows: pa.Table) -> None:
        """Store rows of `quarantine`, less their day."""
        raw = rows.column("raw").to_pylist()
        keys = pa.array(
            [
                series_key("quarantine", {"topic": topic, "partition": str(partition)})
                for topic, partition in zip(
                    rows["topic"].to_pylist(), rows["partition"].to_pylist(), strict=True
                )
            ]
        )
        places = rows["offset"].to_numpy() << _ROW_BITS | rows["row"].to_numpy()
        refused = in_one_piece(rows.column("refused")).cast(pa.int64())
        fields = [("refused", refused)]
        fields += [(n, in_one_piece(rows.column(n)).cast(pa.int64())) for n in ("offset", "row")]
        fields += [
            (name, text_fields(in_one_piece(rows.column(name)).cast(pa.string())))
            for name in ("reason", "stage", "content_type", "source")
        ]
        shown = [base64.b64encode(each[:RAW_MAX]).decode() for each in raw]
        fields += [
            ("raw", text_fields(pa.array(shown, pa.string()))),
            ("raw_size", pa.array([len(each) for each in raw], pa.int64())),
        ]
        for body in lines(keys, fields, pa.array(refused.to_numpy() * 1000 + places % SPREAD_NS)):
            self._influx.write("quarantine", body, precision="n")
        self.refused += rows.num_rows


def _identities(moments: pa.Array | pa.ChunkedArray, contexts: pa.DictionaryArray) -> pa.Array:
    """What tells readings apart, as a text."""
    whole = moments.combine_chunks() if isinstance(moments, pa.ChunkedArray) else moments
    names = contexts.dictionary.take(contexts.indices)
    return pc.binary_join_element_wise(names, whole.cast(pa.string()), scalar(" ", pa.string()))


def came_of(moments: _Moments, ingested: _Moments) -> list[Came]:
    """How many readings came to which minutes; to hours or days, if minutes are too many."""
    if not len(moments):
        return []
    for width in (MINUTE, HOUR, DAY):
        starts, places = np.unique(moments - moments % width, return_inverse=True)
        if len(starts) <= PIECES_MAX or width == DAY:
            break
    order = np.argsort(places, kind="stable")
    begins = np.flatnonzero(np.diff(places[order], prepend=-1))
    found = (
        starts,
        np.diff(np.append(begins, len(order))),
        np.minimum.reduceat(moments[order], begins),
        np.maximum.reduceat(moments[order], begins),
        np.maximum.reduceat(ingested[order], begins),
    )
    return [Came(*each) for each in zip(*(column.tolist() for column in found), strict=True)]


def merged(came: Iterable[Came]) -> list[Came]:
    """Pieces of one start put together; of too many, days."""
    found: dict[int, Came] = {}
    each: Sequence[Came] = list(came)
    if len({c.start for c in each}) > PIECES_MAX:
        each = [c._replace(start=c.start - c.start % DAY) for c in each]
    for one in each:
        known = found.get(one.start)
        found[one.start] = one if known is None else known.plus(one)
    return [found[start] for start in sorted(found)]
