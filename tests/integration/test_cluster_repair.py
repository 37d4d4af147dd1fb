"""Bytes rot on a broker's disk: nobody reads them, and a sound copy takes their place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from nexus.log.mending import DAMAGED
from support.broker import BrokerProcess
from support.cluster import BrokerCluster
from support.commands import nexus_cluster
from support.confluent import deliver, producer_of, values_in
from support.waiting import wait_until

pytestmark = pytest.mark.timeout(240)
COUNT = 1200
SENT = [b"%05d" % number + b"x" * 195 for number in range(COUNT)]
LEADER, SCRUBBED, QUIET = 1, 2, 3  # what each broker is in these tests
LENGTH_AT, PAYLOAD_AT = 8, 90


class Scrubbed(BrokerCluster):
    """One broker looks for damage all the time, the others when somebody reads."""

    def make(self, node: int) -> BrokerProcess:
        made = super().make(node)
        often = "scrub_interval: 300ms, " if node == SCRUBBED else ""
        made.settings += f"storage: {{{often}recovery_point_interval: 100ms}}\n"
        return made


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    made = Scrubbed(Path(tmp_path_factory.mktemp("repair")))
    try:
        yield made.start()
    finally:
        made.stop()


def filled(cluster: BrokerCluster, topic: str, count: int = COUNT) -> None:
    """A topic of one partition in several segments, led by the first broker."""
    wanted = NewTopic(
        topic, 1, replica_assignment=[[LEADER, SCRUBBED, QUIET]], config={"segment.bytes": "65536"}
    )
    cluster.admin.create_topics([wanted])[topic].result(20)
    producer = producer_of(cluster.bootstrap, **{"batch.num.messages": 10, "linger.ms": 5})
    assert [error for error, _ in deliver(producer, topic, SENT[:count]) if error] == []
    cluster.wait_in_sync(topic)


def segments(broker: BrokerProcess, topic: str) -> list[Path]:
    return sorted((broker.data_dir / "topics" / topic / "partition-0").glob("*.log"))


def log_bytes(broker: BrokerProcess, topic: str) -> bytes:
    return b"".join(path.read_bytes() for path in segments(broker, topic))


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
