"""Files as the log needs them: whole writes, atomic replacement, names that survive a power cut.

A descriptor closes when its last holder lets go, so a reader never loses the file under it.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

_PROBE_STEP_BYTES: Final = 64 << 10
_WARM_STEP_BYTES: Final = 256 << 10
_CANNOT_TELL: Final = (errno.EOPNOTSUPP, errno.EINVAL)


class OpenFile:
    """An open descriptor, closed with the last reference to it."""

    __slots__ = ("__weakref__", "fd", "path")

    def __init__(self, path: Path, flags: int = os.O_RDWR, mode: int = 0o644) -> None:
        self.fd = -1
        self.path = path
        self.fd = os.open(path, flags | os.O_CLOEXEC, mode)

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class FileSlice:
    """Bytes of a log that were not read yet; its file stays open as long as it lives.

    `next_offset` is the offset that follows the last batch in it. `is_checked` says whether its
    checksums were looked at: when it was written a moment ago, or since it was read.
    """

    __slots__ = ("file", "is_checked", "next_offset", "position", "size")

    def __init__(self, file: OpenFile, position: int, size: int, next_offset: int = -1) -> None:
        self.file = file
        self.position = position
        self.size = size
        self.next_offset = next_offset
        self.is_checked = False

    @property
    def fd(self) -> int:
        """The descriptor to read or send from."""
        return self.file.fd

    def read(self) -> bytes:
        """All of it; may wait for the disk."""
        return read_at(self.file.fd, self.size, self.position)

    def read_resident(self) -> bytearray | None:
        """All of it, if the page cache holds it; None where reading would wait for the disk."""
        data = bytearray(self.size)
        try:
            count = os.preadv(self.file.fd, [data], self.position, os.RWF_NOWAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno not in _CANNOT_TELL:
                raise
            return bytearray(self.read())
        return data if count == self.size else None

    def resident(self) -> bool:
        """Whether the page cache holds it, so that reading does not wait for the disk."""
        end = self.position + self.size
        if end <= self.position:
            return True
        probe = [bytearray(1)]
        try:
            for at in range(self.position, end, _PROBE_STEP_BYTES):
                os.preadv(self.file.fd, probe, at, os.RWF_NOWAIT)
            os.preadv(self.file.fd, probe, end - 1, os.RWF_NOWAIT)
        except BlockingIOError:
            return False
        except OSError as error:
            # A file system that cannot tell: assume the common case.
            return error.errno in _CANNOT_TELL
        return True

    def warm(self) -> None:
        """Bring it into the page cache; waits for the disk."""
        scratch = [bytearray(min(self.size, _WARM_STEP_BYTES))]
        for at in range(self.position, self.position + self.size, _WARM_STEP_BYTES):
            os.preadv(self.file.fd, scratch, at)

    def __repr__(self) -> str:
        return f"FileSlice({str(self.file.path)!r}, {self.position}, {self.size})"


def read_at(fd: int, size: int, position: int) -> bytes:
    """Bytes at a position; fewer only where the file ends."""
    data = os.pread(fd, size, position)
    if len(data) == size or not data:
        return data
    parts = [data]
    missing = size - len(data)
    while missing:
        part = os.pread(fd, missing, position + size - missing)
        if not part:
            break
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


def write_at(fd: int, data: memoryview, position: int) -> None:
    """Write all of it; what the kernel left out shows its error on the next try."""
    size = len(data)
    written = os.pwrite(fd, data, position)
    while written < size:
        written += os.pwrite(fd, data[written:], position + written)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable: a new or renamed file can vanish without it."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_file(path: Path) -> None:
    """Make a file's content durable, whoever wrote it."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.fdatasync(fd)
    finally:
        os.close(fd)


def write_file(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Replace a file: afterwards it holds the old content or the new, never a mixture.

    Not `durable` leaves the syncing to the kernel; a reader must then check what it reads.
    """
    temporary = path.with_name(f"{path.name}.tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        with memoryview(data) as view:
            write_at(fd, view, 0)
        if durable:
            os.fsync(fd)
    finally:
        os.close(fd)
    temporary.rename(path)
    if durable:
        sync_directory(path.parent)


def remove_file(path: Path) -> None:
    """Remove a file that may be gone already."""
    path.unlink(missing_ok=True)
