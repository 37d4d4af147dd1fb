"""The proxy's settings: the names that operators know work as they stand."""

from __future__ import annotations

import pytest

from nexus.settings import SettingsError
from nexus.settings.proxy import ProxySection, load_proxy_settings


def proxy(**environ: str) -> ProxySection:
    return load_proxy_settings(environ=environ).proxy


def test_defaults_serve_the_broker_of_this_machine() -> None:
    own = proxy()
    assert (own.host, own.port) == ("127.0.0.1", 8080)
    assert own.addresses == (("127.0.0.1", 9092),)
    assert not own.is_static
    assert not own.open_to_network


def test_port_is_where_clients_connect() -> None:
    assert proxy(PORT="8099").port == 8099


def test_broker_service_and_count_name_the_brokers() -> None:
    own = proxy(BROKER_SERVICE="msg-queue.default.svc", BROKER_COUNT="3")
    assert own.addresses == (
        ("msg-queue-0.msg-queue.default.svc", 9092),
        ("msg-queue-1.msg-queue.default.svc", 9092),
        ("msg-queue-2.msg-queue.default.svc", 9092),
    )
    assert own.is_static


def test_a_broker_service_may_carry_a_port() -> None:
    assert proxy(BROKER_SERVICE="msg-queue:9095").addresses == (("msg-queue-0.msg-queue", 9095),)


def test_virtual_nodes_and_max_partitions() -> None:
    own = proxy(VIRTUAL_NODES="40", MAX_PARTITIONS="50")
    assert (own.virtual_nodes, own.max_partitions) == (40, 50)


@pytest.mark.parametrize(("said", "seconds"), [("10", 10), ("30s", 30), ("2m", 120)])
def test_health_interval_is_in_seconds(said: str, seconds: int) -> None:
    assert proxy(HEALTH_INTERVAL_SECONDS=said).health_interval_s == seconds


def test_timeouts_have_units() -> None:
    own = proxy(NEXUS_PROXY_REQUEST_TIMEOUT="5s", NEXUS_PROXY_CONNECT_TIMEOUT="500ms")
    assert (own.request_timeout_ms, own.connect_timeout_ms) == (5000, 500)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "a"),
        ("BROKER_COUNT", "0"),
        ("BROKER_SERVICE", "msg..queue"),
        ("BROKER_SERVICE", "msg-queue:x"),
        ("VIRTUAL_NODES", "0"),
        ("MAX_PARTITIONS", "-1"),
        ("HEALTH_INTERVAL_SECONDS", "soon"),
    ],
)
def test_a_wrong_value_is_one_line_that_names_it(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=name):
        proxy(**{name: value})


def test_brokers_are_a_list() -> None:
    own = proxy(NEXUS_PROXY_BROKERS="a:1,b:2")
    assert own.addresses == (("a", 1), ("b", 2))


def test_a_host_of_the_network_is_open() -> None:
    assert proxy(NEXUS_PROXY_HOST="0.0.0.0").open_to_network
