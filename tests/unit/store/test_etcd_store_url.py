"""Addresses of stores in etcd."""

import pytest

from nexus.etcd.address import parse_etcd_address
from nexus.lake.errors import StoreError
from nexus.store.etcd.url import DEFAULT_RETENTION_MS, parse_etcd_store_url


def test_an_address_needs_no_more_than_a_host() -> None:
    store = parse_etcd_store_url("etcd://h:2379")
    assert store.address.endpoints == ("h:2379",)
    assert store.prefix == "/telemetry"
    assert store.retention_ms == DEFAULT_RETENTION_MS == 3_600_000


@pytest.mark.parametrize(
    "text",
    [
        "etcd://h:2379/telemetry",
        "etcd://a:2379,b:2379/some/where?retention=7200000ms",
        "etcd://me@h:2379/p?ca=/ca.pem",
    ],
)
def test_what_is_shown_means_the_same(text: str) -> None:
    store = parse_etcd_store_url(text)
    assert parse_etcd_store_url(str(store)) == store
    assert str(store) == text


def test_how_long_readings_are_kept_and_who_asks_make_no_other_store() -> None:
    one = parse_etcd_store_url("etcd://b:1,a:1/p?retention=2h")
    other = parse_etcd_store_url("etcd://me@a:1,b:1/p")
    assert one.name == other.name == "etcd://a:1,b:1/p"


def test_one_transaction_reaches_a_queue_of_the_same_members_and_user() -> None:
    store = parse_etcd_store_url("etcd://a:1,b:1/p?retention=2h")
    shares = {
        text: store.shares_etcd_with(parse_etcd_address(text))
        for text in ("etcd://b:1,a:1/q?ttl=3h", "etcd://a:1/q", "etcd://me@a:1,b:1/q")
    }
    assert list(shares.values()) == [True, False, False]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("etcd://h:2379?retention=soon", 'found "soon", expected a time of a minute or more'),
        ("etcd://h:2379?retention=1s", "a minute or more, such as 1h"),
        ("etcd://h:2379?ttl=1h", "unknown option ttl; known is retention"),
        ("etcd://h:99999", "h:99999"),
        ("etcd://me:secret@h:2379", "ETCD_PASSWORD"),
    ],
)
def test_a_wrong_address_is_told_what_would_be_right(text: str, why: str) -> None:
    with pytest.raises(StoreError, match=r"^store ") as told:
        parse_etcd_store_url(text)
    assert why in str(told.value)
