"""The broker's settings: the file that must load, the order of strength, every error's line."""

from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import pytest

from nexus.errors import NexusError
from nexus.settings import (
    BrokerSettings,
    FlagValue,
    SettingsError,
    Strength,
    load_broker_settings,
)
from nexus.settings.broker import SECTIONS
from nexus.settings.options import environment_name, options_of

FULL_FILE = """\
broker: {id: 1, host: "0.0.0.0", port: 9092, data_dir: "/data/message-queue"}
cluster: {bootstrap_servers: ["broker-1:9092", "broker-2:9092", "broker-3:9092"]}
storage: {segment_size: "1GB", segment_time: "24h", retention_time: "7d", retention_size: "100GB", fsync_interval: "1s"}
performance: {max_connections: 10000, socket_send_buffer: "100KB", socket_receive_buffer: "100KB", max_message_size: "1MB", batch_size: "16KB", linger_time: "5ms"}
replication: {default_replication_factor: 3, min_insync_replicas: 2, replica_lag_time_max: "10s", replica_lag_records_max: 1000}
topics:
  gpu-telemetry: {partitions: 12, replication_factor: 3, retention_time: "30d", retention_size: "500GB", compression_type: "snappy", cleanup_policy: "delete", segment_size: "1GB"}
  system-metrics: {partitions: 6, replication_factor: 2, retention_time: "7d", compression_type: "gzip"}
"""  # noqa: E501 - as users have it

GB = 1 << 30


def load(
    tmp_path: Path, text: str | None = None, flags: dict[str, object] | None = None, **environ: str
) -> BrokerSettings:
    path = None
    if text is not None:
        path = tmp_path / "nexus.yaml"
        path.write_text(text)
    given = {name: FlagValue("--flag", value) for name, value in (flags or {}).items()}
    return load_broker_settings(path, flags=given, environ=environ)


def refusal(tmp_path: Path, text: str, **environ: str) -> str:
    with pytest.raises(SettingsError) as refused:
        load(tmp_path, text, None, **environ)
    line = str(refused.value)
    assert "\n" not in line
    return line.replace(f"{tmp_path}/", "")


def test_the_documented_file_loads_with_every_key_doing_what_it_says(tmp_path: Path) -> None:
    settings = load(tmp_path, FULL_FILE)
    broker, storage = settings.broker, settings.storage
    assert (broker.id, broker.host, broker.port) == (1, "0.0.0.0", 9092)
    assert broker.data_dir == Path("/data/message-queue")
    assert settings.cluster.mode == "solo"
    assert settings.cluster.bootstrap_servers == ("broker-1:9092", "broker-2:9092", "broker-3:9092")
    assert (storage.segment_bytes, storage.segment_ms) == (GB, 86_400_000)
    assert (storage.retention_ms, storage.retention_bytes) == (604_800_000, 100 * GB)
    assert (storage.fsync, storage.fsync_interval_ms) == ("interval", 1000)
    performance = settings.performance
    assert performance.max_connections == 10_000
    assert performance.socket_send_buffer_bytes == performance.socket_receive_buffer_bytes == 102400
    assert (performance.max_message_bytes, performance.max_batch_bytes) == (1048576, 1048588)
    assert (performance.batch_bytes, performance.linger_ms) == (16_384, 5)
    replication = settings.replication
    assert (replication.default_replication_factor, replication.min_insync_replicas) == (3, 2)
    assert (replication.replica_lag_time_max_ms, replication.replica_lag_records_max) == (
        10000,
        1000,
    )


