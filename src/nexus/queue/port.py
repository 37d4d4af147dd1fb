"""The queue port: what the streamer, the pipeline and the live view ask of any queue.

Publishing is at least once and in order within a partition; reading goes by partition and
offset, so that whoever reads again reads the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from nexus.queue.errors import MessageRefused

Headers = tuple[tuple[str, bytes], ...]
# Called once when every message of a batch is settled: None if the queue holds all of them.
OnSettled = Callable[[MessageRefused | None], None]


class Message(NamedTuple):
    """One message to publish. `partition` None leaves the choice to the key (or to chance)."""

    value: bytes
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int = 0  # 0 is the time of sending
    partition: int | None = None
    dead: bool = False  # for the dead-letter topic beside the topic


class Publisher(Protocol):
    """Publishes to one topic and its dead-letter topic."""

    def partitions(self) -> int:
        """How many partitions the topic has; QueueAway when nobody can tell now."""

    def publish(self, messages: Sequence[Message], on_settled: OnSettled) -> None:
        """Take all the messages or, raising QueueFull, none; they are sent until they are held.

        `on_settled` is called from a thread of the publisher's own.
        """

    def flush(self, timeout_s: float) -> int:
        """Wait until everything is settled; how many messages are not."""

    def close(self) -> None:
        """Give up what is not settled; safe to call twice."""


class Bounds(NamedTuple):
    """The first offset that can be read, and the one that comes next."""

    start: int
    end: int


class Received(NamedTuple):
    """One message as it was read."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes
    headers: Headers


class Reader(Protocol):
    """Reads ranges of partitions, the same each time, for the pipeline."""

    def partitions(self) -> Sequence[int]: ...
    def bounds(self) -> dict[int, Bounds]: ...
    def read(self, partition: int, start: int, end: int) -> Iterator[Received]: ...
    def commit(self, offsets: dict[int, int]) -> None: ...


class Tail(Protocol):
    """The newest messages as they arrive, for the live view; may skip when it falls behind."""

    def poll(self, timeout_s: float) -> Sequence[Received]: ...
    def close(self) -> None: ...
