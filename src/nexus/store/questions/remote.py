"""A bucket as DuckDB takes file systems: read by ranges, with the lake's own credentials."""

from __future__ import annotations

from typing import Final

from fsspec.implementations.arrow import ArrowFSWrapper

from nexus.lake.files import filesystem_of
from nexus.lake.url import StoreUrl

REMOTE: Final = "lake://"


class RemoteFiles(ArrowFSWrapper):  # type: ignore[misc]  # which has no types
    """The store's folder of a bucket, under `lake://`."""

    protocol = REMOTE.removesuffix("://")

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path.removeprefix(REMOTE)


def remote_files(store: StoreUrl) -> RemoteFiles:
    """The files of all tables of a store."""
    return RemoteFiles(filesystem_of(store, ""))
