"""The files of an archive as planning needs to know them: what form, how large, how dense.

Looking at a file's first bytes is enough. One that is no CSV of readings is kept with what is
wrong with it, and stops nothing unless all are like that.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nexus.telemetry.csv.files import (
    UNKNOWN_FORM,
    UNREADABLE_FILE,
    NoSuchFiles,
    find_files,
    path_of,
    text_size,
)
from nexus.telemetry.csv.forms import Form, UnknownCsvForm
from nexus.telemetry.csv.head import Head, read_head
from nexus.telemetry.csv.lines import RowIndex, last_row_end
from nexus.telemetry.csv.text import is_gzip, open_text

_SAMPLE_BYTES: Final = 16 << 10


@dataclass(frozen=True, slots=True)
class ArchiveFile:
    """One file. Without a form it has nothing to read: it is empty, or `fault` says why not."""

    number: int  # in the sorted list of all
    path: str
    version: str  # another one means that the file was changed
    size: int = 0  # of its text, about
    packed: bool = False
    form: Form | None = None
    first: int = 0  # the byte where rows begin
    reading_bytes: float = 1.0  # that a reading takes, about
    fault: str = ""
    problem: str = ""


def archive_files(location: str) -> list[ArchiveFile]:
    """The files that a path, a folder, a pattern or a `csv://` URL names, in order."""
    paths = find_files(path_of(location))
    if not paths:
        raise NoSuchFiles(f"there is no CSV file at {path_of(location)}")
    files, errors = [], []
    for number, path in enumerate(paths):
        try:
            files.append(_looked_at(number, path.absolute()))
        except (UnknownCsvForm, OSError) as error:
            errors.append(error)
            files.append(_unfit(number, path.absolute(), error))
    if len(errors) == len(paths):
        raise errors[0]
    return files


def _looked_at(number: int, path: Path) -> ArchiveFile:
    with path.open("rb") as file:
        descriptor = file.fileno()
        found, packed = os.fstat(descriptor), is_gzip(descriptor)
        head = read_head(str(path), open_text(descriptor))
        if head is None:
            return ArchiveFile(number, str(path), _version(found))
        sample = open_text(descriptor, head.rows.offset).read(_SAMPLE_BYTES)
        return ArchiveFile(
            number,
            str(path),
            _version(found),
            text_size(path) if packed else found.st_size,
            packed,
            head.form,
            head.rows.offset,
            _reading_bytes(head, sample),
        )


def _unfit(number: int, path: Path, error: Exception) -> ArchiveFile:
    fault = UNREADABLE_FILE if isinstance(error, OSError) else UNKNOWN_FORM
    try:
        version = _version(path.stat())
    except OSError:
        version = ""
    return ArchiveFile(number, str(path), version, fault=fault, problem=str(error))


def _version(found: os.stat_result) -> str:
    return f"{found.st_size}.{found.st_mtime_ns}"


def _reading_bytes(head: Head, sample: bytes) -> float:
    end = last_row_end(sample)
    rows = max(1, len(RowIndex(sample[:end], -1, 1)))
    return max(1.0, (end or len(sample)) / rows / max(1, len(head.form.metrics)))
