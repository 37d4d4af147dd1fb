"""Entity tags: an answer is the same while the tables stand at the same versions.

A state also depends on how long ago the last reading was, so answers that have states get a new
tag every few seconds. Answers whose times are relative to now get none.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from hashlib import blake2b
from typing import Final

import orjson

from nexus import __version__

STATES_KEPT_US: Final = 10_000_000


class Lasting(Enum):
    """How long an answer holds."""

    NOT = "no-store"  # it is of this moment
    VERSIONS = "versions"  # until a table changes
    STATES = "states"  # until a table changes, and not for long


NO_STORE: Final = {"Cache-Control": "no-store"}
REVALIDATED: Final = "private, no-cache"


def entity_tag(
    lasting: Lasting, versions: Mapping[str, int], address: str, form: str, now_us: int
) -> str | None:
    """A tag for the answer to an address, or None if it must not be kept."""
    if lasting is Lasting.NOT:
        return None
    turn = now_us // STATES_KEPT_US if lasting is Lasting.STATES else 0
    said = orjson.dumps([__version__, sorted(versions.items()), address, form, turn])
    return f'W/"{blake2b(said, digest_size=12).hexdigest()}"'


def matches(header: str | None, tag: str) -> bool:
    """Whether an If-None-Match header names the tag; weak and strong count alike."""
    if not header:
        return False
    plain = tag.removeprefix("W/")
    given = {part.strip().removeprefix("W/") for part in header.split(",")}
    return plain in given or "*" in given
