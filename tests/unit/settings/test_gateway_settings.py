"""The gateway's settings: defaults, strength, and one line for each mistake."""

from pathlib import Path

import pytest

from nexus.settings import FlagValue, SettingsError, load_broker_settings
from nexus.settings.gateway import GatewaySettings, load_gateway_settings


def test_the_defaults_are_what_the_documents_say() -> None:
    settings = load_gateway_settings(environ={})
    own = settings.gateway
    assert settings == GatewaySettings()
    assert (own.host, own.port) == ("127.0.0.1", 8080)
    assert own.store == "delta:./data/tables"
    assert own.queue is None
    assert own.collector_url == "http://127.0.0.1:9466"
    assert (own.workers, own.waiting, own.timeout_ms) == (4, 512, 30_000)
    assert (own.unknown_after_ms, own.grace_ms) == (120_000, 3000)
    assert not own.open_to_network


def test_flag_environment_and_file_in_their_order(tmp_path: Path) -> None:
    file = tmp_path / "nexus.yaml"
    file.write_text("gateway:\n  port: 1\n  host: localhost\n  workers: 2\n")
    environ = {"NEXUS_GATEWAY_PORT": "2", "MSG_QUEUE_URL": "kafka://b:9092/t"}
    flags = {"gateway.port": FlagValue("--port", 3)}
    own = load_gateway_settings(file, flags=flags, environ=environ).gateway
    assert (own.port, own.workers, own.queue) == (3, 2, "kafka://b:9092/t")
    shown = {s.name: s for s in load_gateway_settings(file, environ={}).shown()}
    assert shown["gateway.port"].value == "1"
    assert shown["gateway.port"].source == f"{file}:2"
    assert load_broker_settings(file, environ={}).broker.port == 9092


@pytest.mark.parametrize(
    ("host", "is_open"),
    [("127.0.0.9", False), ("::1", False), ("0.0.0.0", True), ("::", True), ("gw.example", True)],
)
def test_whether_other_machines_can_reach_it(host: str, is_open: bool) -> None:
    own = load_gateway_settings(environ={"NEXUS_GATEWAY_HOST": host}).gateway
    assert own.open_to_network is is_open


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("port", 70_000),
        ("collector_url", "127.0.0.1:9466"),
        ("collector_url", "http://h:port"),
        ("collector_url", "http://h:1/metrics"),
        ("collector_url", "http://"),
        ("workers", 0),
        ("timeout", 5),
    ],
)
def test_a_mistake_is_one_line_that_names_the_flag(key: str, value: object) -> None:
    with pytest.raises(SettingsError) as refused:
        load_gateway_settings(flags={f"gateway.{key}": FlagValue("--it", value)}, environ={})
    assert str(refused.value).startswith(f"flag --it: gateway.{key}: found ")
    assert "\n" not in str(refused.value)
