"""POST /api/v1/csv/upload: a CSV file from anywhere, through the same path as any other source.

The answer comes when every reading is acknowledged (or, while the queue is away, in the spool).
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from nexus.errors import NexusError
from nexus.observe.http import JSON, BadRequest, Response, Upload
from nexus.streamer.multipart import MultipartFiles
from nexus.streamer.parcels import Parcel, Piece
from nexus.streamer.sources.csv_source import CsvSource
from nexus.streamer.sources.port import Block

if TYPE_CHECKING:
    from nexus.streamer.engine import Engine

_AT_ONCE_MAX: Final = 4


class Uploads:
    """Takes uploads for an engine."""

    def __init__(self, engine: Engine, limit_bytes: int) -> None:
        self._engine, self._limit = engine, limit_bytes
        self._active = 0

    def route(self) -> Upload:
        return Upload(self._limit, self._open)

    def _open(self, headers: Mapping[str, str]) -> UploadSink:
        _refuse_other_sites(headers)
        if self._active >= _AT_ONCE_MAX:
            raise BadRequest(HTTPStatus.SERVICE_UNAVAILABLE, "other uploads are under way")
        sink = UploadSink(self._engine, headers.get("content-type", ""), self._done)
        self._active += 1
        return sink

    def _done(self) -> None:
        self._active -= 1


class UploadSink:
    """One upload: to a file of ours, then to the queue."""

    def __init__(self, engine: Engine, content_type: str, done: Callable[[], None]) -> None:
        self._engine, self._done = engine, done
        folder = engine.path / "uploads"
        folder.mkdir(parents=True, exist_ok=True)
        self._directory: Path | None = Path(tempfile.mkdtemp(dir=folder))
        try:
            self._files = MultipartFiles(content_type, self._directory)
        except BadRequest:
            shutil.rmtree(self._directory, ignore_errors=True)
            raise

    def write(self, data: bytes) -> None:
        self._files.write(data)

    async def finish(self) -> Response:
        self._files.finish()
        began = time.monotonic()
        outcome = _Outcome()
        try:
            for path, name in self._files.names.items():
                await self._stream(path, name, outcome)
        except NexusError as error:
            problem = {"error": str(error), **outcome.document(time.monotonic() - began)}
            return _answer(HTTPStatus.UNPROCESSABLE_ENTITY, problem)
        await self._engine.outbox.wait_for(outcome.parcels)
        status = HTTPStatus.ACCEPTED if outcome.spooled else HTTPStatus.OK
        return _answer(status, outcome.document(time.monotonic() - began))

    def abort(self) -> None:
        directory, self._directory = self._directory, None
        if directory is not None:
            self._files.close()
            shutil.rmtree(directory, ignore_errors=True)
            self._done()

    async def _stream(self, path: Path, name: str, outcome: _Outcome) -> None:
        source = CsvSource(str(path))
        try:
            async for block in source.blocks({}):
                piece = _named(block, str(path), name)
                outcome.count(piece)
                parcel = await self._engine.pack([piece])
                outcome.parcels.append(parcel)
                await self._engine.outbox.put(parcel)
        finally:
            await source.close()


class _Outcome:
    """What became of an upload's rows."""

    def __init__(self) -> None:
        self.parcels: list[Parcel] = []
        self.skipped: Counter[str] = Counter()
        self.records = 0

    def count(self, piece: Piece) -> None:
        self.records += piece.table.num_rows
        self.skipped.update(row.reason for row in piece.rejected)

    @property
    def spooled(self) -> int:
        return sum(parcel.readings for parcel in self.parcels if not parcel.settled)

    def document(self, seconds: float) -> dict[str, object]:
        return {
            "records": self.records,
            "skipped": self.skipped.total(),
            "reasons": dict(self.skipped),
            "spooled": self.spooled,
            "seconds": round(seconds, 3),
            "rate": round(self.records / max(seconds, 1e-3), 1),
        }


def _named(block: Block, path: str, name: str) -> Piece:
    """The block, with the client's name for the file in place of ours."""
    rejected = [
        replace(row, where=name + row.where.removeprefix(path), raw=row.raw)
        for row in block.rejected
    ]
    return Piece(block.table, None, rejected)


def _refuse_other_sites(headers: Mapping[str, str]) -> None:
    """A page of another site, open in somebody's browser, must not reach a local port."""
    origin = headers.get("origin")
    if origin and urlsplit(origin).netloc != headers.get("host"):
        raise BadRequest(HTTPStatus.FORBIDDEN, "uploads from pages of other sites are refused")


def _answer(status: HTTPStatus, document: Mapping[str, object]) -> Response:
    return Response(status, JSON, json.dumps(document).encode() + b"\n")
