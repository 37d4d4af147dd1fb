"""A data directory that keeps some of a topic's partitions, where other brokers have the rest."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

from nexus.log import LogConfig, LogStore, TopicMeta
from support.logs import Clock, append_values, read_all


def config_for(_: TopicMeta) -> LogConfig:
    return LogConfig()


def opened(path: Path) -> LogStore:
    store = LogStore.open(path, now_ms=Clock())
    store.load(config_for)
    return store


def test_only_the_partitions_that_are_kept_here_have_logs(tmp_path: Path) -> None:
    store = opened(tmp_path)
    meta = TopicMeta("t", uuid4(), 6, {"retention.ms": "1000"})
    assert sorted(store.host(meta, [1, 4], config_for)) == [1, 4]
    append_values(store.logs["t", 4], b"kept")
    assert sorted(store.host(meta, [1, 2, 4], config_for)) == [2]
    store.close()
    again = opened(tmp_path)
    assert sorted(again.logs) == [("t", 1), ("t", 2), ("t", 4)]
    assert again.topics["t"].topic_id == meta.topic_id
    assert again.topics["t"].partitions == 6
    assert [record.value for record in read_all(again.logs["t", 4])] == [b"kept"]
    again.close()


def test_a_partition_that_is_kept_elsewhere_goes(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.host(TopicMeta("t", uuid4(), 3), [0, 2], config_for)
    store.remove(store.unhost("t", 2))
    store.checkpoint()
    assert sorted(store.logs) == [("t", 0)]
    assert not (tmp_path / "topics" / "t" / "partition-2").exists()
    store.close()
    again = opened(tmp_path)
    assert sorted(again.logs) == [("t", 0)]
    again.close()


def test_a_topic_of_the_same_name_that_is_another_one_is_set_aside(tmp_path: Path) -> None:
    store = opened(tmp_path)
    meta, logs = store.create_topic("t", 1, {}, config_for)
    append_values(logs[0], b"of old")
    store.host(TopicMeta("t", uuid4(), 2), [0, 1], config_for)
    assert store.logs["t", 0].end_offset == 0
    stray = tmp_path / "stray" / f"t-{meta.topic_id}" / "partition-0"
    assert any(file.stat().st_size for file in stray.glob("*.log"))
    store.close()
