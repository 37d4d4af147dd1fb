"""A GPU's documents: who it is and where its readings are, and the last reading of each series.

    {"uuid":"GPU-…","paths":["/telemetry/clusters/…"],"instances":[{"gpu":"0","model":"…",…}]}

`instances` has the rows of the table `gpus`: the GPU itself, and its MIG instances. A host that
has readings of its own, of no GPU, has a document without any. `paths` begins with the one that
was met last.

    {"common":{"uuid":"GPU-…",…},
    "readings":[
    {"timestamp":"…","value":85,"metric":"gpu_util"},
    …
    ]}

`common` holds what all the readings say alike; each reading has a line, as in its own key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nexus.lake.errors import StoreError
from nexus.store.etcd.rows import completed, moments_text, object_of, parsed, reading_values
from nexus.telemetry.reading import READING_SCHEMA, encoded, in_one_piece
from nexus.telemetry.scalars import EMPTY
from nexus.telemetry.tables import TABLES

GPU_SCHEMA: Final = TABLES["gpus"].schema
_MOMENTS: Final = ("first_seen", "last_seen")
_INSTANCE: Final = pa.struct([f.with_nullable(True) for f in GPU_SCHEMA if f.name != "uuid"])
_DOCUMENT: Final = pa.schema(
    [
        pa.field("uuid", pa.string()),
        pa.field("paths", pa.list_(pa.string())),
        pa.field("instances", pa.list_(_INSTANCE)),
    ]
)
_TEXTS: Final = tuple(f.name for f in READING_SCHEMA if pa.types.is_string(f.type))
_COMMON: Final = tuple(name for name in _TEXTS if name != "metric")
_LOOSE: Final = pa.schema([field.with_nullable(True) for field in READING_SCHEMA])
_HEAD, _BETWEEN, _END = b'{"common":', b',\n"readings":[\n', b"\n]}"


@dataclass(frozen=True, slots=True)
class Known:
    """What the index says: the rows of `gpus`, and the paths of every document by uuid."""

    gpus: pa.Table
    paths: Mapping[str, tuple[str, ...]]


def document(uuid: str, paths: Iterable[str], instances: Iterable[Mapping[str, Any]]) -> bytes:
    """A document of the index; rows are of `gpus`, their moments as text."""
    rows = [{k: v for k, v in row.items() if v and k != "uuid"} for row in instances]
    return object_of({"uuid": uuid, "paths": list(paths), "instances": rows}).encode()


def rows_by_uuid(gpus: pa.Table) -> dict[str, list[dict[str, Any]]]:
    """The rows of `gpus` for `document`, of each uuid those that are its."""
    moments = {n: moments_text(in_one_piece(gpus.column(n))) for n in _MOMENTS}
    table = gpus.drop_columns(list(_MOMENTS))
    for name, column in moments.items():
        table = table.append_column(name, column)
    found: dict[str, list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        found.setdefault(row["uuid"], []).append(row)
    return found


def known_from(values: Sequence[bytes]) -> Known:
    """What documents of the index say together."""
    found = parsed(values, _DOCUMENT)
    uuids = in_one_piece(found.column("uuid"))
    lists = in_one_piece(found.column("instances"))
    rows = pc.list_flatten(lists)
    columns = {"uuid": uuids.take(pc.list_parent_indices(lists))}
    for index, field in enumerate(_INSTANCE):
        column = rows.field(index)
        columns[field.name] = column if field.name in _MOMENTS else pc.fill_null(column, EMPTY)
    gpus = pa.table(columns).select(GPU_SCHEMA.names).cast(GPU_SCHEMA)
    paths = found.column("paths").to_pylist()
    return Known(gpus, {u: tuple(p) for u, p in zip(uuids.to_pylist(), paths, strict=True)})


def latest_documents(readings: pa.Table, starts: Sequence[int]) -> list[bytes]:
    """The last readings of each GPU on a host, each of another series.

    Those of a GPU follow one another, from one of these rows on.
    """
    first = np.asarray(starts)
    sizes = np.diff(np.append(first, readings.num_rows))
    common: dict[str, tuple[npt.NDArray[np.bool_], list[str]]] = {}
    for name in _COMMON:
        text = encoded(readings.column(name))
        codes = text.indices.to_numpy(zero_copy_only=False)
        same = np.minimum.reduceat(codes, first) == np.maximum.reduceat(codes, first)
        common[name] = same, text.dictionary.take(pa.array(codes[first])).to_pylist()
        told = pc.if_else(pa.array(np.repeat(same, sizes)), EMPTY, text.cast(pa.string()))
        index = readings.schema.get_field_index(name)
        readings = readings.set_column(index, READING_SCHEMA.field(name), told)
    lines = reading_values(readings).to_pylist()
    made = []
    for number, (start, size) in enumerate(zip(starts, sizes.tolist(), strict=True)):
        said = {n: texts[number] for n, (same, texts) in common.items() if same[number]}
        head = object_of({name: text for name, text in said.items() if text}).encode()
        made.append(_HEAD + head + _BETWEEN + b",\n".join(lines[start : start + size]) + _END)
    return made


def latest_from(values: Sequence[bytes]) -> pa.Table:
    """The last readings (READING_SCHEMA) that documents of GPUs hold, in their order."""
    commons, lines, owners = [], [], []
    for number, value in enumerate(values):
        head, between, rest = value.partition(_BETWEEN)
        if not between or not head.startswith(_HEAD) or not rest.endswith(_END):
            raise StoreError(f"etcd: not a document of last readings: {value[:80]!r}")
        commons.append(head[len(_HEAD) :])
        # JSON has no newline inside a text, so that this is where a line ends.
        found = rest[: -len(_END)].split(b",\n")
        lines += found
        owners += [number] * len(found)
    return completed(_with_common(parsed(lines, _LOOSE), commons, owners))


def _with_common(readings: pa.Table, commons: Sequence[bytes], owners: Sequence[int]) -> pa.Table:
    known = parsed(commons, pa.schema([_LOOSE.field(name) for name in _TEXTS]))
    places = pa.array(owners, pa.int64())
    for name in _TEXTS:
        index = readings.schema.get_field_index(name)
        whole = pc.coalesce(readings.column(name), known.column(name).take(places))
        readings = readings.set_column(index, _LOOSE.field(name), whole)
    return readings