def test_the_documented_file_lists_topics_under_their_kafka_names(tmp_path: Path) -> None:
    telemetry, metrics = load(tmp_path, FULL_FILE).topics
    assert (telemetry.name, telemetry.partitions, telemetry.replication_factor) == (
        "gpu-telemetry",
        12,
        3,
    )
    assert telemetry.configs == {
        "retention.ms": "2592000000",
        "retention.bytes": str(500 * GB // 12),
        "compression.type": "snappy",
        "cleanup.policy": "delete",
        "segment.bytes": str(GB),
    }
    assert (metrics.partitions, metrics.replication_factor) == (6, 2)
    assert metrics.configs == {"retention.ms": "604800000", "compression.type": "gzip"}


def test_without_a_file_everything_is_as_by_default(tmp_path: Path) -> None:
    settings = load(tmp_path)
    assert settings == BrokerSettings()
    assert (settings.broker.host, settings.broker.port) == ("127.0.0.1", 9092)
    assert settings.storage.fsync == "commit"
    assert settings.storage.retention_bytes == 10 * GB
    assert settings.cluster.cluster_id == "local-cluster"
    assert {source.strength for source in settings.provenance.values()} == {Strength.DEFAULT}


def test_settings_cannot_be_changed_after_they_were_read() -> None:
    with pytest.raises(FrozenInstanceError):
        BrokerSettings().broker.port = 1  # type: ignore[misc]


def test_a_flag_beats_the_environment_which_beats_the_file(tmp_path: Path) -> None:
    file = "broker: {id: 7, port: 1111, http_port: 1111, default_partitions: 3}"
    variables = {"NEXUS_BROKER_PORT": "2222", "NEXUS_BROKER_HTTP_PORT": "2222"}
    settings = load(tmp_path, file, {"broker.port": 3333}, **variables)
    assert settings.broker.default_partitions == 3
    assert settings.broker.http_port == 2222
    assert settings.broker.port == 3333
    assert str(settings.provenance["broker.default_partitions"]) == f"{tmp_path}/nexus.yaml:1"
    assert str(settings.provenance["broker.http_port"]) == "environment NEXUS_BROKER_HTTP_PORT"
    assert str(settings.provenance["broker.port"]) == "flag --flag"
    assert str(settings.provenance["broker.host"]) == "default"


def test_every_option_has_a_variable(tmp_path: Path) -> None:
    environ = {
        environment_name(section, opt.key): opt.kind.show(getattr(cls(), name))
        for section, cls in SECTIONS.items()
        for name, opt in options_of(cls).items()
        if getattr(cls(), name) not in (None, ()) and opt.key != "fsync_interval"
    }
    settings = load(tmp_path, None, None, **environ)
    assert settings == BrokerSettings()
    assert str(settings.provenance["storage.segment_size"]) == (
        "environment NEXUS_STORAGE_SEGMENT_SIZE"
    )


def test_the_well_known_name_of_the_cluster_is_honoured(tmp_path: Path) -> None:
    assert load(tmp_path, None, None, CLUSTER_ID="fleet-7").cluster.cluster_id == "fleet-7"


def test_the_file_may_be_named_by_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "other.yaml"
    path.write_text("broker: {id: 5}")
    settings = load(tmp_path, None, None, NEXUS_CONFIG=str(path))
    assert (settings.broker.id, settings.file) == (5, path)


def test_what_kubernetes_sets_for_a_service_is_not_our_port(tmp_path: Path) -> None:
    settings = load(tmp_path, None, None, NEXUS_BROKER_PORT="tcp://10.96.0.1:9092")
    assert settings.broker.port == 9092


@pytest.mark.parametrize("text", ["", "# nothing\n", "storage:\n", "topics:\n  a:\n"])
def test_what_is_empty_counts_as_not_given(tmp_path: Path, text: str) -> None:
    assert load(tmp_path, text).storage == BrokerSettings().storage


def test_shown_values_load_again_to_the_same(tmp_path: Path) -> None:
    settings = load(tmp_path, FULL_FILE)
    shown = {s.name: s for s in settings.shown()}
    assert shown["storage.retention_size"].value == "100GB"
    assert shown["storage.retention_size"].source.endswith("nexus.yaml:3")
    assert shown["topics.gpu-telemetry.retention_time"].value == "30d"
    assert shown["groups.session_timeout_max"] == ("groups.session_timeout_max", "30m", "default")
    options = sum(len(fields(cls)) for cls in SECTIONS.values())
    assert len([name for name in shown if not name.startswith("topics.")]) == options


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "storage: {segment_size: 12XB}",
            'nexus.yaml:1: storage.segment_size: found "12XB", expected a size such as 1GB or'
            " 512KB, at least 1KB, at most 2147483647",
        ),
        (
            "storage:\n  retention_time: 24",
            "nexus.yaml:2: storage.retention_time: found 24, expected a duration with its unit,"
            " such as 24ms, 24s or 24h",
        ),
        (
            "storage: {retention_tim: 24h}",
            "nexus.yaml:1: storage.retention_tim: unknown key; did you mean retention_time?",
        ),
        ("storag: {}", "nexus.yaml:1: storag: unknown key; did you mean storage?"),
        (
            "zzz: {}",
            "nexus.yaml:1: zzz: unknown key; known here: broker, cluster, storage, performance,"
            " replication, groups, topics",
        ),
        (
            "broker: {port: 70000}",
            "nexus.yaml:1: broker.port: found 70000, expected a whole number from 0 to 65535",
        ),
        ("broker: {host: }", "nexus.yaml:1: broker.host: found nothing, expected a host name"),
        (
            "broker: {auto_create_topics: 3}",
            "nexus.yaml:1: broker.auto_create_topics: found 3, expected true or false",
        ),
        ("broker: 5", "nexus.yaml:1: broker: found 5, expected `key: value` lines"),
        ("- a", "nexus.yaml:1: the file: found ['a'], expected `key: value` lines"),
        ("broker: {id: {a: 1}}", "nexus.yaml:1: broker.id: found a mapping, expected a whole"),
        (
            "broker:\n  id: 1\n  id: 2\n",
            "nexus.yaml:3: id: given twice (first on line 2)",
        ),
        ("a: b: c", "nexus.yaml:1: is not valid YAML: mapping values are not allowed"),
        (
            "broker: {host: !!python/object/apply:os.getcwd []}",
            "nexus.yaml:1: is not valid YAML: could not determine a constructor",
        ),
        (
            "storage: {fsync: sometimes}",
            'nexus.yaml:1: storage.fsync: found "sometimes", expected one of commit, interval,'
            " never",
        ),
        (
            "storage: {fsync: commit, fsync_interval: 1s}",
            "nexus.yaml:1: storage.fsync_interval: contradicts fsync: commit; expected"
            " fsync: interval, or no fsync_interval",
        ),
        (
            "cluster: {mode: static}",
            "default: cluster.peers: found none, expected all brokers of the static cluster,"
            " this one (1) too",
        ),
        (
            "cluster: {peers: [1@a:9092, 1@b:9092]}",
            'nexus.yaml:1: cluster.peers: found "1@b:9092", expected each broker once,'
            ' as in "1@broker-1:9092"',
        ),
        (
            "cluster: {bootstrap_servers: [broker-1]}",
            "nexus.yaml:1: cluster.bootstrap_servers: found ['broker-1'], expected host:port",
        ),
        (
            "storage: {segment_size: 512KB}",
            "nexus.yaml:1: storage.segment_size: found 512KB, expected at least"
            " performance.max_message_size (1MB)",
        ),
        (
            "performance: {max_message_size: 1GB}",
            "nexus.yaml:1: performance.max_message_size: found 1GB, expected at most"
            " performance.max_request_size (100MB)",
        ),
        (
            "performance: {request_memory: 50MB}",
            "nexus.yaml:1: performance.request_memory: found 50MB, expected at least"
            " performance.max_request_size (100MB)",
        ),
        (
            "broker: {http_port: 9092}",
            "nexus.yaml:1: broker.http_port: 9092 is also the broker's own port; expected another",
        ),
        (
            "replication: {min_insync_replicas: 2}",
            "nexus.yaml:1: replication.min_insync_replicas: found 2, expected at most"
            " replication.default_replication_factor (1)",
        ),
        (
            "groups: {session_timeout_min: 2h}",
            "nexus.yaml:1: groups.session_timeout_min: found 2h, expected at most"
            " groups.session_timeout_max (30m)",
        ),
    ],
)
def test_a_wrong_value_is_one_line_with_file_key_and_what_is_right(
    tmp_path: Path, text: str, line: str
) -> None:
    assert refusal(tmp_path, text).startswith(line)


