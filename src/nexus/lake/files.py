"""A table's Parquet files, written and read on any machine of the job: driver or executor.

A file is nothing to readers until a commit names it, so writing needs no lock and may be left
half done. Columns that part the table are in a file's path, not inside it, and are put back
when it is read.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final
from urllib.parse import quote
from uuid import uuid4

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

from nexus.lake.stats import delta_stats, pruned_columns
from nexus.lake.url import StoreUrl
from nexus.telemetry.tables import TableSpec

# Files are sorted by GPU, so that small row groups let a reader skip most of a file; measured,
# groups of a million rows are 3 % smaller, no more.
ROW_GROUP_ROWS: Final = 131_072
HELD_ROWS: Final = 2 * ROW_GROUP_ROWS
# A question about one GPU needs a few thousand neighbouring rows of a row group: of the other
# pages nothing is unpacked. Pages of a fixed row count cost 1 % of the bytes.
PAGE_ROWS: Final = 4096
# Charts read the rollups far more often than anyone writes them: unpacked faster, 16 % larger.
CODECS: Final[Mapping[str, str]] = {"rollup_1m": "lz4", "rollup_1h": "lz4"}
USUAL_CODEC: Final = "zstd"
READ_ROWS: Final = 65_536
_ENCODED: Final = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file that was written and awaits its commit."""

    path: str  # relative to the table, hive style: day=2025-01-01/part-….zstd.parquet
    size: int
    partition: Mapping[str, str]
    rows: int
    stats: str  # as Delta's log holds them
    modified_ms: int


class FileWriter:
    """One file being written; `file` is there once the writer's block has ended well."""

    def __init__(self, sink: pa.NativeFile, schema: pa.Schema, codec: str = USUAL_CODEC) -> None:
        self._sink = sink
        self._schema = schema
        self._codec = codec
        self._parquet: pq.ParquetWriter | None = None
        self._footers: list[pq.FileMetaData] = []
        self._held: list[pa.Table] = []
        self._held_rows = 0
        self.rows = 0
        self.file: NewFile | None = None

    def write(self, table: pa.Table | pa.RecordBatch) -> None:
        """Append rows; text may be dictionary-encoded; other columns than the file's are left."""
        table = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else table
        rows = self._conformed(table)
        self.rows += rows.num_rows
        self._held.append(rows)
        self._held_rows += rows.num_rows
        if self._held_rows >= HELD_ROWS:
            self._flush()

    def finish(self) -> pq.FileMetaData:
        """Write what is left and the footer."""
        self._flush()
        self._open().close()
        self._sink.close()
        return self._footers[0]

    def abandon(self) -> None:
        """Let go of a file that will not be finished."""
        for part in (self._parquet, self._sink):
            # A Parquet writer that failed once cannot give the footer it is asked for.
            with suppress(OSError, pa.ArrowException, RuntimeError):
                if part is not None:
                    part.close()

    def _flush(self) -> None:
        # A row group with one dictionary a column: with several, Parquet falls back to plain text.
        rows = pa.concat_tables(self._held) if self._held else self._schema.empty_table()
        self._held, self._held_rows = [], 0
        if rows.num_rows:
            self._open().write_table(rows.unify_dictionaries(), ROW_GROUP_ROWS)

    def _conformed(self, table: pa.Table) -> pa.Table:
        """The rows as the file has them: what was encoded in the first is so in all."""
        if not self._held and self._parquet is None:
            self._schema = pa.schema(
                [field.with_type(_kept(table.field(field.name), field)) for field in self._schema]
            )
        columns = [_as(table.column(field.name), field.type) for field in self._schema]
        return pa.table(columns, schema=self._schema)

    def _open(self) -> pq.ParquetWriter:
        if self._parquet is None:
            self._parquet = pq.ParquetWriter(
                self._sink,
                self._schema,
                compression=self._codec,
                max_rows_per_page=PAGE_ROWS,
                use_dictionary=True,  # numbers too: most metrics take few values
                metadata_collector=self._footers,
                store_schema=False,
            )
        return self._parquet


