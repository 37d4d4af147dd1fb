"""`rediss://`: only who is known may ask, and only a server that is who it says is asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from nexus.cli.entry import run
from support.broker import BrokerProcess
from support.certificates import make_authority, make_certificate
from support.ports import free_port
from support.redis import RedisServer, messages_in


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    make_authority(folder)
    make_authority(folder, "stranger")
    make_certificate(folder, "server", "DNS:localhost")
    make_certificate(folder, "client", "DNS:client.example", "clientAuth")
    return folder


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, certificates: Path) -> Iterator[str]:
    """Of a list with two elements, in a server that wants a client's certificate."""
    port = free_port()
    said = {"port": port, "cert-file": certificates / "server.pem", "auth-clients": "yes"}
    said |= {"key-file": certificates / "server.key", "ca-cert-file": certificates / "ca.pem"}
    flags = [word for name, value in said.items() for word in (f"--tls-{name}", str(value))]
    server = RedisServer(tmp_path_factory.mktemp("redis"), tuple(flags)).start()
    server.client().rpush("safe", "one", "two")
    yield f"rediss://localhost:{port}/0?list=safe"
    server.kill()


def test_a_server_that_cannot_be_trusted_is_not_asked_and_one_that_can_is_emptied(
    address: str,
    certificates: Path,
    broker: BrokerProcess,
    topic: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    queue = f"kafka://{broker.bootstrap}/{topic}"
    known = f"{address}&cert={certificates}/client.pem&key={certificates}/client.key"
    trusting = f"{known}&ca={certificates}/ca.pem"
    for url, why in [
        (known, "certificate verify failed"),
        (f"{known}&ca={certificates}/stranger.pem", "certificate verify failed"),
        (trusting.replace("localhost", "127.0.0.1"), "IP address mismatch"),
        # Who shows no certificate is hung up on, without a word.
        (f"{address}&ca={certificates}/ca.pem", "rediss://localhost"),
        (f"{known}&ca={certificates}/none.pem", "No such file"),
    ]:
        assert run(["queue", "import", url, "--queue", queue]) != 0, url
        assert why in capsys.readouterr().err, url
    assert run(["queue", "import", trusting, "--queue", queue, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["moved"] == 2
    assert sorted(message.value for message in messages_in(queue)) == [b"one", b"two"]
