"""A topic's settings under Kafka's names: types, limits, defaults, and the log they make.

Only settings that do something here are known; any other name is refused with an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from nexus.groups.sharing.config import SharingConfig
from nexus.log import LogConfig
from nexus.settings import BrokerSettings
from nexus.wire.compression import Codec
from nexus.wire.errors import InvalidConfig

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
SHARING: Final = SharingConfig()


class ConfigType(IntEnum):
    """The types that DescribeConfigs names."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class ConfigSource(IntEnum):
    """Where a value comes from, as DescribeConfigs names it."""

    TOPIC = 1
    STATIC_BROKER = 4
    DEFAULT = 5


@dataclass(frozen=True, slots=True)
class Definition:
    """One setting of a topic."""

    name: str
    type: ConfigType
    default: Callable[[BrokerSettings, int], str]
    check: Callable[[str], str | None]
    meaning: str


def _number(lowest: int, highest: int) -> Callable[[str], str | None]:
    def check(value: str) -> str | None:
        try:
            inside = lowest <= int(value) <= highest
        except ValueError:
            inside = False
        return None if inside else f"a whole number from {lowest} to {highest}"

    return check


def _ratio(value: str) -> str | None:
    try:
        inside = 0 <= float(value) <= 1
    except ValueError:
        inside = False
    return None if inside else "a number from 0 to 1"


def _one_of(*choices: str) -> Callable[[str], str | None]:
    def check(value: str) -> str | None:
        return None if value in choices else "one of " + ", ".join(choices)

    return check


def _policy(value: str) -> str | None:
    words = {word.strip() for word in value.split(",")}
    return None if words and words <= {"delete", "compact"} else "delete, compact, or both"


def _fixed(value: object) -> Callable[[BrokerSettings, int], str]:
    return lambda _settings, _partitions: str(value)


