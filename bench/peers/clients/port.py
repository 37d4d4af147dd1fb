"""What a load generator is: it sends and receives by its own protocol, and the rest is shared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Lanes:
    """Where messages go: partitions of a topic, or as many streams, queues or topics.

    Consumers share them: number `n` of `consumers` reads the lanes n, n + consumers, ...
    """

    address: str
    name: str
    count: int = 1
    consumers: int = 1
    prompt: bool = False
    """Each message at once: no client may wait for more to come."""

    def of_consumer(self, number: int) -> range:
        return range(number, self.count, self.consumers)

    def names(self) -> list[str]:
        """For systems that have no partitions."""
        return [f"{self.name}-{lane}" for lane in range(self.count)]


class Sender(Protocol):
    """Sends, and knows what is acknowledged."""

    def send(self, values: Sequence[bytes], lane: int) -> None:
        """Hand them over; waits while too many are not acknowledged yet."""

    def rest(self, seconds: float) -> None:
        """Let time pass, while the client goes on with its work."""

    def flush(self) -> None:
        """Return when all are acknowledged."""

    def close(self) -> None: ...


class Receiver(Protocol):
    """Receives from its lanes, from the beginning on."""

    def receive(self, wait_s: float) -> Sequence[bytes]:
        """What has come, acknowledged where the system asks for that; waits for the first."""

    def close(self) -> None: ...


class Client(Protocol):
    """One protocol's way to load a system; it is given `chunk` messages at a time."""

    @property
    def chunk(self) -> int: ...
    @property
    def words(self) -> str: ...
    def prepare(self, lanes: Lanes) -> None: ...
    def remove(self, lanes: Lanes) -> None: ...
    def sender(self, lanes: Lanes) -> Sender: ...
    def receiver(self, lanes: Lanes, number: int) -> Receiver: ...