def test_a_wrong_variable_is_named(tmp_path: Path) -> None:
    assert refusal(tmp_path, "", NEXUS_BROKER_ID="one") == (
        'environment NEXUS_BROKER_ID: broker.id: found "one",'
        " expected a whole number from 0 to 2147483647"
    )


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"none\.yaml: cannot be read: No such file"):
        load_broker_settings(tmp_path / "none.yaml", environ={})


def test_a_file_that_is_not_text_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsError, match=r"x\.yaml: is not UTF-8 text"):
        load_broker_settings(tmp_path / "x.yaml", environ={})


def test_settings_errors_are_for_the_user_and_mean_a_wrong_call() -> None:
    assert issubclass(SettingsError, NexusError)
    assert SettingsError.exit_code == 2


def test_an_interval_alone_selects_fsync_by_interval(tmp_path: Path) -> None:
    settings = load(tmp_path, "storage: {fsync_interval: 250ms}")
    assert (settings.storage.fsync, settings.storage.fsync_interval_ms) == ("interval", 250)
    assert settings.provenance["storage.fsync"].strength is Strength.FILE


def test_a_stronger_fsync_overrules_a_weaker_interval(tmp_path: Path) -> None:
    file = "storage: {fsync_interval: 250ms}"
    assert load(tmp_path, file, {"storage.fsync": "commit"}).storage.fsync == "commit"
    assert load(tmp_path, file, None, NEXUS_STORAGE_FSYNC="never").storage.fsync == "never"


def test_a_stronger_interval_overrules_a_weaker_fsync(tmp_path: Path) -> None:
    settings = load(tmp_path, "storage: {fsync: never}", None, NEXUS_STORAGE_FSYNC_INTERVAL="2s")
    assert (settings.storage.fsync, settings.storage.fsync_interval_ms) == ("interval", 2000)


def test_a_topics_retention_is_shared_by_its_partitions() -> None:
    storage = BrokerSettings().storage
    assert storage.partition_retention_bytes(5) == 2 * GB
    assert storage.partition_retention_bytes(1) == 10 * GB


def test_no_limit_is_written_as_minus_one(tmp_path: Path) -> None:
    settings = load(tmp_path, "storage: {retention_time: -1, retention_size: -1}")
    assert (settings.storage.retention_ms, settings.storage.retention_bytes) == (-1, -1)
    assert settings.storage.partition_retention_bytes(12) == -1


@pytest.mark.parametrize(
    ("host", "http_host", "opened"),
    [
        ("127.0.0.1", "localhost", False),
        ("::1", "127.0.0.9", False),
        ("0.0.0.0", "127.0.0.1", True),
        ("127.0.0.1", "::", True),
        ("broker-1", "127.0.0.1", True),
    ],
)
def test_it_is_known_whether_a_port_is_open_to_a_network(
    tmp_path: Path, host: str, http_host: str, opened: bool
) -> None:
    flags: dict[str, object] = {"broker.host": host, "broker.http_host": http_host}
    assert load(tmp_path, None, flags).broker.open_to_network is opened
