"""What an exporter:// address may say."""

from __future__ import annotations

import pytest

from nexus.streamer.sources.exporter_target import ExporterUrlError, parse_exporter_url
from nexus.streamer.sources.port import Shard, SourceOptions

OPTIONS = SourceOptions(interval_s=3.0, timeout_s=5.0)


def urls(address: str) -> list[str]:
    return [target.url for target in parse_exporter_url(address, OPTIONS).targets]


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("exporter://h1:9400,h2:9500", ["http://h1:9400/metrics", "http://h2:9500/metrics"]),
        ("exporter://h1, h2/", ["http://h1:9400/metrics", "http://h2:9400/metrics"]),
        (
            "exporter://h1,h2/gpu/metrics",
            ["http://h1:9400/gpu/metrics", "http://h2:9400/gpu/metrics"],
        ),
        ("exporter://https://h1/m,http://h2:80", ["https://h1:443/m", "http://h2:80/metrics"]),
        ("exporter://[::1]:9400", ["http://[::1]:9400/metrics"]),
        ("exporter://h1:9400,h1:9400", ["http://h1:9400/metrics"]),
    ],
)
def test_addresses_become_endpoints(address: str, expected: list[str]) -> None:
    assert urls(address) == expected


def test_an_instance_is_named_as_prometheus_names_it() -> None:
    (target,) = parse_exporter_url("exporter://dgx-01", OPTIONS).targets
    assert (target.instance, target.host) == ("dgx-01:9400", "dgx-01")


def test_a_password_is_used_but_not_shown() -> None:
    (target,) = parse_exporter_url("exporter://https://me:secret@h1/m", OPTIONS).targets
    assert target.url == "https://me:secret@h1:443/m"
    assert (target.instance, target.page) == ("h1:443", "h1:443/m")


def test_the_address_is_stronger_than_the_options() -> None:
    plain = parse_exporter_url("exporter://h", OPTIONS)
    told = parse_exporter_url("exporter://h?interval=15s&timeout=500ms&body_max=1MB", OPTIONS)
    assert (plain.interval_s, plain.timeout_s) == (3.0, 5.0)
    assert (told.interval_s, told.timeout_s, told.body_max) == (15.0, 0.5, 1 << 20)


def test_shards_share_the_endpoints_without_overlap() -> None:
    address = "exporter://" + ",".join(f"h{n}:9400" for n in range(50))
    shares = [
        {t.url for t in parse_exporter_url(address, SourceOptions(shard=Shard(i, 3))).targets}
        for i in range(3)
    ]
    assert sum(map(len, shares)) == 50
    assert len(set.union(*shares)) == 50


@pytest.mark.parametrize(
    "address",
    [
        "exporter://",
        "exporter://?interval=1s",
        "http://h:9400",
        "exporter://h:port",
        "exporter://ftp://h",
        "exporter://h?interval=soon",
        "exporter://h?interval=1ms",
        "exporter://h?timeout=0s",
        "exporter://h?body_max=big",
        "exporter://h?intervall=1s",
    ],
)
def test_what_makes_no_sense_is_one_clear_error(address: str) -> None:
    with pytest.raises(ExporterUrlError) as caught:
        parse_exporter_url(address, OPTIONS)
    assert "\n" not in str(caught.value)
