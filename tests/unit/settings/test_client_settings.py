"""Where clients find the queue: the flag, the environment, this machine."""

import pytest

from nexus.settings import SettingsError
from nexus.settings.client import bootstrap_servers


@pytest.mark.parametrize(
    ("flag", "environ", "servers"),
    [
        (None, {}, "127.0.0.1:9092"),
        ("a:1,b:2", {"NEXUS_BOOTSTRAP": "c:3"}, "a:1,b:2"),
        (None, {"NEXUS_BOOTSTRAP": "c:3", "MSG_QUEUE_URL": "kafka://d:4"}, "c:3"),
        (None, {"MSG_QUEUE_URL": "kafka://d:4,e:5/gpu-telemetry"}, "d:4,e:5"),
        ("kafka://[::1]:9092/t", {}, "[::1]:9092"),
    ],
)
def test_the_strongest_address_is_used(
    flag: str | None, environ: dict[str, str], servers: str
) -> None:
    assert bootstrap_servers(flag, environ=environ) == servers


@pytest.mark.parametrize("flag", ["", "host", "kafka://", "a:1,b", "http://a:1", "etcd://a:2379"])
def test_an_address_that_is_not_kafkas_is_refused(flag: str) -> None:
    with pytest.raises(SettingsError, match=r"flag --bootstrap: found .*, expected .*host:port"):
        bootstrap_servers(flag, environ={})
