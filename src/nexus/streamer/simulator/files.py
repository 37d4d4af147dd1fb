"""A simulated fleet as a file: the long CSV, plain or gzip, and the truth beside it.

Rows are made in one thread and written in another; a file appears under its name only when it is
whole.
"""

import gzip
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from typing import BinaryIO, Final, cast

from nexus.streamer.simulator.csv_text import CSV_HEADER
from nexus.streamer.simulator.render import Renderer
from nexus.streamer.simulator.simulation import Simulation, block_ticks
from nexus.streamer.simulator.truth import Truth

_CELLS_A_BLOCK: Final = 4_096  # about 80,000 rows and 40 MB of CSV
_BLOCKS_WAITING: Final = 2
_GZIP_LEVEL: Final = 1


@dataclass(frozen=True, slots=True)
class Written:
    """What a file got: rows (the header is none) and bytes before compression."""

    rows: int
    bytes: int


def write_csv(
    simulation: Simulation,
    ticks: int,
    sink: BinaryIO,
    *,
    truth: Truth | None = None,
    progress: Callable[[int, int], None] = lambda ticks, rows: None,
) -> Written:
    """Write the next so many ticks; `progress` hears how many ticks and rows are made."""
    renderer = Renderer(simulation)
    step = block_ticks(len(simulation.fleet.gpus), _CELLS_A_BLOCK)
    rows = size = 0
    with _writing(sink) as write:
        write([memoryview(CSV_HEADER)])
        for first in range(0, ticks, step):
            span = simulation.advance(min(step, ticks - first))
            if truth is not None:
                truth.add(span)
            made = list(renderer.csv(span))
            rows += sum(count for count, _ in made)
            size += sum(len(piece) for _, piece in made)
            write([piece for _, piece in made])
            progress(first + span.ticks, rows)
    return Written(rows, size + len(CSV_HEADER))


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """A file that gets its name when the block ends well; `.gz` compresses."""
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as raw:
            if path.suffix == ".gz":
                # No name and time in the header: the same readings are the same bytes.
                with gzip.GzipFile("", "wb", _GZIP_LEVEL, raw, mtime=0) as packed:
                    yield cast(BinaryIO, packed)
            else:
                yield raw
        part.replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            part.unlink()
        raise


@contextmanager
def _writing(sink: BinaryIO) -> Iterator[Callable[[list[memoryview]], None]]:
    """Write in a thread; what went wrong there comes out of the next write or the end."""
    waiting: Queue[list[memoryview] | None] = Queue(_BLOCKS_WAITING)
    failures: list[OSError] = []

    def run() -> None:
        while (pieces := waiting.get()) is not None:
            if failures:
                continue  # the queue must drain, or the maker waits for ever
            try:
                for piece in pieces:
                    sink.write(piece)
            except OSError as error:
                failures.append(error)

    def put(pieces: list[memoryview]) -> None:
        if failures:
            raise failures[0]
        waiting.put(pieces)

    thread = threading.Thread(target=run, name="simulate-writer")
    thread.start()
    try:
        yield put
    finally:
        waiting.put(None)
        thread.join()
    if failures:
        raise failures[0]
