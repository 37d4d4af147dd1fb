"""The data directory: one holder, topics that exist or not, and how the last run ended."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nexus.log import DataDirInUse, DataDirTooNew, LogConfig, LogStore, TopicMeta
from nexus.log.data_dir import DataDirUnreadable
from nexus.wire.errors import (
    InvalidPartitions,
    InvalidTopic,
    StorageError,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from support.logs import Clock, append_values, open_log, read_all


def config_for(_: TopicMeta) -> LogConfig:
    return LogConfig(segment_bytes=1000)


class Directory:
    """A data directory that is opened again and again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stores: list[LogStore] = []

    def open(self) -> LogStore:
        store = LogStore.open(self.path, now_ms=Clock())
        store.load(config_for)
        self.stores.append(store)
        return store

    def crash(self, store: LogStore) -> None:
        """Let go of everything without a word, as a killed process does."""
        for log in store.logs.values():
            log.abandon()
        store._lock_file = None


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Directory]:
    directory = Directory(tmp_path / "data")
    yield directory
    for store in directory.stores:
        store.close()


def test_topics_and_their_records_are_there_after_a_restart(data: Directory) -> None:
    store = data.open()
    meta, logs = store.create_topic("readings", 2, {"retention.ms": "1000"}, config_for)
    append_values(logs[1], b"a")
    store.close()
    again = data.open()
    assert again.topics == {"readings": meta}
    assert [record.value for record in read_all(again.logs["readings", 1])] == [b"a"]
    assert (data.path / "topics/readings/partition-0" / f"{0:020d}.log").exists()


@pytest.mark.parametrize("clean", [True, False])
def test_a_stop_is_known_to_be_clean_or_not(data: Directory, clean: bool) -> None:
    store = data.open()
    _, [log] = store.create_topic("t", 1, {}, config_for)
    for _ in range(50):
        append_values(log, b"v")
    store.close() if clean else data.crash(store)
    again = LogStore.open(data.path, now_ms=Clock())
    data.stores.append(again)
    assert again.clean == clean
    assert not (data.path / "clean-stop").exists()
    again.load(config_for)
    assert len(read_all(again.logs["t", 0])) == 50


def test_recovery_points_bound_what_is_checked(data: Directory) -> None:
    store = data.open()
    meta, [log] = store.create_topic("t", 1, {}, config_for)
    append_values(log, b"a")
    store.checkpoint()
    record = json.loads((data.path / "recovery-points").read_text())
    assert record["points"] == {f"{meta.topic_id}/0": 1}
    append_values(log, b"b")
    data.crash(store)
    assert data.open().logs["t", 0].end_offset == 2


@pytest.mark.parametrize("content", [None, "", "{}", '{"points": 3}'])
def test_lost_recovery_points_cost_a_check_of_everything(
    data: Directory, content: str | None
) -> None:
    store = data.open()
    _, [log] = store.create_topic("t", 1, {}, config_for)
    append_values(log, b"a")
    store.checkpoint()
    data.crash(store)
    points = data.path / "recovery-points"
    points.unlink() if content is None else points.write_text(content)
    assert len(read_all(data.open().logs["t", 0])) == 1


def test_a_second_process_is_refused(data: Directory) -> None:
    data.open()
    with pytest.raises(DataDirInUse, match="in use by another process"):
        LogStore.open(data.path, now_ms=Clock())
    program = (
        "import sys, pathlib; from nexus.log import LogStore, DataDirInUse\n"
        "try: LogStore.open(pathlib.Path(sys.argv[1]), now_ms=lambda: 0)\n"
        "except DataDirInUse: print('refused')\n"
    )
    command = [sys.executable, "-c", program, str(data.path)]
    assert subprocess.check_output(command, text=True) == "refused\n"


def test_a_directory_of_a_newer_version_is_refused(data: Directory) -> None:
    data.open().close()
    meta = data.path / "meta.json"
    meta.write_text(meta.read_text().replace('"format_version": 1', '"format_version": 2'))
    with pytest.raises(DataDirTooNew):
        data.open()
    meta.write_text("{")
    with pytest.raises(DataDirUnreadable):
        data.open()


