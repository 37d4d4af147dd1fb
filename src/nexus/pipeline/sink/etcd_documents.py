"""Keeps a store's documents after its readings: who each GPU is, and its last readings.

A document is read, what new readings say is merged into it, and it is put back only if nobody
changed it meanwhile; merging the same readings again changes nothing. So it does not matter how
often a batch is played, nor that tasks meet at one GPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nexus.etcd import Client, Fence, Get, Keys, KeyValue, Limits, Put, mod_revision
from nexus.lake.errors import StoreOut
from nexus.pipeline.derive.gpus import gpus_of
from nexus.store.etcd.documents import (
    Known,
    document,
    known_from,
    latest_documents,
    latest_from,
    rows_by_uuid,
)
from nexus.store.etcd.layout import StoreLayout, latest_key, metadata_key
from nexus.store.etcd.writing import in_lanes, write
from nexus.telemetry.combine import Combined, combine
from nexus.telemetry.identity import SERIES_COLUMNS
from nexus.telemetry.reading import READING_SCHEMA, plain

RECENT_US: Final = 3_600_000_000  # series that ended before are left out, as of pods long gone
_PLACE: Final = ("cluster", "hostname", "uuid")
_GETS: Final = 32  # documents in one answer
_TRIES: Final = 100  # each time, one of those who meet at a GPU has its way
_SERIES_MOST: Final = 2_000  # of a GPU in its document, which has to fit into a request
_ROOM_BYTES: Final = 64 << 10


class News(NamedTuple):
    """What readings say of GPUs: the last of each series, and since when there are readings."""

    last: pa.Table
    seen: pa.Table  # uuid, mig, first_seen

    def of(self, uuids: Iterable[str]) -> News:
        """The part that is about some GPUs."""
        wanted = pa.array(list(uuids), pa.string())
        return News(
            *(table.filter(pc.is_in(table.column("uuid"), value_set=wanted)) for table in self)
        )


class Documents(NamedTuple):
    """What is put for one GPU: keys and values, and what they were made of, by revision."""

    uuid: str
    puts: Mapping[bytes, bytes]
    read: Mapping[bytes, int]

    @property
    def size(self) -> int:
        return sum(len(key) + len(value) for key, value in self.puts.items())


def news_of(readings: pa.Table) -> News:
    """What readings say that matters to documents."""
    last = plain(
        readings.take(pa.array(_last_rows(readings, np.zeros(readings.num_rows, np.int8))))
    )
    first = plain(readings.select(["uuid", "mig", "timestamp"])).group_by(["uuid", "mig"])
    seen = first.aggregate([("timestamp", "min")]).rename_columns({"timestamp_min": "first_seen"})
    return News(last, seen)


async def keep_documents(client: Client, fence: Fence, layout: StoreLayout, news: News) -> None:
    """Bring the documents up to some news, whoever else writes them."""
    left = sorted(set(news.seen.column("uuid").to_pylist()))
    for _ in range(_TRIES):
        if not left:
            return
        found = await _read(client, layout, news)
        made = merged(layout, news, found)
        left = await _put(client, fence, made)
        news = news.of(left)
    raise StoreOut(f"the documents of {len(left)} GPUs change faster than they can be written")


def merged(layout: StoreLayout, news: News, found: Mapping[bytes, KeyValue]) -> list[Documents]:
    """The documents of the GPUs that there is news of, given those that were found."""
    places = _places(layout, news.last)
    known = _known(layout, news, found)
    rows = rows_by_uuid(gpus_of(news.last, news.seen, known.gpus))
    told = [found[key] for key in map(latest_key, places) if key in found]
    latest = _latest(layout, news.last, told)
    met: dict[str, list[str]] = {}
    for path, uuid in places.items():
        met.setdefault(uuid, []).append(path)
    made = []
    for uuid, paths in met.items():
        before = known.paths.get(uuid, ())
        whole = [*(path for path in paths if path not in before), *before]
        said = document(uuid, whole, rows.get(uuid, ()))
        puts = {layout.gpu(uuid): said}
        for path in paths:
            puts |= {metadata_key(path): said, latest_key(path): latest[path]}
        made_of = [layout.gpu(uuid), *map(latest_key, paths)]
        revisions = {key: found[key].mod_revision if key in found else 0 for key in made_of}
        made.append(Documents(uuid, puts, revisions))
    return made


def _latest(layout: StoreLayout, last: pa.Table, found: Sequence[KeyValue]) -> dict[str, bytes]:
    """By path, the document of the last readings."""
    known = latest_from([item.value for item in found]).select(READING_SCHEMA.names)
    both = pa.concat_tables([known, last.select(READING_SCHEMA.names).cast(READING_SCHEMA)])
    is_new = np.repeat(np.array([0, 1], np.int8), [known.num_rows, last.num_rows])
    rows = both.take(pa.array(_last_rows(both, is_new)))
    where = combine([rows.column(name) for name in _PLACE])
    codes = where.codes.to_numpy(zero_copy_only=False)
    rows, codes = _recent(rows, codes)
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    made = latest_documents(rows.take(pa.array(order)), starts.tolist())
    paths = [layout.path(*place) for place in where.rows()]
    return {paths[codes[order[s]]]: value for s, value in zip(starts, made, strict=True)}


def _recent(rows: pa.Table, codes: npt.NDArray[np.int32]) -> tuple[pa.Table, npt.NDArray[np.int32]]:
    """Less the readings that are much older than the newest of their GPU."""
    moments = _numbers(rows, "timestamp")
    newest = np.full(codes.max() + 1, np.iinfo(np.int64).min)
    np.maximum.at(newest, codes, moments)
    kept = moments >= newest[codes] - RECENT_US
    if np.bincount(codes).max() > _SERIES_MOST:
        kept &= _place_in_group(codes, -moments) < _SERIES_MOST
    return (rows, codes) if kept.all() else (rows.filter(pa.array(kept)), codes[kept])


def _place_in_group(
    codes: npt.NDArray[np.int32], by: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """For each row how many of its group come before it."""
    order = np.lexsort((by, codes))
    starts = np.searchsorted(codes[order], codes[order], "left")
    places = np.empty(len(codes), np.int64)
    places[order] = np.arange(len(codes)) - starts
    return places


def _last_rows(readings: pa.Table, rank: npt.NDArray[np.int8]) -> npt.NDArray[np.int64]:
    """Where the last reading of each series stands; of two at one moment, the lower rank's, then
    the one that was taken first."""
    series = combine([readings.column(name) for name in ("cluster", "hostname", *SERIES_COLUMNS)])
    codes = series.codes.to_numpy(zero_copy_only=False)
    order = np.lexsort(
        (_numbers(readings, "ingested"), rank, -_numbers(readings, "timestamp"), codes)
    )
    is_first = np.diff(codes[order], prepend=-1) != 0
    found: npt.NDArray[np.int64] = np.sort(order[is_first])
    return found


def _known(layout: StoreLayout, news: News, found: Mapping[bytes, KeyValue]) -> Known:
    keys = [layout.gpu(uuid) for uuid in set(news.seen.column("uuid").to_pylist())]
    return known_from([found[key].value for key in keys if key in found])


def _places(layout: StoreLayout, last: pa.Table) -> dict[str, str]:
    """The uuid of each path that readings are of."""
    where: Combined = combine([last.column(name) for name in _PLACE])
    return {layout.path(*place): place[2] for place in where.rows()}


async def _read(client: Client, layout: StoreLayout, news: News) -> dict[bytes, KeyValue]:
    places = _places(layout, news.last)
    keys = [*map(layout.gpu, set(places.values())), *map(latest_key, places)]
    parts = [keys[start : start + _GETS] for start in range(0, len(keys), _GETS)]
    found = await in_lanes(_gotten(client, part) for part in parts)
    return {item.key: item for part in found for item in part}


async def _gotten(client: Client, keys: Sequence[bytes]) -> list[KeyValue]:
    done = await client.txn(then=[Get(Keys(key)) for key in keys])
    return [item for n in range(len(keys)) if (item := done.got(n).first) is not None]


async def _put(client: Client, fence: Fence, made: Sequence[Documents]) -> list[str]:
    """The uuids of those that somebody else changed meanwhile."""
    groups = grouped(made, await client.limits())
    held = await in_lanes(_write(client, fence, group) for group in groups)
    return [d.uuid for group, is_put in zip(groups, held, strict=True) if not is_put for d in group]


async def _write(client: Client, fence: Fence, group: Sequence[Documents]) -> int:
    when = [mod_revision(key).equals(at) for each in group for key, at in each.read.items()]
    puts = [Put(key, value) for each in group for key, value in each.puts.items()]
    return await write(client, fence, puts, when)


def grouped(made: Sequence[Documents], limits: Limits) -> list[list[Documents]]:
    """As many GPUs together as a transaction takes."""
    groups: list[list[Documents]] = []
    operations = size = 0
    for each in made:
        operations, size = operations + len(each.puts), size + each.size
        most = limits.request_bytes - _ROOM_BYTES
        if not groups or operations > limits.operations or size > most:
            groups.append([])
            operations, size = len(each.puts), each.size
        groups[-1].append(each)
    return groups


def _numbers(table: pa.Table, name: str) -> npt.NDArray[np.int64]:
    numbers: npt.NDArray[np.int64] = table.column(name).cast(pa.int64()).to_numpy()
    return numbers
