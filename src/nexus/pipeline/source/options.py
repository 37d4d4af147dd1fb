"""What `spark.readStream.format("nexus")` can be told, as text, and what it means.

| option | default | meaning |
|---|---|---|
| queue | (must be given) | `kafka://host:port,host:port/topic` or `etcd://host:port/prefix` |
| start | earliest | earliest, latest, a time (RFC 3339 or epoch ms), or offsets `{"0": 12}` |
| start_file | none | where the resolved start is kept: written once, read ever after |
| end | latest | of a batch read, in the forms of `start` |
| partitions | all | such as `0-5,7` |
| max_readings, max_bytes, max_messages | 1500000, 256MB, 1000000 | what a batch holds at most |
| tasks | twice the cores here | how many tasks read a batch, if it is worth that many |
| on_gone | fail | when messages were removed before they were read: fail, or skip them |
| form | readings | readings (canonical, in columns), or narrow (the collector's own) |
| poll_timeout | 30s | how long the queue may be silent |
| wait | 0s | etcd: how long a batch that would be empty waits for the doorbell |
| acks | false | etcd, narrow: a row after those of each chunk of messages that names their keys |
| client.* | none | kafka: more settings of librdkafka |
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, cast

from nexus.pipeline.errors import PipelineError
from nexus.pipeline.source.planning import Limits
from nexus.queue.url import EtcdUrl, QueueUrl, parse_queue_url
from nexus.settings.units import parse_duration_ms, parse_size

OnGone = Literal["fail", "skip"]
Form = Literal["readings", "narrow"]

_CLIENT: Final = "client."
_OFFSETS_MAX: Final = (1 << 63) - 1
_PARTITIONS_MAX: Final = 100_000
_SPAN: Final = re.compile(r"\s*(\d{1,6})\s*(?:-\s*(\d{1,6})\s*)?", re.ASCII)
_WHOLE: Final = re.compile(r"\d{1,18}", re.ASCII)
_SECONDS: Final = re.compile(r"\d{1,9}(\.\d+)?", re.ASCII)


class BadOption(PipelineError):
    """Raised when an option of the data source says something that cannot be."""


@dataclass(frozen=True, slots=True)
class At:
    """Where to start or end: a moment, offsets, or one of the two ends of what there is."""

    edge: Literal["earliest", "latest"] | None = None
    moment_ms: int | None = None
    offsets: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Partitions:
    """Some of a topic's partitions, or all."""

    spans: tuple[tuple[int, int], ...] = ()

    def __contains__(self, partition: int) -> bool:
        return not self.spans or any(first <= partition <= last for first, last in self.spans)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options, parsed; small, and the same for every task of a query."""

    queue: str
    topic: str
    start: At
    start_file: Path | None
    end: At
    partitions: Partitions
    limits: Limits
    tasks: int
    on_gone: OnGone
    form: Form
    poll_timeout_s: float
    client: tuple[tuple[str, str], ...]
    wait_s: float = 0.0
    acks: bool = False


_DEFAULTS: Final[Mapping[str, str]] = {
    "start": "earliest",
    "start_file": "",
    "end": "latest",
    "partitions": "",
    "max_readings": "1500000",
    "max_bytes": "256MB",
    "max_messages": "1000000",
    "tasks": "",
    "on_gone": "fail",
    "form": "readings",
    "poll_timeout": "30s",
    "wait": "0s",
    "acks": "false",
}
_OF_ETCD: Final = ("acks", "wait")


def parse_options(options: Mapping[str, str]) -> SourceOptions:
    """What the options mean; BadOption, or QueueError for the queue, says what would be right."""
    given = {name.lower(): text for name, text in options.items()}
    _refuse_unknown(given)
    said = {**_DEFAULTS, **given}
    url = parse_queue_url(said["queue"])
    return SourceOptions(
        queue=said["queue"],
        topic=url.topic,
        start=parse_at("start", said["start"]),
        start_file=Path(said["start_file"]) if said["start_file"] else None,
        end=parse_at("end", said["end"]),
        partitions=_partitions(said["partitions"]),
        limits=Limits(
            _whole("max_readings", said["max_readings"]),
            _size("max_bytes", said["max_bytes"]),
            _whole("max_messages", said["max_messages"]),
        ),
        tasks=_whole("tasks", said["tasks"] or str(2 * (os.cpu_count() or 1))),
        on_gone=cast(OnGone, _choice("on_gone", said["on_gone"], ("fail", "skip"))),
        form=cast(Form, _choice("form", said["form"], ("readings", "narrow"))),
        poll_timeout_s=_seconds("poll_timeout", said["poll_timeout"]),
        client=tuple(
            sorted((n.removeprefix(_CLIENT), t) for n, t in given.items() if n.startswith(_CLIENT))
        ),
        wait_s=_seconds("wait", said["wait"], least=0.0),
        acks=_acks(said, url),
    )


def parse_at(name: str, text: str) -> At:
    """Where to start (or end), of what an option says."""
    word = text.strip()
    if word == "earliest":
        return At(edge="earliest")
    if word == "latest":
        return At(edge="latest")
    if word.startswith("{"):
        return At(offsets=_offsets(name, word))
    if _WHOLE.fullmatch(word):
        return At(moment_ms=int(word))
    try:
        moment = datetime.fromisoformat(word)
    except ValueError:
        raise _bad(
            name, text, 'earliest, latest, a time such as 2025-07-18T20:00:00Z, or {"0": 12}'
        ) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return At(moment_ms=round(moment.timestamp() * 1000))


def _refuse_unknown(given: Mapping[str, str]) -> None:
    if not given.get("queue"):
        raise BadOption('option queue: is missing; say .option("queue", "kafka://host:9092/topic")')
    known = {"queue", *_DEFAULTS}
    unknown = sorted(n for n in given if n not in known and not n.startswith(_CLIENT))
    if unknown:
        of_all = ", ".join(sorted(known.difference(_OF_ETCD)))
        raise BadOption(
            f"option {unknown[0]}: is not known; known are {of_all} and, of a queue in etcd,"
            f" {', '.join(_OF_ETCD)}, of one in Kafka client.*"
        )


def _offsets(name: str, text: str) -> tuple[tuple[int, int], ...]:
    expected = 'offsets by partition such as {"0": 12, "1": 0}'
    try:
        said: Any = json.loads(text)
    except ValueError:
        raise _bad(name, text, expected) from None
    for partition, offset in said.items():
        is_partition = _WHOLE.fullmatch(partition) and int(partition) < _PARTITIONS_MAX
        is_offset = isinstance(offset, int) and not isinstance(offset, bool)
        if not (is_partition and is_offset and 0 <= offset <= _OFFSETS_MAX):
            raise _bad(name, text, expected)
    return tuple(sorted((int(partition), offset) for partition, offset in said.items()))


def _partitions(text: str) -> Partitions:
    if not text.strip():
        return Partitions()
    spans = []
    for part in text.split(","):
        found = _SPAN.fullmatch(part)
        first = int(found[1]) if found else 0
        last = int(found[2] or found[1]) if found else -1
        if last < first:
            raise _bad("partitions", text, "partitions such as 0-5,7")
        spans.append((first, last))
    return Partitions(tuple(sorted(spans)))


def _whole(name: str, text: str) -> int:
    if not _WHOLE.fullmatch(text.strip()) or not int(text):
        raise _bad(name, text, "a whole number of at least 1")
    return int(text)


def _size(name: str, text: str) -> int:
    try:
        size = parse_size(text)
    except ValueError:
        size = 0
    if size < 1:
        raise _bad(name, text, "a size such as 256MB")
    return size


def _seconds(name: str, text: str, *, least: float = 1e-9) -> float:
    if _SECONDS.fullmatch(text.strip()):
        seconds = float(text)
    else:
        try:
            seconds = parse_duration_ms(text) / 1000
        except ValueError:
            seconds = -1.0
    if not seconds >= least:
        raise _bad(name, text, "a time such as 30s")
    return seconds


def _acks(said: Mapping[str, str], url: QueueUrl) -> bool:
    wanted = _choice("acks", said["acks"], ("true", "false")) == "true"
    if wanted and (said["form"].strip().lower() != "narrow" or not isinstance(url, EtcdUrl)):
        raise BadOption("option acks: is for the form narrow of a queue in etcd")
    return wanted


def _choice(name: str, text: str, known: tuple[str, ...]) -> str:
    word = text.strip().lower()
    if word not in known:
        raise _bad(name, text, " or ".join(known))
    return word


def _bad(name: str, text: str, expected: str) -> BadOption:
    return BadOption(f'option {name}: found "{text}", expected {expected}')