def test_the_cluster_keeps_its_id(data: Directory) -> None:
    first = data.open()
    cluster_id = first.meta.cluster_id
    assert len(cluster_id) == 22
    first.close()
    assert data.open().meta.cluster_id == cluster_id


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0b", "ä", "x" * 250, "../up"])
def test_a_name_that_is_no_name_never_becomes_a_path(data: Directory, name: str) -> None:
    with pytest.raises(InvalidTopic):
        data.open().create_topic(name, 1, {}, config_for)
    assert [path.name for path in (data.path / "topics").iterdir()] == []


def test_a_topic_is_created_once(data: Directory) -> None:
    store = data.open()
    store.create_topic("t", 1, {}, config_for)
    with pytest.raises(TopicAlreadyExists):
        store.create_topic("t", 1, {}, config_for)


def test_a_deleted_topic_is_gone_and_its_name_is_free(data: Directory) -> None:
    store = data.open()
    _, [log] = store.create_topic("t", 1, {}, config_for)
    append_values(log, b"old")
    store.checkpoint()
    remains = store.delete_topic("t")
    with pytest.raises(StorageError):
        append_values(log, b"refused")
    assert store.topics == {}
    _, [new] = store.create_topic("t", 1, {}, config_for)
    append_values(new, b"new")
    store.remove(remains)
    assert not remains.exists()
    data.crash(store)
    assert [record.value for record in read_all(data.open().logs["t", 0])] == [b"new"]
    with pytest.raises(UnknownTopicOrPartition):
        store.delete_topic("unknown")


def test_an_interrupted_removal_is_finished_later(data: Directory) -> None:
    store = data.open()
    store.create_topic("t", 1, {}, config_for)
    store.delete_topic("t")
    store.close()
    data.open().remove_deleted()
    assert list((data.path / "deleted").iterdir()) == []


def test_a_topic_whose_creation_was_interrupted_does_not_exist(data: Directory) -> None:
    data.open().close()
    (data.path / "topics/half/partition-0").mkdir(parents=True)
    store = data.open()
    assert store.topics == {}
    store.create_topic("half", 1, {}, config_for)


def test_a_topic_that_cannot_be_read_is_left_alone(data: Directory) -> None:
    store = data.open()
    store.create_topic("good", 1, {}, config_for)
    store.create_topic("bad", 1, {}, config_for)
    store.close()
    (data.path / "topics/bad/topic.json").write_text("{")
    assert set(data.open().topics) == {"good"}
    assert (data.path / "topics/bad/partition-0").exists()


def test_partitions_can_be_added(data: Directory) -> None:
    store = data.open()
    store.create_topic("t", 1, {}, config_for)
    assert len(store.add_partitions("t", 3, config_for)) == 2
    with pytest.raises(InvalidPartitions):
        store.add_partitions("t", 3, config_for)
    store.close()
    assert set(data.open().logs) == {("t", 0), ("t", 1), ("t", 2)}


def test_settings_of_a_topic_are_kept(data: Directory) -> None:
    store = data.open()
    store.create_topic("t", 1, {}, config_for)
    store.set_configs("t", {"cleanup.policy": "compact"})
    store.close()
    assert data.open().topics["t"].configs == {"cleanup.policy": "compact"}


def test_a_partition_that_cannot_be_opened_is_offline_and_the_others_are_not(
    data: Directory,
) -> None:
    store = data.open()
    store.create_topic("t", 2, {}, config_for)
    store.close()
    partition = data.path / "topics/t/partition-0"
    partition.rename(data.path / "away")
    partition.write_text("not a directory")
    again = data.open()
    assert again.logs["t", 0].failure is not None
    append_values(again.logs["t", 1], b"a")
    again.checkpoint()
    partition.unlink()
    (data.path / "away").rename(partition)
    again.logs["t", 0].reopen()
    append_values(again.logs["t", 0], b"b")
    assert again.logs["t", 0].failure is None


def test_producer_ids_are_never_given_twice(data: Directory) -> None:
    store = data.open()
    first = store.reserve_producer_ids(1000)
    data.crash(store)
    second = data.open().reserve_producer_ids(10)
    assert (first, second) == (range(1000), range(1000, 1010))


def test_closing_twice_is_closing_once(data: Directory) -> None:
    store = data.open()
    store.close()
    store.close()


def test_a_log_can_be_used_without_a_store(tmp_path: Path) -> None:
    log = open_log(tmp_path / "deep" / "down")
    append_values(log, b"a")
    assert len(read_all(log)) == 1
