"""DuckDB as the reader of Parquet files and the judge of rows: bounded, in UTC, many at once.

Values are bound to names in a query's text, never pasted into it.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa

from nexus.lake.url import StoreUrl
from nexus.store.errors import StoreAway, TooMuch
from nexus.store.questions.remote import REMOTE, remote_files

THREADS: Final = 2
MEMORY: Final = "512MB"
SPILLED: Final = "4GB"  # on the disk, of questions that take more memory
SECONDS_MAX: Final = 20.0  # that one statement may take
_WATCH_S: Final = 0.25
_GLOB: Final = str.maketrans({"[": "[[]", "*": "[*]", "?": "[?]"})


class FilesGone(StoreAway):
    """Raised when a file of a pinned version is there no more: a newer version has its rows."""


class Database:
    """Runs statements for any number of threads, each with a cursor of its own."""

    def __init__(self, store: StoreUrl, *, seconds_max: float = SECONDS_MAX) -> None:
        self._store = store
        self._seconds_max = seconds_max
        self.folder = Path(tempfile.mkdtemp(prefix="nexus-store-"))  # goes when it is closed
        self._root = duckdb.connect(
            config={
                "threads": THREADS,
                "memory_limit": MEMORY,
                "temp_directory": str(self.folder / "spilled"),
                "max_temp_directory_size": SPILLED,
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
            }
        )
        if not store.is_local:
            self._root.register_filesystem(remote_files(store))
        self._idle: list[duckdb.DuckDBPyConnection] = []
        self._running: dict[duckdb.DuckDBPyConnection, float] = {}
        self._turn = threading.Lock()
        self._closed = threading.Event()
        self._watch = threading.Thread(target=self._watched, name="store-watch", daemon=True)
        self._watch.start()

    def paths(self, table: str, files: Sequence[str]) -> list[str]:
        """Files of a table, or local ones by their whole path, as `read_parquet` takes them."""
        root = f"{REMOTE}{table}"
        if self._store.is_local:
            root = self._store.table_uri(table).translate(_GLOB)
        return [
            path.translate(_GLOB) if path.startswith("/") else f"{root}/{path}" for path in files
        ]

    def ask(
        self, sql: str, params: Mapping[str, Any], tables: Mapping[str, pa.Table] | None = None
    ) -> pa.Table:
        """The rows of one statement; `tables` can be named in it."""
        with self._cursor() as cursor:
            for name, table in (tables or {}).items():
                cursor.register(name, table)
            try:
                return cursor.sql(sql, params=dict(params)).to_arrow_table()
            except duckdb.InterruptException as error:
                raise TooMuch(
                    "the question took too long: ask for less time or fewer series"
                ) from error
            except duckdb.OutOfMemoryException as error:
                raise TooMuch("the question takes too much memory: ask for less") from error
            except duckdb.Error as error:
                if not _is_of_files(error):
                    raise
                raise FilesGone(f"store {self._store}: {_essence(error)}") from error
            finally:
                for name in tables or {}:
                    cursor.unregister(name)

    def close(self) -> None:
        """Let go of everything; statements that run are cut short."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._watch.join()
        with self._turn:
            for cursor in [*self._running, *self._idle]:
                cursor.interrupt()
            for cursor in self._idle:
                cursor.close()
            self._idle.clear()
        self._root.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    @contextmanager
    def _cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        if self._closed.is_set():
            raise StoreAway("the store was closed")
        with self._turn:
            cursor = self._idle.pop() if self._idle else None
        if cursor is None:
            cursor = self._root.cursor()
            cursor.execute("SET TimeZone = 'UTC'")  # of the session: a cursor does not inherit it
        with self._turn:
            self._running[cursor] = time.monotonic() + self._seconds_max
        try:
            yield cursor
        finally:
            with self._turn:
                del self._running[cursor]
                if not self._closed.is_set():
                    self._idle.append(cursor)

    def _watched(self) -> None:
        """Cut short what takes too long."""
        while not self._closed.wait(_WATCH_S):
            now = time.monotonic()
            with self._turn:
                for cursor in [c for c, until in self._running.items() if until < now]:
                    cursor.interrupt()


def _is_of_files(error: duckdb.Error) -> bool:
    """Whether files could not be read; what our own file system raises has no kind of its own."""
    return isinstance(error, duckdb.IOException) or type(error) is duckdb.Error


def _essence(error: duckdb.Error) -> str:
    """The line that says what is wrong: the first, or the last of a traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    return lines[-1] if lines[0].startswith("Traceback") else lines[0]
