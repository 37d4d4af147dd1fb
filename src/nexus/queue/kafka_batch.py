"""Messages as the Kafka client hands them out, seen as ours; what nobody asks for costs nothing.

The calls go from C to C: a Python function for each message would cost as much as to fetch it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from operator import itemgetter
from typing import Any, Final, TypeVar, overload

from confluent_kafka import Message

from nexus.queue.port import Batch, Headers, Received

T = TypeVar("T")
_SECOND: Final = itemgetter(1)
_RECEIVED: Final = partial(tuple.__new__, Received)


class KafkaBatch(Batch):
    """The client's messages of one partition, none of which is an error."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._client = messages

    def __len__(self) -> int:
        return len(self._client)

    @overload
    def __getitem__(self, index: int) -> Received: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Received]: ...
    def __getitem__(self, index: int | slice) -> Received | Sequence[Received]:
        return self._received[index]

    def __iter__(self) -> Iterator[Received]:
        return iter(self._received)

    def offsets(self) -> list[int]:
        offsets: Any = map(Message.offset, self._client)
        return list(offsets)

    def values(self) -> list[bytes]:
        return _values(self._client)

    def header(self, name: str) -> list[bytes | None]:
        return _by_headers(self._client, lambda headers: dict(headers).get(name))

    @cached_property
    def _received(self) -> list[Received]:
        return received(self._client)


def received(messages: Sequence[Message]) -> list[Received]:
    """Messages that are no errors, with everything they have."""
    columns = zip(
        map(Message.partition, messages),
        map(Message.offset, messages),
        map(_SECOND, map(Message.timestamp, messages)),
        map(Message.key, messages),
        _values(messages),
        _by_headers(messages, _as_ours),
        strict=True,
    )
    return list(map(_RECEIVED, columns))


def _values(messages: Sequence[Message]) -> list[bytes]:
    values: list[Any] = list(map(Message.value, messages))
    return [value or b"" for value in values] if None in values else values


def _by_headers(messages: Sequence[Message], look: Callable[[Any], T]) -> list[T]:
    """What a look at the headers of each message finds.

    Most have the headers of the message before: to compare them is cheaper than to look again.
    """
    found: list[T] = []
    add = found.append
    last: Any = None
    seen = look(())
    for headers in map(Message.headers, messages):
        if headers != last:
            last, seen = headers, look(headers or ())
        add(seen)
    return found


def _as_ours(headers: Iterable[tuple[str, bytes | None]]) -> Headers:
    return tuple([(name, value or b"") for name, value in headers])
