"""Topics in the file: what each key becomes, and what is refused."""

from pathlib import Path

import pytest

from nexus.settings import SettingsError, TopicSettings, load_broker_settings


def topics_of(tmp_path: Path, text: str) -> tuple[TopicSettings, ...]:
    path = tmp_path / "t.yaml"
    path.write_text(text)
    return load_broker_settings(path, environ={}).topics


def test_a_topic_that_says_nothing_has_the_brokers_defaults(tmp_path: Path) -> None:
    text = (
        "broker: {default_partitions: 4}\n"
        "replication: {default_replication_factor: 2}\ntopics:\n  a:\n"
    )
    assert topics_of(tmp_path, text) == (TopicSettings("a", 4, 2, {}),)


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ("retention_time: 1h", "retention.ms", "3600000"),
        ("retention_time: -1", "retention.ms", "-1"),
        ("retention_size: 10KB", "retention.bytes", "5120"),
        ("retention_size: -1", "retention.bytes", "-1"),
        ("compression_type: zstd", "compression.type", "zstd"),
        ("compression_type: none", "compression.type", "uncompressed"),
        ("cleanup_policy: compact", "cleanup.policy", "compact"),
        ('cleanup_policy: "delete,compact"', "cleanup.policy", "delete,compact"),
        ("cleanup_policy: [compact, delete]", "cleanup.policy", "compact,delete"),
        ("segment_size: 2MB", "segment.bytes", "2097152"),
        ("segment_time: 5m", "segment.ms", "300000"),
        ("max_message_size: 2MB", "max.message.bytes", "2097164"),
        ("min_insync_replicas: 1", "min.insync.replicas", "1"),
        ("delete_retention_time: 1s", "delete.retention.ms", "1000"),
        ("min_compaction_lag: 1m", "min.compaction.lag.ms", "60000"),
        ("min_cleanable_dirty_ratio: 0.1", "min.cleanable.dirty.ratio", "0.1"),
        ("message_timestamp_type: LogAppendTime", "message.timestamp.type", "LogAppendTime"),
    ],
)
def test_a_key_becomes_its_kafka_setting(tmp_path: Path, given: str, name: str, value: str) -> None:
    (topic,) = topics_of(tmp_path, f"topics: {{a: {{partitions: 2, {given}}}}}")
    assert topic.configs == {name: value}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("topics: {a: {partition: 2}}", "topics.a.partition: unknown key; did you mean partitions"),
        ("topics: {a: {partitions: 0}}", "topics.a.partitions: found 0, expected a whole number"),
        ("topics: {a b: {}}", "topics.a b: not a topic name; expected 1 to 249 letters"),
        ("topics: {..: {}}", "topics...: not a topic name"),
        ("topics: {__consumer_offsets: {}}", "is the broker's own topic; choose another name"),
        ("topics: {a: 5}", "topics.a: found 5, expected `key: value` lines"),
        ("topics: {a: {cleanup_policy: shred}}", 'expected delete, compact or "delete,compact"'),
        ("topics: {a: {compression_type: rar}}", "expected one of producer, uncompressed, none"),
        ("topics: {a: {segment_size: 100KB}}", "expected segment_size >= max_message_size"),
        ("topics: {a: {max_message_size: 1GB, segment_size: 1MB}}", "topics.a.segment_size: a seg"),
        ("topics: {a: {min_insync_replicas: 2}}", "expected at most the replication factor 1"),
    ],
)
def test_a_wrong_topic_is_one_line(tmp_path: Path, text: str, line: str) -> None:
    with pytest.raises(SettingsError) as refused:
        topics_of(tmp_path, text)
    assert line in str(refused.value)
    assert str(refused.value).startswith(f"{tmp_path}/t.yaml:1: ")


def test_a_topic_may_be_called_like_a_number(tmp_path: Path) -> None:
    (topic,) = topics_of(tmp_path, "topics: {2024: {partitions: 1}}")
    assert topic.name == "2024"
