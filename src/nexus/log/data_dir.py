"""The data directory itself: who holds it, which format it has, and the small files at its top."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from nexus.errors import NexusError
from nexus.log.files import OpenFile, remove_file, sync_directory, write_file

FORMAT_VERSION: Final = 1
LOCK_FILE: Final = ".lock"
META_FILE: Final = "meta.json"
CLEAN_FILE: Final = "clean-stop"
POINTS_FILE: Final = "recovery-points"
PRODUCER_IDS_FILE: Final = "producer-ids"


class DataDirInUse(NexusError):
    """Raised when another process holds the data directory."""


class DataDirTooNew(NexusError):
    """Raised when a newer version of the program wrote the data directory."""


class DataDirUnreadable(NexusError):
    """Raised when a file at the top of the data directory cannot be understood."""


@dataclass(frozen=True, slots=True)
class StoreMeta:
    """What `meta.json` holds."""

    format_version: int
    cluster_id: str
    node_id: int | None


def lock(data_dir: Path) -> OpenFile:
    """Take the directory for this process, until the file is let go."""
    held = OpenFile(data_dir / LOCK_FILE, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(held.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise DataDirInUse(f"{data_dir} is in use by another process") from None
    return held


def read_or_make_meta(data_dir: Path, node_id: int | None) -> StoreMeta:
    """The directory's identity, made on first use."""
    record = read_json(data_dir / META_FILE)
    if record is None:
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode("ascii")
        meta = StoreMeta(FORMAT_VERSION, cluster_id, node_id)
        write_points(data_dir, {})
        write_json(data_dir / META_FILE, asdict(meta))
        return meta
    version = record.get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise DataDirTooNew(f"{data_dir} has format {version}, this program knows {FORMAT_VERSION}")
    return StoreMeta(version, str(record.get("cluster_id")), record.get("node_id"))


def take_clean_mark(data_dir: Path) -> bool:
    """Whether the last stop was clean; the mark is gone afterwards, for this run may end badly."""
    path = data_dir / CLEAN_FILE
    if not path.exists():
        return False
    remove_file(path)
    sync_directory(data_dir)
    return True


def read_points(data_dir: Path) -> dict[str, int] | None:
    """The recovery points by `<topic id>/<partition>`; None where the file is gone or damaged."""
    try:
        record = read_json(data_dir / POINTS_FILE) or {}
        return {str(name): int(point) for name, point in record["points"].items()}
    except (DataDirUnreadable, ValueError, TypeError, AttributeError, KeyError):
        return None


def write_points(data_dir: Path, points: dict[str, int]) -> None:
    """Keep the recovery points, durably."""
    write_json(data_dir / POINTS_FILE, {"version": 1, "points": points})


def read_json(path: Path) -> dict[str, Any] | None:
    """A small file; None where there is none."""
    try:
        record = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise DataDirUnreadable(f"{path} cannot be read: {error}") from error
    if not isinstance(record, dict):
        raise DataDirUnreadable(f"{path} cannot be read: not an object")
    return record


def write_json(path: Path, record: dict[str, Any]) -> None:
    """Replace a small file, durably."""
    write_file(path, json.dumps(record, indent=2).encode() + b"\n")
