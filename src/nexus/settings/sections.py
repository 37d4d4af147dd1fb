# ruff: noqa: RUF009 - `option` returns a dataclass field, made once, not a shared default.
"""The broker's sections: every option with its key, kind and default, in one place to read.

A field's name carries its unit (`segment_bytes`, `segment_ms`); its key is what a user writes
(`segment_size: 1GB`). Defaults stand here as a user would write them.
"""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from nexus.settings.kinds import (
    Choice,
    Directory,
    Duration,
    Flag,
    HostPort,
    Maybe,
    Size,
    Text,
    TextList,
    Whole,
    split_host_port,
)
from nexus.settings.options import option
from nexus.settings.units import UNLIMITED

Fsync = Literal["commit", "interval", "never"]
ClusterMode = Literal["solo", "static", "etcd"]
PartitionStrategy = Literal["ring", "modulo", "dynamic"]
Preset = Literal["none", "throughput", "consistency"]
ReplicationMode = Literal["sync", "quorum", "async"]
Routing = Literal["direct", "proxy"]
LogFormat = Literal["auto", "human", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]

# An index entry holds a position in 32 bits, and other tools read segment.bytes as an i32.
_SEGMENT_BYTES_MAX: Final = 2**31 - 1
# Kafka's max.message.bytes counts a batch with the 12 bytes before its own length.
LOG_OVERHEAD_BYTES: Final = 12

HOST: Final = Text('a host name or address such as "127.0.0.1"')
PORT: Final = Whole(0, 65535)


@dataclass(frozen=True, slots=True)
class BrokerSection:
    """Who this broker is and where it listens. Port 0 lets the system choose."""

    id: int = option("id", Whole(0), 1)
    host: str = option("host", HOST, "127.0.0.1")
    port: int = option("port", PORT, 9092)
    advertised_host: str | None = option("advertised_host", Maybe(HOST), None)
    advertised_port: int | None = option("advertised_port", Maybe(Whole(1, 65535)), None)
    data_dir: Path = option("data_dir", Directory(), "./data/broker")
    http_host: str = option("http_host", HOST, "127.0.0.1")
    http_port: int = option("http_port", PORT, 9464)
    routing: Routing = option("routing", Choice(("direct", "proxy")), "direct")
    auto_create_topics: bool = option("auto_create_topics", Flag(), True)
    default_partitions: int = option("default_partitions", Whole(1, 10_000), 1)
    log_level: LogLevel = option(
        "log_level", Choice(("debug", "info", "warning", "error")), "info", live=True
    )
    log_format: LogFormat = option("log_format", Choice(("auto", "human", "json")), "auto")

    @property
    def open_to_network(self) -> bool:
        """Whether either port can be reached from another machine."""
        return not (is_loopback(self.host) and is_loopback(self.http_host))


@dataclass(frozen=True, slots=True)
class ClusterSection:
    """How brokers find each other; all but the mode takes effect with one other than solo.

    `peers` is for static, `etcd_endpoints` and what follows it for etcd. `preset` sets values of
    other sections too (`nexus.settings.presets`), in any mode.
    """

    mode: ClusterMode = option("mode", Choice(("solo", "static", "etcd")), "solo")
    preset: Preset = option("preset", Choice(("none", "throughput", "consistency")), "none")
    cluster_id: str = option("cluster_id", Text(), "local-cluster", environment=("CLUSTER_ID",))
    bootstrap_servers: tuple[str, ...] = option(
        "bootstrap_servers",
        TextList(HostPort(), 'a list such as ["broker-1:9092", "broker-2:9092"]'),
        (),
    )
    peers: tuple[str, ...] = option(
        "peers",
        TextList(Text(), 'a list such as ["1@broker-1:9092", "2@broker-2:9092"]'),
        (),
        live=True,
    )
    rack: str | None = option("rack", Maybe(Text()), None)
    partition_strategy: PartitionStrategy = option(
        "partition_strategy", Choice(("ring", "modulo", "dynamic")), "ring"
    )
    etcd_endpoints: str = option(
        "etcd_endpoints", Text(), "localhost:2379", environment=("ETCD_ENDPOINTS",)
    )
    lease_ms: int = option("lease_time", Duration(2_000, 60_000), "3s")
    broker_gone_after_ms: int = option("broker_gone_after", Duration(1_000, unlimited=True), "10m")
    rebuilds_at_once: int = option("rebuilds_at_once", Whole(1, 1_000), 4)
    # Bytes a second that a broker copies for replicas which are not in sync yet.
    move_bytes_s: int = option("move_rate", Size(1024, unlimited=True), "50MB", live=True)
    report_interval_ms: int = option("report_interval", Duration(100), "10s")
    preferred_leaders_ms: int = option("preferred_leaders_interval", Duration(100), "5s")


