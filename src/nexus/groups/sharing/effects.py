"""What the machine asks its runner to do."""

from __future__ import annotations

from typing import NamedTuple


class Keep(NamedTuple):
    """Add this durably to what was stored before, then call `kept`."""

    change: Record


class Bury(NamedTuple):
    """Put a message into the dead-letter topic, safely, then call `buried`."""

    offset: int
    attempts: int
    reason: str


class Confirm(NamedTuple):
    """What was told with this token is durable: answer it."""

    token: object


class Record(NamedTuple):
    """What outlives the process, or a change of it: see `Stored`.

    All that is before `start` is finished, and so are the ranges; `attempts` are of messages that
    were delivered and are not finished.
    """

    start: int
    finished: tuple[tuple[int, int], ...] = ()  # first and last
    attempts: tuple[tuple[int, int], ...] = ()  # offset and how often


Effect = Keep | Bury | Confirm
Effects = list[Effect]
