"""What the data directory knows of a topic: `topic.json`, whose presence makes the topic exist."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from uuid import UUID

from nexus.errors import NexusError
from nexus.log.files import write_file
from nexus.wire.errors import InvalidTopic

FILE_NAME: Final = "topic.json"
_VERSION: Final = 1
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class TopicUnreadable(NexusError):
    """Raised when a topic's `topic.json` cannot be understood."""


@dataclass(frozen=True, slots=True)
class TopicMeta:
    """A topic: its name, its identity, and the settings that differ from the defaults."""

    name: str
    topic_id: UUID
    partitions: int
    configs: dict[str, str] = field(default_factory=dict)
    created_ms: int = 0
    # Which partitions are kept here, where other brokers have the rest; None for all of them.
    local: tuple[int, ...] | None = None

    @property
    def numbers(self) -> Iterable[int]:
        """The partitions that are kept here."""
        return range(self.partitions) if self.local is None else self.local

    def save(self, directory: Path) -> None:
        """Write `topic.json` durably: from here on the topic is what this says."""
        record: dict[str, object] = {
            "version": _VERSION,
            "name": self.name,
            "topic_id": str(self.topic_id),
            "partitions": self.partitions,
            "configs": self.configs,
            "created_ms": self.created_ms,
        }
        if self.local is not None:
            record["local"] = list(self.local)
        write_file(directory / FILE_NAME, json.dumps(record, indent=2).encode() + b"\n")

    @classmethod
    def load(cls, directory: Path) -> TopicMeta:
        """Read `topic.json`; raises FileNotFoundError or TopicUnreadable."""
        path = directory / FILE_NAME
        try:
            record = json.loads(path.read_bytes())
            return cls(
                name=str(record["name"]),
                topic_id=UUID(record["topic_id"]),
                partitions=int(record["partitions"]),
                configs={str(key): str(value) for key, value in record["configs"].items()},
                created_ms=int(record["created_ms"]),
                local=None if (local := record.get("local")) is None else tuple(map(int, local)),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise TopicUnreadable(f"{path} cannot be read: {error}") from error


def check_name(name: str) -> str:
    """The name, if it may become a directory's; raises InvalidTopic."""
    if not _NAME.fullmatch(name) or name in {".", ".."}:
        raise InvalidTopic(f"{name[:64]!r} cannot be the name of a topic")
    return name
