"""The address of a store in InfluxDB: how it is reached, and never who asks."""

from pathlib import Path

import pytest

from nexus.lake.errors import StoreError
from nexus.store.influx.url import parse_influx_url


def test_how_a_store_is_reached_is_not_part_of_its_name() -> None:
    url = parse_influx_url("influxdb://db:8087/nexus?ssl=true&ca=/etc/ca.pem&gzip=false")
    assert str(url) == url.name == "influxdb://db:8087/nexus"
    assert (url.base, url.ca, url.gzip) == ("https://db:8087", "/etc/ca.pem", False)


def test_lines_are_packed_unless_they_stay_on_the_machine() -> None:
    assert parse_influx_url("influxdb://db/nexus").gzip
    assert not parse_influx_url("influxdb://127.0.0.1/nexus").gzip
    assert parse_influx_url("influxdb://localhost/nexus?gzip=yes").gzip
    assert parse_influx_url("influxdb://[::1]:1/nexus").base == "http://[::1]:1"


def test_who_asks_is_in_the_environment_or_in_a_file(tmp_path: Path) -> None:
    url = parse_influx_url("influxdb://db/nexus")
    assert url.credentials({}) is None
    said = {"INFLUX_USERNAME": "me", "INFLUX_PASSWORD": "s3:cret"}
    assert url.credentials(said) == ("me", "s3:cret")
    file = tmp_path / "pass"
    url = parse_influx_url(f"influxdb://db/nexus?passfile={file}")
    with pytest.raises(StoreError, match="cannot be read"):
        url.credentials({})
    file.write_text("only one word\n")
    with pytest.raises(StoreError, match="user:password"):
        url.credentials(said)
    file.write_text("you:s3:cret\n")
    assert url.credentials(said) == ("you", "s3:cret")
    assert "s3" not in repr(url)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("influxdb://me:s3cret@db/nexus", "INFLUX_PASSWORD"),
        ("influxdb://me@db/nexus", "passfile"),
        ("influxdb://db", "names no database"),
        ("influxdb://db/a/b", "names no database"),
        ("influxdb://db:x/nexus", "expected influxdb://"),
        ("influxdb:///nexus", "expected influxdb://"),
        ("influxdb://db/nexus?ssl=maybe", "true or false"),
        ("influxdb://db/nexus?password=s3cret", "unknown option"),
        ("influx://db/nexus", "expected influxdb://"),
    ],
)
def test_a_wrong_address_is_told_without_a_secret_in_it(text: str, says: str) -> None:
    with pytest.raises(StoreError, match=says) as raised:
        parse_influx_url(text)
    assert "s3cret" not in str(raised.value)
