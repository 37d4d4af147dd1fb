"""A queue's address: `kafka://host:port,host:port/topic` or `etcd://host:port/prefix`.

Who only publishes may also name a topic behind a proxy: `http://host:port/topic`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from nexus.queue.errors import QueueError
from nexus.queue.etcd import DEFAULT_PREFIX
from nexus.settings.units import parse_duration_ms, parse_size

if TYPE_CHECKING:  # who has a Kafka queue need not wait for etcd's client to load
    from nexus.etcd.address import EtcdAddress
    from nexus.queue.etcd.layout import Layout

DEFAULT_TOPIC: Final = "gpu-telemetry"
DEFAULT_PORT: Final = 9092
DEAD_LETTERS: Final = ".dlq"
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,245}")
Form = Literal["auto", "json", "packed"]  # auto packs what is not JSON
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

    @property
    def place(self) -> str:
        """Which queue it is, whatever else the address says."""
        return str(self)

    def __str__(self) -> str:
        return f"kafka://{self.bootstrap}/{self.topic}"


@dataclass(frozen=True, slots=True)
class EtcdUrl:
    """A queue in etcd: where, under which prefix, and how its messages are put there."""

    address: EtcdAddress  # without the options below
    prefix: str = DEFAULT_PREFIX
    partitions: int | None = None  # of a queue that is made now; one that exists keeps its own
    form: Form = "auto"
    ttl_s: int | None = None
    quota_bytes: int | None = None  # where etcd does not tell

    @property
    def topic(self) -> str:
        """What the queue is called where a topic's name is shown."""
        return self.prefix

    @property
    def dead_letter_topic(self) -> str:
        return self.prefix + DEAD_LETTERS

    @property
    def place(self) -> str:
        """Which queue it is, whatever else the address says."""
        return f"etcd://{self.address.authority}{self.prefix}"

    @property
    def layout(self) -> Layout:
        from nexus.queue.etcd.layout import Layout  # noqa: PLC0415 - only etcd's needs it

        return Layout(self.prefix)

    def __str__(self) -> str:
        said = [
            ("partitions", self.partitions),
            ("form", None if self.form == "auto" else self.form),
            ("ttl", self.ttl_s),
            ("quota", self.quota_bytes),
        ]
        options = tuple((name, str(value)) for name, value in said if value is not None)
        return str(replace(self.address, path=self.prefix, options=options))


@dataclass(frozen=True, slots=True)
class HttpUrl:
    """A topic behind a proxy, which can be published to."""

    base: str
    topic: str = DEFAULT_TOPIC

    @property
    def dead_letter_topic(self) -> str:
        return self.topic + DEAD_LETTERS

    @property
    def place(self) -> str:
        """Which queue it is, whatever else the address says."""
        return str(self)

    def __str__(self) -> str:
        return f"{self.base}/{self.topic}"


QueueUrl = KafkaUrl | EtcdUrl
PublishingUrl = QueueUrl | HttpUrl


def parse_publishing_url(text: str) -> PublishingUrl:
    """A queue that can be published to: as `parse_queue_url`, or `http://host:port/topic`."""
    scheme, separator, rest = text.strip().partition("://")
    if not separator or scheme not in ("http", "https"):
        return parse_queue_url(text)
    host, _, topic = rest.partition("/")
    if not host or "?" in rest or "#" in rest or "@" in host:
        raise QueueError(f'queue {text}: found "{rest}", expected http://host:port/topic')
    return HttpUrl(f"{scheme}://{host}", _topic(topic, text))


def parse_queue_url(text: str) -> QueueUrl:
    """The queue that an address names; QueueError says what would be right."""
    scheme, separator, rest = text.strip().partition("://")
    if not separator:
        scheme, rest = "kafka", text.strip()
    if scheme == "etcd":
        return _etcd(text)
    if scheme != "kafka":
        raise QueueError(
            f"queue {text}: unknown kind {scheme}://; expected kafka://host:port/topic or"
            " etcd://host:port/prefix"
        )
    return _kafka(rest, text)


def _kafka(rest: str, text: str) -> KafkaUrl:
    hosts, _, topic = rest.partition("/")
    servers = tuple(_server(host.strip(), text) for host in hosts.split(","))
    return KafkaUrl(servers, _topic(topic, text))


def _topic(topic: str, text: str) -> str:
    topic = topic.strip("/") or DEFAULT_TOPIC
    if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
        raise QueueError(
            f'queue {text}: "{topic}" is not a topic name; expected letters, digits, dots,'
            " dashes and underscores"
        )
    return topic


def _etcd(text: str) -> EtcdUrl:
    from nexus.etcd.address import parse_etcd_address  # noqa: PLC0415 - only etcd's needs it
    from nexus.etcd.errors import EtcdError  # noqa: PLC0415

    try:
        address = parse_etcd_address(text)
    except EtcdError as error:
        raise QueueError(f"queue {error}") from None
    said = dict(address.options)
    unknown = sorted(said.keys() - _ETCD_OPTIONS.keys())
    if unknown:
        raise QueueError(
            f"queue {text}: unknown option {unknown[0]}; known are {', '.join(_ETCD_OPTIONS)}"
        )
    prefix = address.path or os.environ.get("MESSAGE_QUEUE_PREFIX", "").rstrip("/")
    values: dict[str, Any] = {}
    for name, word in said.items():
        field, read, expected = _ETCD_OPTIONS[name]
        try:
            values[field] = read(word)
        except ValueError:
            raise QueueError(
                f'queue {text}: option {name}: found "{word}", expected {expected}'
            ) from None
    return EtcdUrl(replace(address, path="", options=()), prefix or DEFAULT_PREFIX, **values)


def _partitions(word: str) -> int:
    if not word.isascii() or not word.isdigit() or not 0 < int(word) <= 10_000:
        raise ValueError
    return int(word)


def _form(word: str) -> str:
    if word not in ("auto", "json", "packed"):
        raise ValueError
    return word


def _ttl_s(word: str) -> int:
    seconds = int(word) if word.isascii() and word.isdigit() else parse_duration_ms(word) // 1000
    if seconds < 1:
        raise ValueError
    return seconds


_ETCD_OPTIONS: Final[Mapping[str, tuple[str, Callable[[str], Any], str]]] = {
    "partitions": ("partitions", _partitions, "a number from 1 to 10000"),
    "form": ("form", _form, "auto, json or packed"),
    "ttl": ("ttl_s", _ttl_s, "a time such as 24h"),
    "quota": ("quota_bytes", parse_size, "a size such as 2GB"),
}


def _server(host: str, url: str) -> str:
    found = _SERVER.fullmatch(host)
    if found is None or int(found[2] or 0) > 65535:
        raise QueueError(f'queue {url}: found "{host}", expected kafka://host:port,host:port/topic')
    return f"{found[1]}:{found[2] or DEFAULT_PORT}"