class TableFiles:
    """The files of one table: cheap to make, safe to send to executors."""

    def __init__(self, store: StoreUrl, spec: TableSpec) -> None:
        self.store = store
        self.spec = spec
        self.schema: pa.Schema = pa.schema(
            [field for field in spec.schema if field.name not in spec.partitions]
        )

    @contextmanager
    def writer(self, partition: Mapping[str, str]) -> Iterator[FileWriter]:
        """Write one file of this partition; nothing is left of it if the block fails."""
        codec = CODECS.get(self.spec.name, USUAL_CODEC)
        path = "/".join([*_hive(partition), f"part-{uuid4().hex}.{codec}.parquet"])
        filesystem = self.filesystem()
        if self.store.is_local:
            filesystem.create_dir(path.rpartition("/")[0] or ".", recursive=True)
        writer = FileWriter(filesystem.open_output_stream(path), self.schema, codec)
        try:
            yield writer
            footer = writer.finish()
        except BaseException:
            writer.abandon()
            self.remove([path])
            raise
        writer.file = NewFile(
            path=path,
            size=self._settled(path, filesystem),
            partition=dict(partition),
            rows=footer.num_rows,
            stats=delta_stats(footer, pruned_columns(self.schema)),
            modified_ms=time.time_ns() // 1_000_000,
        )

    def read(
        self,
        paths: Sequence[str],
        columns: Sequence[str] | None = None,
        filters: ds.Expression | None = None,
        *,
        encoded: bool = False,
        batch_rows: int = READ_ROWS,
        threads: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Rows of these files, with the columns that are in their paths.

        With `encoded`, text comes as dictionary arrays. Little is read ahead, so memory does not
        grow with the files.
        """
        if not paths:
            return
        dataset = self.dataset(paths, encoded=encoded)
        yield from dataset.to_batches(
            columns=list(columns) if columns is not None else None,
            filter=filters,
            batch_size=batch_rows,
            batch_readahead=1,
            fragment_readahead=1,
            use_threads=threads,
        )

    def read_in_order(self, path: str, batch_rows: int = READ_ROWS) -> Iterator[pa.RecordBatch]:
        """One file's rows as they stand in it, text encoded, with as little memory as can be."""
        text = [field.name for field in self.schema if pa.types.is_string(field.type)]
        with (
            self.filesystem().open_input_file(path) as source,
            pq.ParquetFile(source, read_dictionary=text, pre_buffer=False) as parquet,
        ):
            yield from parquet.iter_batches(batch_rows, columns=self.schema.names)

    def dataset(self, paths: Sequence[str], *, encoded: bool = False) -> ds.Dataset:
        """These files as a pyarrow dataset."""
        schema = self.encoded_schema() if encoded else self.spec.schema
        text = [field.name for field in schema if pa.types.is_dictionary(field.type)]
        parts = pa.schema([self.spec.schema.field(name) for name in self.spec.partitions])
        return ds.dataset(
            list(paths),
            schema=schema,
            format=ds.ParquetFileFormat(dictionary_columns=text),
            filesystem=self.filesystem(),
            partitioning=ds.partitioning(parts, flavor="hive") if self.spec.partitions else None,
        )

    def encoded_schema(self) -> pa.Schema:
        """The table's schema with its text as dictionary arrays."""
        return pa.schema(
            [
                field.with_type(_ENCODED) if pa.types.is_string(field.type) else field
                for field in self.spec.schema
            ]
        )

    def remove(self, paths: Sequence[str]) -> None:
        """Remove files that no commit names; one that is not there is well."""
        filesystem = self.filesystem()
        for path in paths:
            with suppress(FileNotFoundError, OSError):
                filesystem.delete_file(path)

    def filesystem(self) -> fs.FileSystem:
        """The table's own folder as a file system."""
        return filesystem_of(self.store, self.spec.name)

    def _settled(self, path: str, filesystem: fs.FileSystem) -> int:
        """The size of a file that is safe on its disk, with its name."""
        if self.store.is_local:
            place = Path(self.store.table_uri(self.spec.name)) / path
            for name in (place, *place.parents[: path.count("/") + 1]):  # a day may be new
                sync(name)
            return place.stat().st_size
        return int(filesystem.get_file_info(path).size)


def filesystem_of(store: StoreUrl, folder: str) -> fs.FileSystem:
    """A folder of the store as a file system; credentials come from the environment."""
    uri = store.table_uri(folder)
    if store.is_local:
        return fs.SubTreeFileSystem(uri, fs.LocalFileSystem())
    return fs.SubTreeFileSystem(uri.removeprefix("s3://"), _s3(store))


@cache
def _s3(store: StoreUrl) -> fs.FileSystem:
    options = store.storage_options
    scheme, _, address = options.get("aws_endpoint_url", "").partition("://")
    given = {"endpoint_override": address, "scheme": scheme} if address else {}
    if region := options.get("aws_region"):
        given["region"] = region
    return fs.S3FileSystem(**given)


def sync(path: Path) -> None:
    """Return when a file's content, or a folder's names, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _hive(partition: Mapping[str, str]) -> list[str]:
    return [f"{name}={quote(value, safe='')}" for name, value in partition.items()]


def _kept(given: pa.Field, wanted: pa.Field) -> pa.DataType:
    encoded = pa.types.is_dictionary(given.type) and pa.types.is_string(wanted.type)
    return _ENCODED if encoded else wanted.type


def _as(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if column.type == kind:
        return column
    if pa.types.is_dictionary(kind) and not pa.types.is_dictionary(column.type):
        return column.dictionary_encode().cast(kind)
    return column.cast(kind)
