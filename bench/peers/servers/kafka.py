"""Apache Kafka: one node that is broker and controller, or several, from Maven Central's jars."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from nexus.bench.clients import BenchFailed
from peers.maven import archives, kept, missing_tools
from peers.servers.process import Durability, Server, free_port, launch

VERSION: Final = "4.1.1"
_ARTIFACT: Final = f"org.apache.kafka:kafka_2.13:{VERSION}"
_HEAP: Final = "1g"  # as its own start script gives it
_CLUSTER_ID: Final = "bmV4dXMtYmVuY2gtMTAwMQ"
_FLUSH: Final = {
    Durability.FSYNC: {"log.flush.interval.messages": "1"},
    Durability.INTERVAL: {
        "log.flush.interval.ms": "1000",
        "log.flush.scheduler.interval.ms": "200",
    },
    Durability.NONE: {},
}
_LOGGING: Final = """status = error
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
"""


@dataclass(frozen=True, slots=True)
class Ports:
    """Where a node listens: for clients, and for the other controllers."""

    clients: int = field(default_factory=free_port)
    controller: int = field(default_factory=free_port)


@dataclass(frozen=True, slots=True)
class Kafka:
    """With the heap that its own start script gives it."""

    title: str = "Apache Kafka"
    client: str = "kafka"
    durability: Mapping[Durability, str] = field(
        default_factory=lambda: {
            Durability.FSYNC: "log.flush.interval.messages=1, acks=all",
            Durability.INTERVAL: "log.flush.interval.ms=1000, acks=all",
            Durability.NONE: "its default, acks=all",
        }
    )

    def missing(self) -> str | None:
        """The jars are fetched here, so that no measurement waits for the network."""
        if not kept(_ARTIFACT).exists() and (told := missing_tools()) is not None:
            return told
        try:
            archives(_ARTIFACT)
        except BenchFailed as error:
            return str(error)
        return None

    def version(self) -> str:
        return f"Apache Kafka {VERSION}"

    def start(self, place: Path, durability: Durability) -> Server:
        return start_node(place, durability, 1, [Ports()])


def start_node(
    place: Path, durability: Durability, number: int, nodes: Sequence[Ports], heap: str = _HEAP
) -> Server:
    """Node `number` (from 1) of these; a folder that has data already is used as it is.

    It serves once most of them are there.
    """
    place.mkdir(parents=True, exist_ok=True)
    config = place / "server.properties"
    config.write_text(_properties(place, durability, number, nodes))
    (place / "log4j2.properties").write_text(_LOGGING)
    if not (place / "data" / "meta.properties").exists():
        format_command = ["kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(config)]
        done = subprocess.run(
            _java(place, heap, *format_command),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode != 0:
            raise BenchFailed(f"Kafka's folder could not be made: {done.stderr[-300:]}")
    return launch(_java(place, heap, "kafka.Kafka", str(config)), place, nodes[number - 1].clients)


def _java(place: Path, heap: str, *words: str) -> list[str]:
    flags = [
        f"-Xms{heap}",
        f"-Xmx{heap}",
        "-XX:+UseG1GC",
        f"-Dlog4j2.configurationFile={place}/log4j2.properties",
    ]
    return ["java", *flags, "-cp", f"{archives(_ARTIFACT)}/*", *words]


def _properties(place: Path, durability: Durability, number: int, nodes: Sequence[Ports]) -> str:
    mine = nodes[number - 1]
    voters = ",".join(f"{n}@127.0.0.1:{one.controller}" for n, one in enumerate(nodes, 1))
    copies = str(len(nodes))
    options = {
        "process.roles": "broker,controller",
        "node.id": str(number),
        "controller.quorum.voters": voters,
        "listeners": f"C://127.0.0.1:{mine.clients},Q://127.0.0.1:{mine.controller}",
        "listener.security.protocol.map": "C:PLAINTEXT,Q:PLAINTEXT",
        "inter.broker.listener.name": "C",
        "controller.listener.names": "Q",
        "log.dirs": f"{place}/data",
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": "1",
        "min.insync.replicas": str(min(2, len(nodes))),
        "group.initial.rebalance.delay.ms": "0",
        "log.retention.ms": "-1",  # simulated readings are of days long gone
        **_FLUSH[durability],
    }
    return "".join(f"{key}={value}\n" for key, value in options.items())