DEFINITIONS: Final[dict[str, Definition]] = {
    definition.name: definition
    for definition in (
        Definition(
            "cleanup.policy",
            ConfigType.LIST,
            _fixed("delete"),
            _policy,
            "delete: old segments go; compact: the last record of each key stays",
        ),
        Definition(
            "compression.type",
            ConfigType.STRING,
            _fixed("producer"),
            _one_of("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
            "producer keeps what was sent; anything else recompresses to that codec",
        ),
        Definition(
            "delete.retention.ms",
            ConfigType.LONG,
            _fixed(86_400_000),
            _number(0, INT64_MAX),
            "how long a compacted topic keeps tombstones",
        ),
        Definition(
            "index.interval.bytes",
            ConfigType.INT,
            lambda s, _: str(s.storage.index_interval_bytes),
            _number(256, INT32_MAX),
            "log bytes between two entries of the sparse indexes",
        ),
        Definition(
            "max.message.bytes",
            ConfigType.INT,
            lambda s, _: str(s.performance.max_batch_bytes),
            _number(0, INT32_MAX),
            "the largest record batch that is accepted",
        ),
        Definition(
            "message.timestamp.after.max.ms",
            ConfigType.LONG,
            _fixed(3_600_000),
            _number(0, INT64_MAX),
            "how far in the future a message's timestamp may lie",
        ),
        Definition(
            "message.timestamp.type",
            ConfigType.STRING,
            _fixed("CreateTime"),
            _one_of("CreateTime", "LogAppendTime"),
            "whose clock stamps a message: the producer's or the broker's",
        ),
        Definition(
            "min.cleanable.dirty.ratio",
            ConfigType.DOUBLE,
            _fixed(0.5),
            _ratio,
            "the share of uncompacted bytes at which a log is compacted",
        ),
        Definition(
            "min.compaction.lag.ms",
            ConfigType.LONG,
            _fixed(0),
            _number(0, INT64_MAX),
            "how long a message stays before it may be compacted",
        ),
        Definition(
            "min.insync.replicas",
            ConfigType.INT,
            lambda s, _: str(s.replication.min_insync_replicas),
            _number(1, INT32_MAX),
            "replicas that must have a message before acks=all is answered",
        ),
        Definition(
            "partition.strategy",
            ConfigType.STRING,
            lambda s, _: s.cluster.partition_strategy,
            _one_of("ring", "modulo", "dynamic"),
            "which brokers hold the partitions, in a cluster that agrees by etcd; a change moves"
            " nothing before `nexus cluster rebalance`",
        ),
        Definition(
            "queue.auto.offset.reset",
            ConfigType.STRING,
            _fixed("earliest"),
            _one_of("earliest", "latest"),
            "where a new share group starts: with the oldest message, or with what comes then",
        ),
        Definition(
            "queue.max.deliveries",
            ConfigType.INT,
            _fixed(SHARING.max_deliveries),
            _number(1, 32_767),
            "how often a share group is given a message before it goes to the dead letters",
        ),
        Definition(
            "queue.max.depth",
            ConfigType.LONG,
            _fixed(-1),
            _number(-1, INT64_MAX),
            "unfinished messages of a share group beyond which produce is refused; -1 for no limit",
        ),
        Definition(
            "queue.ordered",
            ConfigType.BOOLEAN,
            _fixed("false"),
            _one_of("true", "false"),
            "whether a share group has one message of each key in flight at a time",
        ),
        Definition(
            "queue.visibility.ms",
            ConfigType.INT,
            _fixed(SHARING.visibility_ms),
            _number(100, 86_400_000),
            "how long a consumer of a share group has to acknowledge a message",
        ),
        Definition(
            "replication.mode",
            ConfigType.STRING,
            lambda s, _: s.replication.mode,
            _one_of("sync", "quorum", "async"),
            "what acks=all waits for: every replica in sync, of whom a majority must be in sync"
            " for quorum, or for async the leader alone",
        ),
        Definition(
            "retention.bytes",
            ConfigType.LONG,
            lambda s, partitions: str(s.storage.partition_retention_bytes(partitions)),
            _number(-1, INT64_MAX),
            "how large a partition may grow before its oldest segments go; -1 for no limit",
        ),
        Definition(
            "retention.ms",
            ConfigType.LONG,
            lambda s, _: str(s.storage.retention_ms),
            _number(-1, INT64_MAX),
            "how old a segment may grow; -1 for no limit",
        ),
        Definition(
            "routing.mode",
            ConfigType.STRING,
            lambda s, _: s.broker.routing,
            _one_of("direct", "proxy"),
            "whether clients go to the leaders of partitions, or any broker goes there for them",
        ),
        Definition(
            "segment.bytes",
            ConfigType.INT,
            lambda s, _: str(s.storage.segment_bytes),
            _number(1024, INT32_MAX),
            "the size at which a log starts a new segment",
        ),
        Definition(
            "segment.index.bytes",
            ConfigType.INT,
            _fixed(10 << 20),
            _number(1024, INT32_MAX),
            "the largest size of a segment's index",
        ),
        Definition(
            "segment.ms",
            ConfigType.LONG,
            lambda s, _: str(s.storage.segment_ms),
            _number(1, INT64_MAX),
            "the age at which a log starts a new segment",
        ),
        Definition(
            "unclean.leader.election.enable",
            ConfigType.BOOLEAN,
            lambda s, _: str(s.replication.unclean_leader_election).lower(),
            _one_of("true", "false"),
            "whether a replica that lacks acknowledged messages may lead when no other is left",
        ),
    )
}

_CODECS: Final = {
    "producer": None,
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


def check_configs(configs: Mapping[str, str | None]) -> dict[str, str]:
    """The settings as given, if each is known and possible; otherwise InvalidConfig."""
    checked: dict[str, str] = {}
    for name, value in configs.items():
        definition = DEFINITIONS.get(name)
        if definition is None:
            raise InvalidConfig(f"unknown topic setting {name}; known are {', '.join(DEFINITIONS)}")
        if value is None:
            raise InvalidConfig(f"{name} needs a value")
        if (wanted := definition.check(value)) is not None:
            raise InvalidConfig(f"{name}: found {value!r}, expected {wanted}")
        checked[name] = value
    return checked


def effective(
    settings: BrokerSettings, partitions: int, configs: Mapping[str, str]
) -> dict[str, str]:
    """Every setting with the value that holds for this topic."""
    return {
        name: configs[name] if name in configs else definition.default(settings, partitions)
        for name, definition in DEFINITIONS.items()
    }


def log_config(settings: BrokerSettings, partitions: int, configs: Mapping[str, str]) -> LogConfig:
    """What the topic's logs need to know."""
    values = effective(settings, partitions, configs)
    policy = {word.strip() for word in values["cleanup.policy"].split(",")}
    return LogConfig(
        segment_bytes=int(values["segment.bytes"]),
        segment_ms=int(values["segment.ms"]),
        retention_ms=int(values["retention.ms"]),
        retention_bytes=int(values["retention.bytes"]),
        compact="compact" in policy,
        delete="delete" in policy,
        delete_retention_ms=int(values["delete.retention.ms"]),
        min_cleanable_dirty_ratio=float(values["min.cleanable.dirty.ratio"]),
        min_compaction_lag_ms=int(values["min.compaction.lag.ms"]),
        max_message_bytes=int(values["max.message.bytes"]),
        index_interval_bytes=int(values["index.interval.bytes"]),
        index_bytes_max=int(values["segment.index.bytes"]),
        log_append_time=values["message.timestamp.type"] == "LogAppendTime",
        timestamp_after_max_ms=int(values["message.timestamp.after.max.ms"]),
    )


def target_codec(configs: Mapping[str, str]) -> Codec | None:
    """The codec that batches are rewritten to; None keeps what the producer chose."""
    return _CODECS[configs.get("compression.type", "producer")]


def sharing_config(configs: Mapping[str, str]) -> SharingConfig:
    """How share groups are given the topic's messages."""
    return SharingConfig(
        visibility_ms=int(configs.get("queue.visibility.ms", SHARING.visibility_ms)),
        max_deliveries=int(configs.get("queue.max.deliveries", SHARING.max_deliveries)),
        ordered=configs.get("queue.ordered") == "true",
        from_latest=configs.get("queue.auto.offset.reset") == "latest",
    )
