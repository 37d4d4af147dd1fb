"""Follows the index: who the GPUs are, and where their readings lie, at one revision.

The index is kept in memory, and only documents that changed are read again.
"""

from __future__ import annotations

import json
import time
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.etcd.errors import ResponseTooLarge
from nexus.etcd.operations import Get
from nexus.etcd.results import TxnResult
from nexus.lake.errors import StoreError
from nexus.store.etcd.documents import GPU_SCHEMA, Known, known_from
from nexus.store.etcd.layout import StoreLayout, path_name
from nexus.store.etcd.reading import Asked, Reader
from nexus.store.port import Selection

_NOTHING: Final = Known(GPU_SCHEMA.empty_table(), {})
_STEPS: Final = 5  # of a path after the prefix and "clusters": {cluster}/hosts/{host}/gpus/{uuid}


@dataclass(frozen=True)
class Index:
    """What the index says at a revision. `version` changes with what the store holds."""

    revision: int = 0
    era: int = 0  # counts how often etcd was found to have gone back, as from a backup
    version: int = 0
    at: float = -1e9  # of the monotonic clock, when this was asked for
    known: Known = field(default_factory=lambda: _NOTHING)
    marks: Mapping[bytes, int] = field(default_factory=dict)  # of the store's own keys
    size: int = 0  # of all documents, in bytes
    committed_us: int = 0  # when the last batch was stored; 0 if none was

    @property
    def exists(self) -> bool:
        """Whether anything was ever written to the store."""
        return bool(self.known.paths or self.marks)

    @cached_property
    def uuids(self) -> list[str]:
        """The GPUs, in order; hosts that have readings of their own are none."""
        return sorted(set(self.known.gpus.column("uuid").to_pylist()))

    @cached_property
    def newest_us(self) -> Mapping[str, int]:
        """When each GPU was last heard of."""
        table = self.known.gpus
        seen = table.column("last_seen").cast(pa.int64())
        newest = table.set_column(table.schema.get_field_index("last_seen"), "last_seen", seen)
        rows = newest.group_by("uuid").aggregate([("last_seen", "max")])
        pairs = zip(rows["uuid"].to_pylist(), rows["last_seen_max"].to_pylist(), strict=True)
        return dict(pairs)

    def named(self, prefix: str) -> list[str]:
        """The first two GPUs whose uuids begin so."""
        begin = bisect_left(self.uuids, prefix)
        found = (uuid for uuid in islice(self.uuids, begin, begin + 2) if uuid.startswith(prefix))
        return list(found)

    def paths(self, which: Selection) -> dict[str, tuple[str, ...]]:
        """The paths, by uuid, that can hold readings of a selection."""
        known = self.known.paths
        uuids = [u for u in dict.fromkeys(which.uuids) if u in known] if which.uuids else known
        if not (which.clusters or which.hostnames):
            return {uuid: known[uuid] for uuid in uuids}
        clusters, hosts = (set(map(path_name, n)) for n in (which.clusters, which.hostnames))
        found = {uuid: _on(known[uuid], clusters, hosts) for uuid in uuids}
        return {uuid: paths for uuid, paths in found.items() if paths}

    def moved(self, uuid: str) -> bool:
        """Whether readings of a GPU lie under several paths."""
        return len(self.known.paths.get(uuid, ())) > 1


class Following:
    """The index of one store; for one thread at a time."""

    def __init__(self, reader: Reader, layout: StoreLayout) -> None:
        self._reader = reader
        self._layout = layout
        self._values: dict[bytes, bytes] = {}
        self._last: Index | None = None

    def look(self) -> Index:
        """The index as it is now; StoreAway if that cannot be."""
        later: Index | None = None
        if self._last is not None:
            try:
                later = self._later(self._last)
            except ResponseTooLarge:  # too much has changed for one answer
                later = None
        self._last = later or self._anew()
        return self._last

    def _later(self, last: Index) -> Index | None:
        """The index after an earlier one; None if documents were removed, or etcd went back."""
        at = time.monotonic()
        changes = Get(self._layout.index, mod_from=last.revision + 1)
        answer = self._reader.together([Get(self._layout.metas()), changes])
        got = answer.got(1)
        self._values.update((item.key, item.value) for item in got.items)
        if len(self._values) != got.total or answer.revision < last.revision:
            return None
        index = self._marked(last, answer, at)
        if not got.items:
            return index
        version = max(index.version, *(item.mod_revision for item in got.items))
        return self._documented(index, version)

    def _anew(self) -> Index:
        at = time.monotonic()
        answer = self._reader.together([Get(self._layout.metas())])
        index = self._marked(Index(), answer, at)
        pages = self._reader.items([Asked(self._layout.index)], index.revision)
        items = [item for page in pages for item in page]
        self._values = {item.key: item.value for item in items}
        version = max(index.version, *(item.mod_revision for item in items), 0)
        if self._last is not None:  # what was removed leaves no trace but this
            version = index.revision
            era = self._last.era + (index.revision < self._last.revision)
            index = replace(index, era=era)
        return self._documented(index, version)

    def _marked(self, last: Index, answer: TxnResult, at: float) -> Index:
        """With what the store's own keys say."""
        found = answer.got(0).items
        marks = {item.key: item.mod_revision for item in found}
        batches = self._layout.metas("batches").start
        stored = (item.value for item in found if item.key.startswith(batches))
        return replace(
            last,
            revision=answer.revision,
            version=max(last.version, *marks.values(), 0),
            at=at,
            marks=marks,
            committed_us=max(map(_stored_us, stored), default=0),
        )

    def _documented(self, index: Index, version: int) -> Index:
        """With what the documents say."""
        documents = list(self._values.values())
        size = sum(map(len, documents))
        return replace(index, version=version, known=known_from(documents), size=size)


def _stored_us(mark: bytes) -> int:
    """When the last batch of a stream was stored."""
    try:
        return int(json.loads(mark)["at_us"])
    except (ValueError, TypeError, KeyError):
        raise StoreError(f"etcd: not the mark of a batch: {mark[:80]!r}") from None


def _on(paths: Iterable[str], clusters: set[str], hosts: set[str]) -> tuple[str, ...]:
    """Those of the paths that are of these clusters and hosts; an empty set is any."""
    found = []
    for path in paths:
        _, cluster, _, host, *_ = path.rsplit("/", _STEPS)
        if (not clusters or cluster in clusters) and (not hosts or host in hosts):
            found.append(path)
    return tuple(found)


def rows_of(gpus: pa.Table, uuids: Iterable[str]) -> pa.Table:
    """The rows of these GPUs."""
    return gpus.filter(pc.is_in(gpus.column("uuid"), pa.array(list(uuids), pa.string())))
