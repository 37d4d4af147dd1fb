"""The side port: health for a supervisor, metrics for Prometheus."""

from __future__ import annotations

from confluent_kafka import TopicPartition

from support.broker import BrokerProcess
from support.confluent import admin_of, consumer_of, create_topic, read, send
from support.members import ConfluentMember, wait_shared
from support.rawwire import RawConnection
from support.waiting import wait_until


def test_health_says_live_ready_disk_and_memory(broker: BrokerProcess) -> None:
    status, _ = broker.get("/health")
    health = broker.health()
    assert status == 200
    assert health["live"] is True
    assert health["ready"] is True
    assert health["disk"]["free_bytes"] > 0
    assert health["memory"]["resident_bytes"] > 0


def test_an_unknown_page_is_not_found(broker: BrokerProcess) -> None:
    assert broker.get("/nothing-here")[0] == 404


PROMISED = {
    "nexus_broker_topic_messages_in_total",
    "nexus_broker_topic_bytes_in_total",
    "nexus_broker_topic_messages_out_total",
    "nexus_broker_topic_bytes_out_total",
    "nexus_broker_request_seconds_bucket",
    "nexus_broker_errors_total",
    "nexus_broker_connections",
    "nexus_broker_partitions",
    "nexus_broker_partitions_offline",
    "nexus_broker_log_bytes",
    "nexus_broker_group_lag",
    "nexus_broker_fsync_seconds_bucket",
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
}


def test_every_promised_metric_is_there(broker: BrokerProcess, topic: str, name: str) -> None:
    send(broker.bootstrap, topic, [b"v"])
    read(broker.bootstrap, topic, 1)
    commit(broker, topic, name)
    with RawConnection(broker.port) as rubbish:
        rubbish.send(b"\xff" * 100)
        assert rubbish.closed()
    found = broker.metrics()
    assert {sample.name for sample in found} >= PROMISED
    served = {s.labels["api"] for s in found if s.name == "nexus_broker_request_seconds_count"}
    assert {"produce", "fetch"} <= served


def commit(broker: BrokerProcess, topic: str, group: str) -> None:
    consumer = consumer_of(broker.bootstrap, **{"group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    consumer.close()


def test_metrics_count_what_went_in_and_out(broker: BrokerProcess, topic: str) -> None:
    send(broker.bootstrap, topic, [b"v" * 100] * 50)
    read(broker.bootstrap, topic, 50)
    assert broker.metric("nexus_broker_topic_messages_in_total", topic=topic) == 50
    assert broker.metric("nexus_broker_topic_bytes_in_total", topic=topic) >= 5000
    assert broker.metric("nexus_broker_topic_bytes_out_total", topic=topic) >= 5000


def test_a_groups_lag_is_measured(own_broker: BrokerProcess, name: str) -> None:
    create_topic(admin_of(own_broker.bootstrap), name)
    send(own_broker.bootstrap, name, [b"v"] * 10)
    with ConfluentMember(own_broker.bootstrap, name, "lagging", "range") as member:
        wait_shared([member], 1)
        wait_until(lambda: len(member.seen) == 10)
    send(own_broker.bootstrap, name, [b"v"] * 7)
    wait_until(
        lambda: own_broker.metric("nexus_broker_group_lag", group="lagging", topic=name) == 7,
        what="a lag of seven",
    )
