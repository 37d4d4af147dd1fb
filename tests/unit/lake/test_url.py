"""Addresses of stores: what they mean, and what is said of wrong ones."""

from pathlib import Path

import pytest

from nexus.lake.errors import StoreError
from nexus.lake.url import parse_store_url


def test_a_path_is_a_local_store() -> None:
    store = parse_store_url("delta:///var/lake")
    assert store.is_local
    assert store.uri == "/var/lake"
    assert store.table_uri("readings") == "/var/lake/readings"
    assert store.storage_options == {}


@pytest.mark.parametrize("text", ["delta:lake", "delta://./lake", "delta:./lake"])
def test_a_relative_path_becomes_absolute(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert parse_store_url(text).uri == str(tmp_path / "lake")


def test_a_bucket_is_reached_with_conditional_puts() -> None:
    store = parse_store_url("s3://bucket/some/prefix/?endpoint=http://localhost:9000&region=eu-1")
    assert not store.is_local
    assert store.table_uri("readings") == "s3://bucket/some/prefix/readings"
    assert store.storage_options == {
        "aws_endpoint_url": "http://localhost:9000",
        "aws_region": "eu-1",
        "aws_allow_http": "true",
        "aws_conditional_put": "etag",
    }


def test_plain_http_is_allowed_only_when_it_is_asked_for() -> None:
    store = parse_store_url("s3://bucket?endpoint=https://localhost:9000")
    assert "aws_allow_http" not in store.storage_options


@pytest.mark.parametrize(
    "text",
    [
        "delta:///var/a lake",
        "delta:///var/100%25",
        "s3://bucket",
        "s3://bucket/prefix?endpoint=http://127.0.0.1:9000&region=us-east-1",
    ],
)
def test_an_address_survives_being_written_down(text: str) -> None:
    store = parse_store_url(text)
    assert parse_store_url(str(store)) == store


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("/var/lake", "expected delta:///path or s3://bucket/prefix"),
        ("delta://", "expected a path"),
        ("delta:///lake?x=1", "expected a path and nothing else"),
        ("postgresql://localhost/nexus", "in postgresql has none"),
        ("etcd://localhost:2379", "this works on tables in files"),
        ("ftp://host/lake", "unknown kind ftp:"),
        ("s3:///prefix", "is not a bucket's name"),
        ("s3://B!/prefix", "is not a bucket's name"),
        ("s3://bucket/prefix?secret=abc", "credentials come from the environment"),
    ],
)
def test_a_wrong_address_says_what_would_be_right(text: str, said: str) -> None:
    with pytest.raises(StoreError, match=said):
        parse_store_url(text)
