"""Checks the files of a data directory. Changes nothing; a broker may write them meanwhile."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nexus.cli.topics.damage import Advance, Damage, Report
from nexus.errors import NexusError
from nexus.log import Corruption, TopicMeta
from nexus.log.inspect import data_bytes, verify_partition
from nexus.settings.errors import SettingsError

_PARTITION: Final = re.compile(r"partition-(\d+)")


class DataUnreadable(NexusError):
    """Raised when the files to check cannot be read at all."""


@dataclass(frozen=True, slots=True)
class PartitionFiles:
    """One partition's directory, and how much there is to read."""

    topic: str
    partition: int
    directory: Path
    compacted: bool
    size_bytes: int


def find_partitions(data_dir: Path, topics: Sequence[str] | None) -> list[PartitionFiles]:
    """Every partition of the topics asked for, or of all."""
    root = data_dir / "topics"
    if not root.is_dir():
        raise SettingsError(f"{data_dir}: is not a broker's data directory (it has no topics/)")
    known = sorted(entry.name for entry in root.iterdir() if entry.is_dir())
    unknown = [topic for topic in topics or [] if topic not in known]
    if unknown:
        raise SettingsError(f"{data_dir}: has no topic {unknown[0]}")
    return [p for topic in topics or known for p in _partitions(root / topic)]


def verify_files(partitions: Sequence[PartitionFiles], advance: Advance) -> Report:
    """Every batch against its checksum and its neighbours."""
    report = Report("bytes")
    for files in partitions:
        report.partitions += 1
        report.checked += files.size_bytes
        report.damage += [_damage(files, found) for found in _corruptions(files)]
        advance(files.size_bytes)
    return report


def _partitions(topic: Path) -> list[PartitionFiles]:
    found = []
    for directory in topic.iterdir():
        match = _PARTITION.fullmatch(directory.name)
        if match:
            number, compacted = int(match[1]), _is_compacted(topic)
            size = data_bytes(directory)
            found.append(PartitionFiles(topic.name, number, directory, compacted, size))
    return sorted(found, key=lambda files: files.partition)


def _corruptions(files: PartitionFiles) -> list[Corruption]:
    try:
        return verify_partition(files.directory, compacted=files.compacted)
    except OSError as error:
        raise DataUnreadable(f"{error.filename or files.directory}: {error.strerror}") from None


def _is_compacted(topic: Path) -> bool:
    try:
        return "compact" in TopicMeta.load(topic).configs.get("cleanup.policy", "")
    except FileNotFoundError:
        return False


def _damage(files: PartitionFiles, found: Corruption) -> Damage:
    return Damage(
        files.topic, files.partition, found.offset, found.what, str(found.file), found.position
    )
