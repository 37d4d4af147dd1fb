"""The queue port: what the streamer, the pipeline and the live view ask of any queue.

Publishing is at least once and in order within a partition; reading goes by partition and
offset, so that whoever reads again reads the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, overload

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


class Batch(Sequence[Received]):
    """Messages of one partition in the order of their offsets.

    It is a sequence of messages; where there are many, its columns are much cheaper.
    """

    def __init__(self, messages: Sequence[Received]) -> None:
        self._messages = messages

    def __len__(self) -> int:
        return len(self._messages)

    @overload
    def __getitem__(self, index: int) -> Received: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Received]: ...
    def __getitem__(self, index: int | slice) -> Received | Sequence[Received]:
        return self._messages[index]

    def offsets(self) -> list[int]:
        return [message.offset for message in self._messages]

    def values(self) -> list[bytes]:
        return [message.value for message in self._messages]

    def header(self, name: str) -> list[bytes | None]:
        """What each message has under this name; None where it has nothing."""
        return [dict(message.headers).get(name) for message in self._messages]


class Reader(Protocol):
    """Reads ranges of partitions, the same each time, for the pipeline."""

    def partitions(self) -> Sequence[int]:
        """The partitions there are now; TopicMissing or QueueAway when nobody can tell."""

    def bounds(self, partitions: Sequence[int] | None = None) -> dict[int, Bounds]:
        """What can be read now, of all partitions or of some."""

    def offsets_at(self, timestamp_ms: int) -> dict[int, int]:
        """Of each partition the first offset at that time or later; its end where none is."""

    def read(self, partition: int, start: int, end: int) -> Iterator[Batch]:
        """Exactly the messages from `start` to before `end`, less those that are no more.

        OffsetsGone when the first ones were removed, OffsetsMissing when the partition ends
        before; QueueAway when nothing comes for the reader's time-out.
        """

    def sample(self, partition: int, offset: int) -> Received | None:
        """The first message at or after an offset, at little cost; None when none is there."""

    def samples(self, offsets: Mapping[int, int]) -> dict[int, Received]:
        """The same of many partitions in one go; those without a message are left out."""

    def commit(self, group: str, offsets: Mapping[int, int]) -> None:
        """Tell the queue how far a group has come, without joining it."""

    def close(self) -> None:
        """Give up the connections; safe to call twice."""


class Tail(Protocol):
    """The newest messages as they arrive, for the live view; skips when it falls behind."""

    @property
    def skipped(self) -> int:
        """How many messages (about) were skipped so far."""

    @property
    def problem(self) -> str:
        """Why nothing comes now; empty while all is well."""

    def positions(self) -> Mapping[int, int]:
        """Of each partition that is followed, the offset that comes next; empty until known."""

    def poll(self, timeout_s: float) -> Sequence[Received]:
        """What has come, of all partitions; waits for the first message only. Never raises."""

    def close(self) -> None:
        """Give up the connections; safe to call twice."""
