"""What can go wrong between us and a queue."""

from __future__ import annotations

from nexus.errors import NexusError


class QueueError(NexusError):
    """Raised when a queue cannot be used as asked."""

    exit_code = 2


class QueueAway(QueueError):
    """Raised when the queue does not answer now; it may later."""

    exit_code = 1


class QueueFull(QueueError):
    """Raised when nothing more is taken now: too much is on its way, or the queue has no room."""

    exit_code = 1


class MessageRefused(QueueError):
    """Raised when the queue refuses a message for good; sending it again would not help."""

    exit_code = 1


class TopicMissing(QueueAway):
    """Raised when the topic does not exist; somebody may make it."""


class OffsetsGone(QueueError):
    """Raised when messages were removed before they were read, by retention or by hand."""

    exit_code = 1

    def __init__(self, partition: int, start: int, first: int) -> None:
        self.partition, self.start, self.first = partition, start, first
        super().__init__(
            f"partition {partition}: offsets {start} to {first - 1} were removed"
            f" (by retention, most likely) before they were read; the first there is {first}"
        )

    def __reduce__(self) -> tuple[type[OffsetsGone], tuple[int, int, int]]:
        return type(self), (self.partition, self.start, self.first)


class OffsetsMissing(QueueError):
    """Raised when a partition ends before offsets that it had: it lost them, or was made anew."""

    exit_code = 1

    def __init__(self, partition: int, wanted: int, end: int) -> None:
        self.partition, self.wanted, self.end = partition, wanted, end
        super().__init__(
            f"partition {partition}: it ends at offset {end}, but had offset {wanted} before;"
            " was the topic deleted and made again?"
        )

    def __reduce__(self) -> tuple[type[OffsetsMissing], tuple[int, int, int]]:
        return type(self), (self.partition, self.wanted, self.end)
