"""The dead letters of a Kafka queue, read from its `.dlq` topic without joining a group."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from nexus.cli.kafka import Bounds, Cluster, KafkaProblem, connect, explain
from nexus.cli.output import Failures
from nexus.queue.url import KafkaUrl, parse_queue_url
from nexus.settings.errors import SettingsError

Queue = Annotated[
    str | None,
    typer.Option(
        "--queue",
        metavar="URL",
        help="The queue: kafka://host:port/topic (or MSG_QUEUE_URL)."
        " [default: kafka://127.0.0.1:9092/gpu-telemetry]",
    ),
]
Letter = Annotated[
    str, typer.Argument(metavar="PARTITION:OFFSET", help="As `dlq list` shows it, such as 0:17.")
]
_BATCH: Final = 500
_POLL_SECONDS: Final = 1.0
_QUIET_POLLS_MAX: Final = 15
_PREFIX: Final = "dlq-"


@dataclass(frozen=True)
class DeadQueue:
    """A queue's dead letters, and where they came from."""

    cluster: Cluster
    url: KafkaUrl

    @property
    def topic(self) -> str:
        return self.url.dead_letter_topic

    def bounds(self, failures: Failures) -> dict[int, Bounds]:
        """Where the letters of each partition begin and end."""
        partitions = self.cluster.partitions().get(self.topic, [])
        asked = [TopicPartition(self.topic, number) for number in partitions]
        found = self.cluster.bounds(asked, failures)
        return {number: bounds for (_, number), bounds in sorted(found.items())}

    def letters(self, bounds: dict[int, Bounds]) -> Iterator[Message]:
        """Every letter between the bounds, partition by partition."""
        reader = self.cluster.reader(**{"enable.partition.eof": True})
        try:
            for number, (start, end) in bounds.items():
                if start < end:
                    reader.assign([TopicPartition(self.topic, number, start)])
                    yield from _read(reader, end)
        finally:
            reader.close()


def _read(reader: Consumer, end: int) -> Iterator[Message]:
    quiet = 0
    while quiet < _QUIET_POLLS_MAX:
        messages = reader.consume(_BATCH, _POLL_SECONDS)
        quiet = 0 if messages else quiet + 1
        for message in messages:
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    return
                raise KafkaProblem(f"dead letters cannot be read: {explain(error)}")
            if (message.offset() or 0) >= end:
                return
            yield message
            if (message.offset() or 0) + 1 >= end:
                return
    raise KafkaProblem("the dead letters cannot be read: the broker sends nothing")


def dead_queue(flag: str | None) -> DeadQueue:
    """The dead letters of the queue that --queue or the environment names."""
    text = flag or os.environ.get("MSG_QUEUE_URL") or "kafka://127.0.0.1:9092"
    url = parse_queue_url(text)
    if not isinstance(url, KafkaUrl):
        raise SettingsError(
            f"queue {text}: these commands are for Kafka queues (kafka://host:port/topic); for"
            " dead letters in etcd see nexus queue peek --dead and nexus queue drain --dead"
        )
    return DeadQueue(connect(url.bootstrap), url)


def told(message: Message) -> dict[str, str]:
    """What headers tell of a letter: reason, topic, partition, offset, attempts, group."""
    return {
        name.removeprefix(_PREFIX): (value or b"").decode(errors="backslashreplace")
        for name, value in _headers(message)
        if name.startswith(_PREFIX)
    }


def own_headers(message: Message) -> list[tuple[str, Any]]:
    """The headers that the message had before it was a dead letter."""
    return [(name, value) for name, value in _headers(message) if not name.startswith(_PREFIX)]


def place_of(text: str) -> tuple[int, int]:
    """A letter's partition and offset."""
    partition, _, offset = text.partition(":")
    if not (partition.isdecimal() and offset.isdecimal()):
        raise SettingsError(f'found "{text}", expected PARTITION:OFFSET such as 0:17')
    return int(partition), int(offset)


def chosen(reason: str | None) -> Callable[[Message], bool]:
    """Whether a letter's reason has a text in it; all of them without one."""
    return lambda message: reason is None or reason in told(message).get("reason", "")


def _headers(message: Message) -> list[tuple[str, Any]]:
    headers: Any = message.headers() or []  # a list of pairs where it comes from a broker
    return list(headers)
