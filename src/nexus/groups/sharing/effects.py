"""What the machine asks its runner to do."""

from __future__ import annotations

from typing import NamedTuple


class Keep(NamedTuple):
    """Store this durably in place of what was stored before, then call `kept`."""

    record: Record


class Bury(NamedTuple):
    """Put a message into the dead-letter topic, safely, then call `buried`."""

    offset: int
    attempts: int
    reason: str


class Confirm(NamedTuple):
    """What was told with this token is durable: answer it."""

    token: object


class Record(NamedTuple):
    """What outlives the process: all that is before `start` is finished, and the ranges after it.

    `attempts` are of messages that were delivered and came back.
    """

    start: int
    finished: tuple[tuple[int, int], ...] = ()  # first and last
    attempts: tuple[tuple[int, int], ...] = ()  # offset and how often


Effect = Keep | Bury | Confirm
Effects = list[Effect]
