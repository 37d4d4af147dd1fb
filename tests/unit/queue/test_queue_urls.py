"""A queue's address is read as people write it, and a wrong one says what would be right."""

import pytest

from nexus.queue.errors import QueueError
from nexus.queue.url import EtcdUrl, KafkaUrl, parse_queue_url


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kafka://a:1,b:2/t", KafkaUrl(("a:1", "b:2"), "t")),
        ("kafka://broker-1:9092", KafkaUrl(("broker-1:9092",), "gpu-telemetry")),
        ("kafka://broker-1/", KafkaUrl(("broker-1:9092",), "gpu-telemetry")),
        ("127.0.0.1:9093", KafkaUrl(("127.0.0.1:9093",), "gpu-telemetry")),
        ("kafka://[::1]:9092/x.y_z-1", KafkaUrl(("[::1]:9092",), "x.y_z-1")),
    ],
)
def test_an_address_names_brokers_and_a_topic(text: str, expected: KafkaUrl) -> None:
    assert parse_queue_url(text) == expected


def test_an_address_is_written_as_it_is_read() -> None:
    url = parse_queue_url("kafka://a:1,b:2/t")
    assert parse_queue_url(str(url)) == url
    assert url.dead_letter_topic == "t.dlq"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("etcd://h:2379", "etcd://h:2379/telemetry/queue"),
        ("etcd://a:1,b:2/x/y/", "etcd://a:1,b:2/x/y"),
        ("etcd://h:1/q?ttl=2h&form=packed", "etcd://h:1/q?form=packed&ttl=7200"),
        ("etcd://h:1/q?quota=1GB&partitions=3", "etcd://h:1/q?partitions=3&quota=1073741824"),
    ],
)
def test_a_queue_in_etcd_has_a_prefix_and_options(text: str, written: str) -> None:
    url = parse_queue_url(text)
    assert isinstance(url, EtcdUrl)
    assert str(url) == written
    assert parse_queue_url(written) == url


def test_options_of_an_address_do_not_make_it_another_queue() -> None:
    plain, told = parse_queue_url("etcd://h:1/q"), parse_queue_url("etcd://h:1/q?ttl=1h&form=json")
    assert plain.place == told.place == "etcd://h:1/q"


def test_the_environment_names_etcd_and_the_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETCD_ENDPOINTS", "http://e1:2379,http://e2:2379")
    monkeypatch.setenv("MESSAGE_QUEUE_PREFIX", "/fleet/queue/")
    assert str(parse_queue_url("etcd://")) == "etcd://e1:2379,e2:2379/fleet/queue"
    assert str(parse_queue_url("etcd://h:1/q")) == "etcd://h:1/q"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("etcd://h:2379/q?partition=3", "unknown option partition; known are partitions"),
        ("etcd://h:2379/q?partitions=0", "expected a number from 1 to 10000"),
        ("etcd://h:2379/q?form=xml", "expected auto, json or packed"),
        ("etcd://h:2379/q?ttl=soon", "expected a time such as 24h"),
        ("etcd://h:2379/q?quota=big", "expected a size such as 2GB"),
        ("etcd://h:2379:1/q", "expected etcd://host:port"),
        ("http://h:80/t", "unknown kind http://"),
        ("kafka://:9092/t", "expected kafka://host:port"),
        ("kafka://h:99999/t", "expected kafka://host:port"),
        ("kafka://h:1/a/b", "not a topic name"),
        ("kafka://h:1/..", "not a topic name"),
    ],
)
def test_a_wrong_address_is_one_clear_error(text: str, says: str) -> None:
    with pytest.raises(QueueError, match=says) as refused:
        parse_queue_url(text)
    assert "\n" not in str(refused.value)
