"""`nexus gateway`: its flags become settings."""

import pytest

from nexus.cli.entry import run
from nexus.settings.gateway import GatewaySettings


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[GatewaySettings]:
    """What the gateway was started with, instead of starting it."""
    calls: list[GatewaySettings] = []

    def keep(settings: GatewaySettings, *, follow: object = None) -> int:
        calls.append(settings)
        return 0

    monkeypatch.setattr("nexus.gateway.main.run", keep)
    monkeypatch.delenv("MSG_QUEUE_URL", raising=False)
    return calls


def test_every_flag_is_a_setting(started: list[GatewaySettings]) -> None:
    words = (
        "gateway --store s3://lake/x --queue kafka://h:1/t --port 81 --host 0.0.0.0"
        " --collector-url http://c:9466 --workers 7"
    )
    assert run(words.split()) == 0
    own = started[0].gateway
    assert (own.store, own.queue) == ("s3://lake/x", "kafka://h:1/t")
    assert (own.port, own.host, own.workers) == (81, "0.0.0.0", 7)
    assert own.collector_url == "http://c:9466"


def test_without_flags_it_is_all_defaults(started: list[GatewaySettings]) -> None:
    assert run(["gateway"]) == 0
    assert started == [GatewaySettings()]
