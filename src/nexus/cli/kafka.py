"""The operator's side of a Kafka cluster, ours or any other, through confluent-kafka.

Every wait is bounded; a broker that cannot be reached is reported at once and with what to do.
"""

import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager
from typing import Annotated, Any, Final, NamedTuple, TypeVar

import typer
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from nexus.cli.output import Failures
from nexus.errors import NexusError
from nexus.settings.client import bootstrap_servers
from nexus.settings.kinds import split_host_port

REQUEST_TIMEOUT_S: Final = 5.0
_CONNECT_TIMEOUT_S: Final = 4.0
# librdkafka would write its own lines to standard error; ours say the same in one.
_QUIET: Final[Mapping[str, Any]] = {"log_level": 0, "log.connection.close": False}

Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        metavar="HOST:PORT,…",
        help="The brokers to ask (or NEXUS_BOOTSTRAP, or MSG_QUEUE_URL=kafka://…)."
        " [default: 127.0.0.1:9092]",
    ),
]
T = TypeVar("T")
K = TypeVar("K")


class KafkaProblem(NexusError):
    """Raised when a broker cannot be reached, does not answer, or refuses a request."""


class Bounds(NamedTuple):
    """The first offset that can be read and the one that comes next."""

    start: int
    end: int


class Cluster:
    """A cluster as the commands see it: administration, offsets and readers."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap, **_QUIET})

    def partitions(self) -> dict[str, list[int]]:
        """Every topic with its partitions."""
        with problems_of(f"brokers at {self.bootstrap}"):
            metadata = self.admin.list_topics(timeout=REQUEST_TIMEOUT_S)
        return {name: sorted(topic.partitions) for name, topic in sorted(metadata.topics.items())}

    def partitions_of(self, topic: str) -> list[int]:
        """One topic's partitions; asking never creates it."""
        known = self.partitions()
        if not known.get(topic):
            raise KafkaProblem(f"topic {topic} does not exist (see nexus topics list)")
        return known[topic]

    def describe(self, topics: Sequence[str], failures: Failures) -> dict[str, Any]:
        """Descriptions with topic ids, leaders and replicas, of those that exist."""
        if not topics:
            return {}
        futures = self.admin.describe_topics(
            TopicCollection(list(topics)), request_timeout=REQUEST_TIMEOUT_S
        )
        return collect(futures, failures, lambda name: f"topic {name}")

    def bounds(
        self, partitions: Iterable[TopicPartition], failures: Failures
    ) -> dict[tuple[str, int], Bounds]:
        """First and next offset of each partition that answers."""
        asked = list(partitions)
        starts = self.offsets({p: OffsetSpec.earliest() for p in asked}, failures)
        ends = self.offsets({p: OffsetSpec.latest() for p in asked if _id(p) in starts}, failures)
        return {key: Bounds(starts[key], end) for key, end in ends.items()}

    def offsets(
        self, asked: Mapping[TopicPartition, OffsetSpec], failures: Failures
    ) -> dict[tuple[str, int], int]:
        """One offset for each partition; -1 where a time has none."""
        if not asked:
            return {}
        futures = self.admin.list_offsets(dict(asked), request_timeout=REQUEST_TIMEOUT_S)
        found = collect(futures, failures, lambda p: f"topic {p.topic} partition {p.partition}")
        return {_id(partition): int(info.offset) for partition, info in found.items()}

    def reader(self, **options: Any) -> Consumer:
        """A consumer that joins no group and commits nothing; the caller assigns partitions."""
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "nexus-reader",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                **_QUIET,
                **options,
            }
        )


def connect(bootstrap: str | None) -> Cluster:
    """The cluster that --bootstrap or the environment names, once one of its brokers accepts."""
    servers = bootstrap_servers(bootstrap)
    reasons = [_refusal(*split_host_port(server)) for server in servers.split(",")]
    if None not in reasons:
        raise KafkaProblem(
            f"no broker at {servers} ({reasons[0]}); start one with `nexus broker`,"
            " or name another with --bootstrap HOST:PORT"
        )
    return Cluster(servers)


def collect(
    futures: Mapping[K, Future[Any]], failures: Failures, name: Callable[[K], str]
) -> dict[K, Any]:
    """The results of those that succeeded; each failure is a line."""
    results: dict[K, Any] = {}
    for key, future in futures.items():
        try:
            results[key] = result_of(future, name(key))
        except KafkaProblem as error:
            failures.add(str(error))
    return results


def result_of(future: Future[T], what: str) -> T:
    with problems_of(what):
        return future.result(timeout=REQUEST_TIMEOUT_S * 2)


@contextmanager
def problems_of(what: str) -> Iterator[None]:
    """The client's errors as ours: what was asked, and why it failed."""
    try:
        yield
    except KafkaException as error:
        raise KafkaProblem(f"{what}: {explain(error.args[0])}") from None
    except FutureTimeoutError:
        raise KafkaProblem(f"{what}: no answer within {REQUEST_TIMEOUT_S * 2:g} s") from None
    except (ValueError, TypeError) as error:
        raise KafkaProblem(f"{what}: {error}") from None


def explain(error: KafkaError) -> str:
    """An error's own words, on one line and without the class names around them."""
    if error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT):
        return f"no answer within {REQUEST_TIMEOUT_S:g} s; is the broker up?"
    text = " ".join((error.str() or error.name()).split())
    return text.removeprefix("Broker: ").removeprefix("Local: ")


def explain_any(error: Any) -> str:
    """The same for an error or the exception around it."""
    return explain(error.args[0] if isinstance(error, KafkaException) else error)


def _id(partition: TopicPartition) -> tuple[str, int]:
    return partition.topic, partition.partition


def _refusal(host: str, port: int) -> str | None:
    """Why nothing listens there, or None: librdkafka would only retry until its time is up."""
    try:
        socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT_S).close()
    except TimeoutError:
        return "connecting took too long"
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return None
