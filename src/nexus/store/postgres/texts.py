"""What the numbers of contexts stand for, kept in memory: they never change, and only grow."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import psycopg
import pyarrow as pa
import pyarrow.compute as pc

from nexus.store.postgres.copying import copy_table
from nexus.store.postgres.layout import TEXTS
from nexus.store.postgres.pinned import Pin, Pins
from nexus.telemetry.reading import ENCODED_TEXT, encoded, in_one_piece
from nexus.telemetry.scalars import EMPTY, scalar

_SCHEMA: Final = pa.schema(
    [
        pa.field("id", pa.int32()),
        pa.field("of_gpu", pa.int32()),
        *(pa.field(name, pa.string()) for name in TEXTS),
    ]
)
_NAMES: Final = ", ".join(f'"{name}"' for name in _SCHEMA.names)
_SELECT: Final = f"SELECT {_NAMES} FROM contexts WHERE id > %(last)s ORDER BY id"


_ENCODED: Final = pa.schema(
    [field.with_type(ENCODED_TEXT) if field.name in TEXTS else field for field in _SCHEMA]
)


@dataclass
class Contexts:
    """All contexts of a store that there are, as far as they are known."""

    identity: str = ""  # of the store
    versions: Mapping[str, int] = field(default_factory=dict)  # of its tables, when last looked at
    table: pa.Table = field(default_factory=_ENCODED.empty_table)
    places: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros(1, np.int32))  # by id
    uuids: list[str] = field(default_factory=list)  # of GPUs, in order
    gpu_of: dict[str, int] = field(default_factory=dict)  # by uuid

    @property
    def last(self) -> int:
        return len(self.places) - 1

    def catch_up(self, cursor: psycopg.Cursor[Any]) -> None:
        """Learn what has come since somebody looked last."""
        new = copy_table(cursor, _SELECT, {"last": self.last}, _SCHEMA)
        if new.num_rows:
            self._learn(new)

    def of(self, ids: npt.NDArray[np.int32]) -> dict[str, pa.Array]:
        """The text columns of rows whose contexts have these numbers."""
        at = pa.array(self.places[ids])
        columns = (in_one_piece(self.table.column(name)) for name in TEXTS)
        return {
            name: pa.DictionaryArray.from_arrays(column.indices.take(at), column.dictionary)
            for name, column in zip(TEXTS, columns, strict=True)
        }

    def _learn(self, new: pa.Table) -> None:
        columns = {name: encoded(new.column(name)) for name in TEXTS}
        made = pa.table({"id": new.column("id"), "of_gpu": new.column("of_gpu"), **columns})
        self.table = pa.concat_tables([self.table, made]).unify_dictionaries().combine_chunks()
        ids = self.table.column("id").to_numpy()
        self.places = np.zeros(int(ids[-1]) + 1, np.int32)
        self.places[ids] = np.arange(len(ids), dtype=np.int32)
        each = new.group_by("uuid").aggregate([("of_gpu", "min")])
        said = (each.column(name).to_pylist() for name in ("uuid", "of_gpu_min"))
        self.gpu_of.update(zip(*said, strict=True))
        self.uuids = sorted({*self.uuids, *_gpus(new)})


class Texts:
    """The contexts of one store; safe for any number of threads."""

    def __init__(self, pins: Pins) -> None:
        self._pins = pins
        self._turn = threading.Lock()
        self._known = Contexts()

    def of(self, pin: Pin, ids: npt.NDArray[np.int32]) -> dict[str, pa.Array]:
        """The text columns of rows whose contexts have these numbers."""
        with self._turn:
            if self._of(pin).last < ids.max(initial=0):
                self._learn(pin)
            return self._known.of(ids)

    def gpus(self, pin: Pin, uuids: Collection[str]) -> list[int]:
        """The numbers of these GPUs, if they are known."""
        gpu_of = self._newest(pin).gpu_of
        found = (gpu_of.get(uuid) for uuid in uuids)
        return sorted({number for number in found if number is not None})

    def uuids(self, pin: Pin) -> list[str]:
        """Those of all GPUs, in order."""
        return self._newest(pin).uuids

    def _newest(self, pin: Pin) -> Contexts:
        """With what came since somebody looked last."""
        with self._turn:
            if self._of(pin).versions != pin.versions:
                self._learn(pin)
            return self._known

    def _of(self, pin: Pin) -> Contexts:
        if self._known.identity != pin.identity:
            self._known = Contexts(pin.identity)
        return self._known

    def _learn(self, pin: Pin) -> None:
        with self._pins.reading(pin) as cursor:
            self._known.catch_up(cursor)
        self._known.versions = pin.versions


def _gpus(new: pa.Table) -> list[str]:
    """The uuids of contexts, less those of hosts: their name and a slash."""
    as_host = pc.binary_join_element_wise(new["hostname"], scalar("/", pa.string()), EMPTY)
    of_host = pc.and_(pc.equal(new["uuid"], as_host), pc.equal(new["gpu"], EMPTY))
    found: list[str] = pc.unique(new["uuid"].filter(pc.invert(of_host))).to_pylist()
    return found