@dataclass(frozen=True, slots=True)
class StorageSection:
    """How the log is kept. `retention_bytes` is a topic's total, over all its partitions."""

    segment_bytes: int = option("segment_size", Size(1024, _SEGMENT_BYTES_MAX), "1GB")
    segment_ms: int = option("segment_time", Duration(1), "24h")
    retention_ms: int = option("retention_time", Duration(1, unlimited=True), "24h")
    retention_bytes: int = option("retention_size", Size(1, unlimited=True), "10GB")
    fsync: Fsync = option("fsync", Choice(("commit", "interval", "never")), "commit")
    fsync_interval_ms: int = option("fsync_interval", Duration(1, 3_600_000), "1s")
    recovery_point_interval_ms: int = option("recovery_point_interval", Duration(100), "5s")
    retention_check_interval_ms: int = option("retention_check_interval", Duration(10), "30s")
    index_interval_bytes: int = option("index_interval", Size(256, 1 << 30), "4KB")
    scrub_interval_ms: int = option("scrub_interval", Duration(100, unlimited=True), "24h")

    def partition_retention_bytes(self, partitions: int) -> int:
        """One partition's share of a topic's total; at least a byte, or no limit."""
        return partition_share(self.retention_bytes, partitions)


@dataclass(frozen=True, slots=True)
class PerformanceSection:
    """Bounds on connections, requests and memory. A socket buffer of 0 is the system's choice.

    `batch_bytes` and `linger_ms` are for Nexus's own producers (`nexus.settings.producer`).
    """

    max_connections: int = option("max_connections", Whole(1, 1_000_000), 10_000)
    socket_send_buffer_bytes: int = option("socket_send_buffer", Size(0, 1 << 30), 0)
    socket_receive_buffer_bytes: int = option("socket_receive_buffer", Size(0, 1 << 30), 0)
    max_message_bytes: int = option("max_message_size", Size(1024, 1 << 30), "1MB")
    max_request_bytes: int = option("max_request_size", Size(1024, _SEGMENT_BYTES_MAX), "100MB")
    max_in_flight_requests: int = option("max_in_flight_requests", Whole(1, 100_000), 64)
    max_queued_bytes: int = option("max_queued_size", Size(64 << 10), "4MB")
    request_memory_bytes: int = option("request_memory", Size(1 << 20), "256MB")
    batch_bytes: int = option("batch_size", Size(1, 1 << 30), "16KB")
    linger_ms: int = option("linger_time", Duration(0, 900_000), "5ms")
    connection_idle_ms: int = option("connection_idle_time", Duration(1_000), "10m")
    frame_timeout_ms: int = option("frame_timeout", Duration(100), "30s")
    group_max_size: int = option("group_max_size", Whole(1, 1_000_000), 1_000)
    flush_threads: int = option("flush_threads", Whole(1, 256), 4)

    @property
    def max_batch_bytes(self) -> int:
        """The default of a topic's max.message.bytes."""
        return self.max_message_bytes + LOG_OVERHEAD_BYTES


@dataclass(frozen=True, slots=True)
class ReplicationSection:
    """How copies are kept; takes effect with a cluster mode other than solo."""

    default_replication_factor: int = option("default_replication_factor", Whole(1, 100), 1)
    min_insync_replicas: int = option("min_insync_replicas", Whole(1, 100), 1)
    replica_lag_time_max_ms: int = option("replica_lag_time_max", Duration(1), "5s")
    replica_lag_records_max: int = option("replica_lag_records_max", Whole(1), 1000)
    mode: ReplicationMode = option("mode", Choice(("sync", "quorum", "async")), "sync")
    unclean_leader_election: bool = option("unclean_leader_election", Flag(), False)


@dataclass(frozen=True, slots=True)
class GroupsSection:
    """Consumer groups: how members are waited for and how long their offsets are kept."""

    initial_rebalance_delay_ms: int = option(
        "initial_rebalance_delay", Duration(0, 300_000), "50ms"
    )
    offsets_retention_ms: int = option("offsets_retention", Duration(1, unlimited=True), "7d")
    session_timeout_min_ms: int = option("session_timeout_min", Duration(1), "1s")
    session_timeout_max_ms: int = option("session_timeout_max", Duration(1), "30m")
    offsets_partitions: int = option("offsets_partitions", Whole(1, 1_000), 16)
    # As many as there are brokers where that is fewer.
    offsets_replication: int = option("offsets_replication", Whole(1, 100), 3)


def parse_peers(texts: Iterable[str]) -> dict[int, tuple[str, int]]:
    """The address of each peer by its id; ValueError says what was expected."""
    peers: dict[int, tuple[str, int]] = {}
    for text in texts:
        node, separator, address = text.partition("@")
        if not separator or not node.isdecimal() or int(node) in peers:
            raise ValueError(f'found "{text}", expected each broker once, as in "1@broker-1:9092"')
        peers[int(node)] = split_host_port(address)
    return peers


def partition_share(topic_bytes: int, partitions: int) -> int:
    """A topic's total divided over its partitions; unlimited stays unlimited."""
    return UNLIMITED if topic_bytes == UNLIMITED else max(1, topic_bytes // max(1, partitions))


def is_loopback(host: str) -> bool:
    """Whether a host can be reached from this machine alone."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
