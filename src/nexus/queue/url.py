"""A queue's address: `kafka://host:port,host:port/topic` or `etcd://host:port/prefix`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from nexus.queue.errors import QueueError

DEFAULT_TOPIC: Final = "gpu-telemetry"
DEFAULT_PORT: Final = 9092
DEAD_LETTERS: Final = ".dlq"
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,245}")
_SERVER: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\[\]:/@\s]+)(?::(\d{1,5}))?")


@dataclass(frozen=True, slots=True)
class KafkaUrl:
    """Brokers to ask first, and a topic."""

    servers: tuple[str, ...]
    topic: str = DEFAULT_TOPIC

    @property
    def bootstrap(self) -> str:
        return ",".join(self.servers)

    @property
    def dead_letter_topic(self) -> str:
        return self.topic + DEAD_LETTERS

    def __str__(self) -> str:
        return f"kafka://{self.bootstrap}/{self.topic}"


def parse_queue_url(text: str) -> KafkaUrl:
    """The queue that an address names; QueueError says what would be right."""
    scheme, separator, rest = text.strip().partition("://")
    if not separator:
        scheme, rest = "kafka", text.strip()
    if scheme == "etcd":
        raise QueueError(
            f"queue {text}: a queue in etcd is not built yet; use kafka://host:port/topic"
        )
    if scheme != "kafka":
        raise QueueError(
            f"queue {text}: unknown kind {scheme}://; expected kafka://host:port/topic"
        )
    hosts, _, topic = rest.partition("/")
    servers = tuple(_server(host.strip(), text) for host in hosts.split(","))
    topic = topic.strip("/") or DEFAULT_TOPIC
    if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
        raise QueueError(
            f'queue {text}: "{topic}" is not a topic name; expected letters, digits, dots,'
            " dashes and underscores"
        )
    return KafkaUrl(servers, topic)


def _server(host: str, url: str) -> str:
    found = _SERVER.fullmatch(host)
    if found is None or int(found[2] or 0) > 65535:
        raise QueueError(f'queue {url}: found "{host}", expected kafka://host:port,host:port/topic')
    return f"{found[1]}:{found[2] or DEFAULT_PORT}"
