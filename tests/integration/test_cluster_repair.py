"""Bytes rot on a broker's disk: nobody reads them, and a sound copy takes their place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from nexus.groups import partition_for
from nexus.log.mending import DAMAGED
from support.broker import BrokerProcess
from support.cluster import BrokerCluster
from support.commands import nexus_cluster
from support.confluent import consumer_of, deliver, producer_of, values_in
from support.tracing import SYNCS, failing
from support.waiting import wait_until

pytestmark = pytest.mark.timeout(240)
COUNT = 1200
SENT = [b"%05d" % number + b"x" * 195 for number in range(COUNT)]
LEADER, SCRUBBED, QUIET = 1, 2, 3  # what each broker is in these tests
LENGTH_AT, PAYLOAD_AT = 8, 90
LEAST = "min_insync_replicas: 2"
GROUP = "readers"


class Scrubbed(BrokerCluster):
    """One broker looks for damage all the time, the others when somebody reads.

    One never compacts, the others at once. None finds by waiting that another lags behind.
    """

    def make(self, node: int) -> BrokerProcess:
        made = super().make(node)
        made.settings = made.settings.replace(LEAST, f"{LEAST}, replica_lag_time_max: 5m")
        own = {
            LEADER: "retention_check_interval: 1h",
            SCRUBBED: "retention_check_interval: 200ms, scrub_interval: 300ms",
            QUIET: "retention_check_interval: 200ms",
        }
        made.settings += f"storage: {{{own[node]}, recovery_point_interval: 100ms}}\n"
        return made


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    made = Scrubbed(Path(tmp_path_factory.mktemp("repair")))
    try:
        yield made.start()
    finally:
        made.stop()


def made(cluster: BrokerCluster, topic: str, **configs: str) -> Producer:
    """A topic of one partition in several segments, led by the first broker; who writes to it."""
    wanted = NewTopic(
        topic,
        1,
        replica_assignment=[[LEADER, SCRUBBED, QUIET]],
        config={"segment.bytes": "65536", **configs},
    )
    cluster.admin.create_topics([wanted])[topic].result(20)
    return producer_of(cluster.bootstrap, **{"batch.num.messages": 10, "linger.ms": 5})


def filled(cluster: BrokerCluster, topic: str, count: int = COUNT) -> None:
    producer = made(cluster, topic)
    assert [error for error, _ in deliver(producer, topic, SENT[:count]) if error] == []
    cluster.wait_in_sync(topic)


def segments(broker: BrokerProcess, topic: str, number: int = 0) -> list[Path]:
    return sorted((broker.data_dir / "topics" / topic / f"partition-{number}").glob("*.log"))


def log_bytes(broker: BrokerProcess, topic: str) -> bytes:
    return b"".join(path.read_bytes() for path in segments(broker, topic))


def log_size(broker: BrokerProcess, topic: str) -> int:
    """Of a log that may be compacted meanwhile: then as it was at the most."""
    try:
        return len(log_bytes(broker, topic))
    except FileNotFoundError:
        return len(b"".join(SENT))


def flip(path: Path, at: int) -> None:
    """Turn bits over in place, as a disk does."""
    with path.open("r+b") as file:
        file.seek(at)
        [byte] = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 0x55]))


def counted(broker: BrokerProcess, name: str) -> float:
    return sum(sample.value for sample in broker.metrics() if sample.name == name)


def wait_mended(cluster: BrokerCluster, node: int, topic: str, since: float) -> None:
    """Until this broker has replaced something, and all logs are the same again."""
    broker = cluster.brokers[node]
    wait_until(
        lambda: (
            counted(broker, "nexus_broker_repairs_total") > since
            and counted(broker, "nexus_broker_partitions_damaged") == 0
        ),
        within=60,
        every=0.2,
        what="the log to be mended",
    )
    logs = {node: log_bytes(one, topic) for node, one in cluster.brokers.items()}
    assert logs[1] == logs[2] == logs[3]
    kept = list(segments(broker, topic)[0].parent.glob(f"*{DAMAGED}*"))
    assert kept, "what was there before is kept"


def test_a_follower_that_scrubs_replaces_what_is_damaged(cluster: BrokerCluster) -> None:
    filled(cluster, "scrubbed")
    broker = cluster.brokers[SCRUBBED]
    before = counted(broker, "nexus_broker_repairs_total")
    flip(segments(broker, "scrubbed")[0], PAYLOAD_AT)
    wait_mended(cluster, SCRUBBED, "scrubbed", before)
    assert counted(broker, "nexus_broker_corruptions_total") >= 1
    assert "a batch is damaged" in broker.stderr
    assert "a log is whole again" in broker.stderr


@pytest.mark.parametrize("at", [PAYLOAD_AT, LENGTH_AT], ids=["payload", "length"])
def test_a_leader_serves_nothing_damaged_and_takes_a_followers_copy(
    cluster: BrokerCluster, at: int
) -> None:
    topic = f"led-{at}"
    filled(cluster, topic)
    broker = cluster.brokers[LEADER]
    before = counted(broker, "nexus_broker_repairs_total")
    sound = segments(broker, topic)[1].read_bytes()
    flip(segments(broker, topic)[1], at)
    assert segments(broker, topic)[1].read_bytes() != sound
    assert values_in(cluster.bootstrap, topic, 0, **{"check.crcs": True}) == SENT
    wait_mended(cluster, LEADER, topic, before)


def test_verify_names_the_damage_and_has_it_mended(cluster: BrokerCluster) -> None:
    filled(cluster, "compared")
    before = counted(cluster.brokers[QUIET], "nexus_broker_repairs_total")
    flip(segments(cluster.brokers[QUIET], "compared")[0], PAYLOAD_AT)
    said = nexus_cluster(cluster.etcd.endpoint, "verify", "compared", expected=1)
    assert f"compared/0: offset 0 is damaged on broker {QUIET}" in said
    wait_mended(cluster, QUIET, "compared", before)
    assert "no differences" in nexus_cluster(cluster.etcd.endpoint, "verify", "compared")


def test_damage_that_is_found_at_a_start_cuts_nothing_off(cluster: BrokerCluster) -> None:
    filled(cluster, "restarted", count=1111)
    broker = cluster.brokers[QUIET]
    place = broker.data_dir / "recovery-points"
    wait_until(lambda: place.exists() and "1111" in place.read_text(), what="a recovery point")
    broker.kill()
    last = segments(broker, "restarted")[-1]
    flip(last, LENGTH_AT)
    size = last.stat().st_size
    broker.spawn()
    broker.wait_ready(within=60)
    assert last.stat().st_size == size
    wait_mended(cluster, QUIET, "restarted", 0)
    cluster.wait_in_sync("restarted")


def kept_key(number: int) -> bytes:
    """Most keys come again and again, one of seven never: what is left of a batch is less of it."""
    return b"%05d" % number if number % 7 == 0 else b"again %d" % (number % 5)


@pytest.fixture(scope="module")
def compacted(cluster: BrokerCluster) -> str:
    """A topic that two of three brokers have compacted."""
    topic = "compacted"
    configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    producer = made(cluster, topic, **configs)
    for number, value in enumerate(SENT):
        producer.produce(topic, value, kept_key(number))
    assert producer.flush(20) == 0
    wait_until(
        lambda: all(
            log_size(cluster.brokers[other], topic) * 2 < log_size(cluster.brokers[LEADER], topic)
            for other in (SCRUBBED, QUIET)
        ),
        within=60,
        what="two of three to be compacted",
    )
    cluster.wait_in_sync(topic)
    said = nexus_cluster(cluster.etcd.endpoint, "verify", topic)
    assert "keys of compacted topics compared, no differences" in said
    return topic


@pytest.mark.parametrize(
    ("node", "at", "as_a_whole"),
    [(QUIET, PAYLOAD_AT, False), (QUIET, LENGTH_AT, True), (LEADER, PAYLOAD_AT, True)],
    ids=["follower", "follower-anew", "leader-anew"],
)
def test_a_compacted_log_takes_the_same_batch_or_all_of_another_log(
    cluster: BrokerCluster, compacted: str, node: int, at: int, *, as_a_whole: bool
) -> None:
    """The followers have the same batches; the leader has them as they were sent."""
    topic, broker = compacted, cluster.brokers[node]
    before = counted(broker, "nexus_broker_repairs_total")
    flip(segments(broker, topic)[0], at)
    said = nexus_cluster(cluster.etcd.endpoint, "verify", topic, expected=1)
    # What has lost its length cannot even be sent to be looked at.
    assert f"is damaged on broker {node}" in said or "KAFKA_STORAGE_ERROR" in said
    wait_until(
        lambda: counted(broker, "nexus_broker_repairs_total") > before,
        within=60,
        what="the log to be sound again",
    )
    cluster.wait_in_sync(topic, within=60)
    assert list((broker.data_dir / "stray").glob(f"{topic}-*")) != [] or not as_a_whole
    wait_until(lambda: cluster.leader(topic) == LEADER, within=60, what="the leader of before")
    assert "no differences" in nexus_cluster(cluster.etcd.endpoint, "verify", topic)
    newest = {kept_key(number): value for number, value in enumerate(SENT)}
    left = values_in(cluster.bootstrap, topic, 0, **{"check.crcs": True})
    assert set(newest.values()) <= set(left)


def test_a_coordinator_takes_a_sound_copy_before_it_trusts_what_groups_committed(
    cluster: BrokerCluster,
) -> None:
    filled(cluster, "grouped", count=100)
    consumer = consumer_of(cluster.bootstrap, **{"group.id": GROUP})
    for offset in (40, 50, 60):
        consumer.commit(offsets=[TopicPartition("grouped", 0, offset)], asynchronous=False)
    consumer.close()
    topic, number = "__consumer_offsets", partition_for(GROUP, 4)
    cluster.wait_in_sync(topic)
    coordinator = cluster.leader(topic, number)
    broker = cluster.brokers[coordinator]
    broker.stop()
    [last] = segments(broker, topic, number)[-1:]
    flip(last, last.stat().st_size - 1)
    broker.start()
    wait_until(
        lambda: cluster.leader(topic, number) == coordinator,
        within=60,
        what="the coordinator to be the same again",
    )
    again = consumer_of(cluster.bootstrap, **{"group.id": GROUP})
    [committed] = again.committed([TopicPartition("grouped", 0)], timeout=60)
    again.close()
    assert committed.offset == 60
    assert "a batch is damaged" in broker.stderr


def test_a_follower_whose_disk_fails_says_so_and_nobody_waits_for_it(
    cluster: BrokerCluster, tmp_path: Path
) -> None:
    filled(cluster, "unsynced", count=100)
    broker = cluster.brokers[QUIET]
    producer = producer_of(cluster.bootstrap)
    with failing(broker.pid, tmp_path / "strace", SYNCS, "EIO"):
        # Whoever had to wait until it counts as behind would wait for minutes.
        reports = deliver(producer, "unsynced", SENT[100:200])
        assert [error for error, _ in reports if error] == []
        wait_until(
            lambda: sorted(cluster.partitions("unsynced")[0].isrs) == [LEADER, SCRUBBED],
            what="all brokers to know who is in sync",
        )
        assert broker.alive
    cluster.wait_in_sync("unsynced", within=60)
    assert values_in(cluster.bootstrap, "unsynced") == SENT[:200]
    logs = {node: log_bytes(one, "unsynced") for node, one in cluster.brokers.items()}
    assert logs[LEADER] == logs[QUIET]
