"""A store in etcd as the collector opens it; nothing here connects to one."""

import pytest

from nexus.lake.errors import StoreError
from nexus.pipeline.collector.etcd_store import EtcdStore
from nexus.pipeline.collector.stores import open_store
from nexus.queue.url import parse_queue_url
from nexus.settings.collector import CollectorSection

OWN = CollectorSection()
STORE = "etcd://a:2379,b:2379/store?retention=2h"


@pytest.mark.parametrize(
    ("queue", "alone", "wanted"),
    [
        ("etcd://b:2379,a:2379/queue", True, {"acks": "true"}),
        ("etcd://b:2379,a:2379/queue", False, {}),  # another store may be behind
        ("etcd://c:2379/queue", True, {}),  # no transaction reaches both
        ("kafka://a:9092/topic", True, {}),
    ],
)
def test_messages_are_taken_out_with_their_readings_where_one_transaction_can(
    queue: str, alone: bool, wanted: dict[str, str]
) -> None:
    assert open_store(STORE, OWN).wants(parse_queue_url(queue), alone=alone) == wanted


def test_an_address_in_etcd_opens_a_store_in_etcd() -> None:
    store = open_store(STORE, OWN)
    assert isinstance(store, EtcdStore)
    assert store.url == "etcd://a:2379,b:2379/store", "as a name: not how long it keeps readings"
    assert store.place.retention_ms == 7_200_000
    store.release()


def test_a_wrong_address_is_told() -> None:
    with pytest.raises(StoreError, match="unknown option partitions"):
        open_store("etcd://a:2379/?partitions=3", OWN)
