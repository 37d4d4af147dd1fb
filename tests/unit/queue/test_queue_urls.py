"""A queue's address is read as people write it, and a wrong one says what would be right."""

import pytest

from nexus.queue.errors import QueueError
from nexus.queue.url import KafkaUrl, parse_queue_url


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
    ("text", "says"),
    [
        ("etcd://h:2379/q", "not built yet"),
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
