"""What a stop, a kill or a damaged file leaves behind: everything that was acknowledged.

Also what happens when two brokers want the same directory or the same port.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicCollection, TopicPartition
from confluent_kafka.admin import ConfigResource, NewPartitions

from support.broker import BrokerFailed, BrokerProcess
from support.confluent import admin_of, consumer_of, create_topic, send, values_in, watermarks
from support.fixtures import MakeBroker
from support.wirelog import partition_dir

VALUES = [b"%d" % n for n in range(200)]
SETTINGS = """
topics:
  declared: {partitions: 3, retention_time: "2h", cleanup_policy: "delete"}
"""


@dataclass(frozen=True)
class Picture:
    """All that clients can know about a broker's state."""

    cluster_id: str
    topics: dict[str, tuple[str, int]]
    values: list[bytes | None]
    watermarks: tuple[int, int]
    committed: tuple[int, str | None]
    retention_ms: str | None


def fill(broker: BrokerProcess) -> None:
    admin = admin_of(broker.bootstrap)
    create_topic(admin, "kept", 2, {"retention.ms": "7200000"})
    admin.create_partitions([NewPartitions("kept", 5)])["kept"].result(10)
    create_topic(admin, "dropped", 2)
    admin.delete_topics(["dropped"])["dropped"].result(10)
    send(broker.bootstrap, "kept", VALUES)
    below = TopicPartition("kept", 0, 50)
    admin.delete_records([below])[below].result(10)
    consumer = consumer_of(broker.bootstrap, **{"group.id": "readers"})
    offsets = [TopicPartition("kept", 0, 120, metadata="so far")]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()


def picture(broker: BrokerProcess) -> Picture:
    admin = admin_of(broker.bootstrap)
    names = [name for name in admin.list_topics(timeout=10).topics if not name.startswith("__")]
    described = admin.describe_topics(TopicCollection(names))
    found = {name: future.result(10) for name, future in described.items()}
    asked = ConsumerGroupTopicPartitions("readers", [TopicPartition("kept", 0)])
    offsets = admin.list_consumer_group_offsets([asked])["readers"].result(10).topic_partitions
    resource = ConfigResource(ConfigResource.Type.TOPIC, "kept")
    return Picture(
        cluster_id=str(admin.describe_cluster().result(10).cluster_id),
        topics={name: (str(t.topic_id), len(t.partitions)) for name, t in found.items()},
        values=values_in(broker.bootstrap, "kept"),
        watermarks=watermarks(broker.bootstrap, "kept"),
        committed=(offsets[0].offset, offsets[0].metadata),
        retention_ms=admin.describe_configs([resource])[resource].result(10)["retention.ms"].value,
    )


def test_a_clean_stop_and_start_changes_nothing(own_broker: BrokerProcess) -> None:
    fill(own_broker)
    before = picture(own_broker)
    assert before.values == VALUES[50:]
    assert before.topics["kept"][1] == 5
    assert before.committed == (120, "so far")
    ready = own_broker.restart()
    assert picture(own_broker) == before
    assert int(ready["topics"]) >= 1


def test_kill_9_changes_nothing_that_was_acknowledged(own_broker: BrokerProcess) -> None:
    fill(own_broker)
    before = picture(own_broker)
    own_broker.kill()
    own_broker.start()
    assert picture(own_broker) == before
    send(own_broker.bootstrap, "kept", [b"next"])
    assert watermarks(own_broker.bootstrap, "kept") == (50, 201)


@pytest.mark.parametrize("debris", [b"\0" * 4096, b"\xff" * 100, b"rubbish", bytes(61)])
def test_debris_after_the_last_batch_is_cut_away(own_broker: BrokerProcess, debris: bytes) -> None:
    create_topic(admin_of(own_broker.bootstrap), "torn")
    send(own_broker.bootstrap, "torn", VALUES)
    own_broker.kill()
    (log,) = partition_dir(own_broker.data_dir, "torn").glob("*.log")
    size = log.stat().st_size
    with log.open("ab") as file:
        file.write(debris)
    own_broker.start()
    assert log.stat().st_size == size
    assert values_in(own_broker.bootstrap, "torn") == VALUES
    assert send(own_broker.bootstrap, "torn", [b"next"]) == [200]


def test_lost_indexes_are_built_again(own_broker: BrokerProcess) -> None:
    create_topic(admin_of(own_broker.bootstrap), "unindexed")
    send(own_broker.bootstrap, "unindexed", [b"%d" % n * 400 for n in range(200)])
    before = values_in(own_broker.bootstrap, "unindexed")
    own_broker.kill()
    for file in partition_dir(own_broker.data_dir, "unindexed").glob("*index"):
        file.unlink()
    own_broker.start()
    assert values_in(own_broker.bootstrap, "unindexed") == before


def test_topics_in_the_settings_are_created_at_start(make_broker: MakeBroker) -> None:
    broker = make_broker(settings=SETTINGS)
    admin = admin_of(broker.bootstrap)
    assert len(admin.list_topics("declared", timeout=10).topics["declared"].partitions) == 3
    resource = ConfigResource(ConfigResource.Type.TOPIC, "declared")
    configs = admin.describe_configs([resource])[resource].result(10)
    assert configs["retention.ms"].value == "7200000"
    broker.restart()


def refused_start(broker: BrokerProcess) -> str:
    """Start a broker that must not start; the last line it wrote."""
    with pytest.raises(BrokerFailed):
        broker.start()
    assert broker.wait_exit() != 0
    assert "Traceback" not in broker.stderr
    return broker.stderr.strip().splitlines()[-1]


def test_a_second_broker_on_the_same_directory_gets_one_clear_error(
    own_broker: BrokerProcess, tmp_path: Path
) -> None:
    second = BrokerProcess(tmp_path / "second", data_dir=own_broker.data_dir)
    said = refused_start(second)
    assert str(own_broker.data_dir) in said
    assert send(own_broker.bootstrap, "still-here", [b"v"]) == [0]


def test_a_taken_port_is_one_clear_error(own_broker: BrokerProcess, tmp_path: Path) -> None:
    second = BrokerProcess(tmp_path / "second", port=own_broker.port)
    assert str(own_broker.port) in refused_start(second)


def test_a_directory_from_the_future_is_refused(own_broker: BrokerProcess) -> None:
    assert own_broker.stop() == 0
    meta = own_broker.data_dir / "meta.json"
    meta.write_text(meta.read_text().replace('"format_version": 1', '"format_version": 99'))
    assert "99" in refused_start(own_broker)
