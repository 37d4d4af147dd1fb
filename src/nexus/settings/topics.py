"""Topics that the file lists: created at start, with settings under the names that Kafka tools use.

`retention_size` is the topic's total, so each partition's `retention.bytes` is its share of it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from nexus.settings.entry import Entry
from nexus.settings.errors import SettingsError
from nexus.settings.kinds import Choice, Duration, Kind, Ratio, Size, Whole
from nexus.settings.options import (
    DEFAULT,
    Inputs,
    Source,
    Strength,
    entries_below,
    parse_value,
    refuse_unknown,
    section_entries,
)
from nexus.settings.sections import LOG_OVERHEAD_BYTES, partition_share

_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_COMPRESSION: Final = ("producer", "uncompressed", "none", "gzip", "snappy", "lz4", "zstd")
_INTERNAL: Final = "__consumer_offsets"


@dataclass(frozen=True, slots=True)
class CleanupPolicy:
    """`delete`, `compact`, or both as a list or separated by a comma."""

    def parse(self, raw: object) -> str:
        words = raw.split(",") if isinstance(raw, str) else raw
        if isinstance(words, list | tuple):
            policy = [str(word).strip().lower() for word in words]
            if policy and len(set(policy)) == len(policy) and set(policy) <= {"delete", "compact"}:
                return ",".join(policy)
        raise ValueError('delete, compact or "delete,compact"')

    def show(self, value: object) -> str:
        return str(value)


@dataclass(frozen=True, slots=True)
class _TopicOption:
    kind: Kind
    config: str | None = None


_OPTIONS: Final[Mapping[str, _TopicOption]] = {
    "partitions": _TopicOption(Whole(1, 10_000)),
    "replication_factor": _TopicOption(Whole(1, 100)),
    "retention_time": _TopicOption(Duration(1, unlimited=True), "retention.ms"),
    "retention_size": _TopicOption(Size(1, unlimited=True), "retention.bytes"),
    "compression_type": _TopicOption(Choice(_COMPRESSION), "compression.type"),
    "cleanup_policy": _TopicOption(CleanupPolicy(), "cleanup.policy"),
    "segment_size": _TopicOption(Size(1024, 2**31 - 1), "segment.bytes"),
    "segment_time": _TopicOption(Duration(1), "segment.ms"),
    "max_message_size": _TopicOption(Size(1024, 1 << 30), "max.message.bytes"),
    "min_insync_replicas": _TopicOption(Whole(1, 100), "min.insync.replicas"),
    "replication_mode": _TopicOption(Choice(("sync", "quorum", "async")), "replication.mode"),
    "partition_strategy": _TopicOption(Choice(("ring", "modulo", "dynamic")), "partition.strategy"),
    "routing_mode": _TopicOption(Choice(("direct", "proxy")), "routing.mode"),
    "delete_retention_time": _TopicOption(Duration(0), "delete.retention.ms"),
    "min_compaction_lag": _TopicOption(Duration(0), "min.compaction.lag.ms"),
    "min_cleanable_dirty_ratio": _TopicOption(Ratio(), "min.cleanable.dirty.ratio"),
    "message_timestamp_type": _TopicOption(
        Choice(("createtime", "logappendtime")), "message.timestamp.type"
    ),
}
_SPELLING: Final = {
    "createtime": "CreateTime",
    "logappendtime": "LogAppendTime",
    "none": "uncompressed",
}


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """One topic to create at start; `configs` are its own settings by their Kafka names."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TopicDefaults:
    """What a topic gets where the file says nothing."""

    partitions: int
    replication_factor: int
    segment_bytes: int
    max_message_bytes: int


def resolve_topics(
    inputs: Inputs, defaults: TopicDefaults
) -> tuple[tuple[TopicSettings, ...], dict[str, tuple[str, Source]]]:
    """The topics in file order, and each value as shown with its source by dotted name."""
    topics: list[TopicSettings] = []
    shown: dict[str, tuple[str, Source]] = {}
    for name, entry in section_entries("topics", inputs).items():
        dotted = f"topics.{name}"
        _check_name(name, f"{inputs.file}:{entry.line}: {dotted}")
        given = entries_below(entry, dotted, inputs.file)
        refuse_unknown(given, _OPTIONS, dotted, inputs.file)
        values = _parse(given, dotted, inputs, shown)
        _cross_check(values, given, dotted, inputs, defaults)
        topics.append(_topic(name, values, defaults))
        for key in ("partitions", "replication_factor"):
            shown.setdefault(f"{dotted}.{key}", (str(getattr(topics[-1], key)), DEFAULT))
    return tuple(topics), shown


def _parse(
    given: Mapping[str, Entry], dotted: str, inputs: Inputs, shown: dict[str, tuple[str, Source]]
) -> dict[str, object]:
    values: dict[str, object] = {}
    for key, entry in given.items():
        kind = _OPTIONS[key].kind
        source = Source(Strength.FILE, f"{inputs.file}:{entry.line}")
        values[key] = parse_value(kind, entry.value, f"{dotted}.{key}", source)
        shown[f"{dotted}.{key}"] = (kind.show(values[key]), source)
    return values


def _topic(name: str, values: Mapping[str, object], defaults: TopicDefaults) -> TopicSettings:
    partitions = _whole(values, "partitions", defaults.partitions)
    configs: dict[str, str] = {}
    for key, value in values.items():
        config = _OPTIONS[key].config
        if config is not None:
            configs[config] = _config_text(key, value, partitions)
    factor = _whole(values, "replication_factor", defaults.replication_factor)
    return TopicSettings(name, partitions, factor, configs)


def _config_text(key: str, value: object, partitions: int) -> str:
    if key == "retention_size" and isinstance(value, int):
        return str(partition_share(value, partitions))
    if key == "max_message_size" and isinstance(value, int):
        return str(value + LOG_OVERHEAD_BYTES)
    return _SPELLING.get(str(value), str(value))


def _cross_check(
    values: Mapping[str, object],
    given: Mapping[str, Entry],
    dotted: str,
    inputs: Inputs,
    defaults: TopicDefaults,
) -> None:
    segment = _whole(values, "segment_size", defaults.segment_bytes)
    message = _whole(values, "max_message_size", defaults.max_message_bytes)
    if segment < message:
        key = "segment_size" if "segment_size" in given else "max_message_size"
        raise SettingsError(
            f"{inputs.file}:{given[key].line}: {dotted}.{key}: a segment of {segment} bytes cannot"
            f" hold a message of {message}; expected segment_size >= max_message_size"
        )
    factor = _whole(values, "replication_factor", defaults.replication_factor)
    if _whole(values, "min_insync_replicas", 1) > factor:
        raise SettingsError(
            f"{inputs.file}:{given['min_insync_replicas'].line}: {dotted}.min_insync_replicas:"
            f" found {values['min_insync_replicas']}, expected at most the replication factor"
            f" {factor}"
        )


def _whole(values: Mapping[str, object], key: str, default: int) -> int:
    value = values.get(key, default)
    return value if isinstance(value, int) else default


def _check_name(name: str, where: str) -> None:
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise SettingsError(
            f"{where}: not a topic name; expected 1 to 249 letters, digits, dots, dashes and"
            " underscores"
        )
    if name == _INTERNAL:
        raise SettingsError(f"{where}: is the broker's own topic; choose another name")
