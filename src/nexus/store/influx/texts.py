"""What contexts say, kept in memory: they never change, and only grow.

Each has the number of its series here, by which readings of one series are put together that have
different contexts, such as those of a GPU that moved.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pajson

from nexus.store.errors import StoreAway
from nexus.store.influx.layout import CONTEXT, TEXTS, place_of
from nexus.store.influx.talking import Influx
from nexus.store.port import Selection
from nexus.store.questions.conditions import SELECTED
from nexus.store.questions.spans import HOUR
from nexus.telemetry.combine import combine
from nexus.telemetry.identity import SERIES_COLUMNS
from nexus.telemetry.reading import ENCODED_TEXT, encoded, in_one_piece

Places = npt.NDArray[np.int32]

_OVERLAP_US: Final = HOUR  # clocks of the machines that tell contexts may differ
_SCHEMA: Final = pa.schema(
    [
        pa.field("time", pa.int64()),
        pa.field(CONTEXT, pa.string()),
        pa.field("said", pa.string()),
    ]
)
_SAID: Final = pa.schema([pa.field(name, pa.string()) for name in TEXTS])
# Of a GPU these are not in the tags of a series: which GPUs they mean is looked up.
_OF_GPU: Final = ("hostnames", "clusters", "models", "gpus")


@dataclass
class _Known:
    """All contexts of a store, as far as they are known."""

    identity: str = ""
    version: int = -1  # of the store, when last looked at
    newest: int = 0  # the time of the last that was told
    names: pa.Array = field(default_factory=lambda: pa.array([], pa.string()))
    columns: dict[str, pa.DictionaryArray] = field(
        default_factory=lambda: {name: pa.array([], ENCODED_TEXT) for name in TEXTS}
    )
    series: Places = field(default_factory=lambda: np.zeros(0, np.int32))  # of each context

    def learn(self, told: pa.Table) -> None:
        self.newest = max(self.newest, pc.max(told.column("time")).as_py() or 0)
        distinct = pc.dictionary_encode(in_one_piece(told.column(CONTEXT)))
        first = pc.index_in(distinct.dictionary, value_set=in_one_piece(told.column(CONTEXT)))
        is_new = pc.invert(pc.is_in(distinct.dictionary, value_set=self.names))
        new = told.take(first.filter(is_new))
        if not new.num_rows:
            return
        texts = _texts(new.column("said"))
        self.names = pa.concat_arrays([self.names, in_one_piece(new.column(CONTEXT))])
        for name in TEXTS:
            column = pa.chunked_array([self.columns[name], encoded(texts.column(name))])
            self.columns[name] = encoded(column)
        series = combine([self.columns[name] for name in SERIES_COLUMNS])
        self.series = series.codes.to_numpy(zero_copy_only=False).astype(np.int32)


@dataclass(frozen=True, slots=True)
class Told:
    """What the contexts of some rows say."""

    places: Places  # of each row
    columns: dict[str, pa.DictionaryArray]  # of contexts, by their places
    series: Places  # of contexts, by their places

    def texts(self) -> dict[str, pa.DictionaryArray]:
        """The text columns of the rows."""
        at = pa.array(self.places)
        return {
            name: pa.DictionaryArray.from_arrays(column.indices.take(at), column.dictionary)
            for name, column in self.columns.items()
        }

    def series_of_rows(self) -> Places:
        """The number of each row's series."""
        found: Places = self.series[self.places]
        return found


class Texts:
    """The contexts of one store; safe for any number of threads."""

    def __init__(self, influx: Influx) -> None:
        self._influx = influx
        self._turn = threading.Lock()
        self._known = _Known()

    def of(self, identity: str, names: pa.ChunkedArray | pa.Array) -> Told:
        """What the contexts of rows say; StoreAway if one of them is not there."""
        said = encoded(names)
        with self._turn:
            known = self._of(identity)
            places = pc.index_in(said.dictionary, value_set=known.names)
            for since in (known.newest - _OVERLAP_US, 0):
                if places.null_count:
                    self._learn(since)
                    places = pc.index_in(said.dictionary, value_set=known.names)
            if places.null_count:
                raise StoreAway(
                    f"store {self._influx.place}: it lacks {places.null_count} contexts"
                )
            at = places.to_numpy(zero_copy_only=False).astype(np.int32)
            rows = said.indices.to_numpy(zero_copy_only=False)
            return Told(at[rows] if len(at) else rows, dict(known.columns), known.series)

    def uuids(self, identity: str, version: int, which: Selection) -> Collection[str] | None:
        """The GPUs that a selection may mean; None for all."""
        named = [part for part in _OF_GPU if getattr(which, part)]
        if not named:
            return which.uuids or None
        with self._turn:
            known = self._newest(identity, version)
            chosen = pa.repeat(pa.scalar(True), len(known.names))
            for part in (*named, *(["uuids"] if which.uuids else [])):
                column, wanted = known.columns[SELECTED[part]], getattr(which, part)
                is_it = pc.is_in(column.dictionary, value_set=pa.array(wanted, pa.string()))
                chosen = pc.and_(chosen, is_it.take(column.indices))
            uuid = known.columns["uuid"].filter(chosen)
        found: list[str] = pc.unique(uuid.cast(pa.string())).to_pylist()
        return found

    def all_uuids(self, identity: str, version: int) -> list[str]:
        """Those of everything that has readings."""
        with self._turn:
            found: list[str] = (
                self._newest(identity, version).columns["uuid"].dictionary.to_pylist()
            )
            return found

    def _newest(self, identity: str, version: int) -> _Known:
        known = self._of(identity)
        if known.version != version and identity:  # without one there is no store yet
            self._learn(known.newest - _OVERLAP_US)
            known.version = version
        return known

    def _of(self, identity: str) -> _Known:
        if self._known.identity != identity:
            self._known = _Known(identity)
        return self._known

    def _learn(self, since: int) -> None:
        where = f" WHERE time >= {max(since, 0)}u"
        statement = f'SELECT "{CONTEXT}", "said" FROM {place_of("contexts")}{where}'
        self._known.learn(self._influx.ask(statement, None, _SCHEMA))


def _texts(said: pa.ChunkedArray) -> pa.Table:
    """Objects of JSON as columns."""
    data = "\n".join(said.to_pylist()).encode()
    return pajson.read_json(
        pa.BufferReader(data),
        # In one block: an object that goes over the end of one is refused.
        read_options=pajson.ReadOptions(use_threads=False, block_size=len(data) + 1),
        parse_options=pajson.ParseOptions(
            explicit_schema=_SAID, unexpected_field_behavior="ignore"
        ),
    )
