"""What a proxy does not do: hold more bytes, or serve more connections, than it was told."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.broker import BrokerProcess
from support.proxies import ProxyProcess
from support.waiting import wait_until

CONNECTIONS = 4
BODY = b'{"payload": "%b"}' % (b"x" * 50_000)


@pytest.fixture
def small(broker: BrokerProcess, tmp_path: Path) -> Iterator[ProxyProcess]:
    environ = {
        "NEXUS_PROXY_CONNECTIONS": str(CONNECTIONS),
        "NEXUS_PROXY_IN_FLIGHT_SIZE": "64KB",
        "NEXUS_PROXY_BODY_SIZE": "64KB",
    }
    made = ProxyProcess(tmp_path / "small", broker.bootstrap, environ=environ)
    try:
        yield made.start()
        assert "Traceback" not in made.said
    finally:
        made.stop()


def test_bytes_and_connections_are_bounded(small: ProxyProcess) -> None:
    with socket.create_connection(("127.0.0.1", small.port)) as slow:
        head = f"POST /produce?topic=bounded HTTP/1.1\r\nHost: x\r\nContent-Length: {len(BODY)}"
        slow.sendall(head.encode() + b"\r\n\r\n" + BODY[:1000])
        wait_until(lambda: small.get("/status").json()["in_flight_bytes"] == len(BODY))
        refused = small.post("/produce?topic=bounded", content=BODY)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert "bytes of other requests" in refused.json()["detail"]
        slow.sendall(BODY[1000:])
        assert slow.recv(100).startswith(b"HTTP/1.1 200 ")
    assert small.post("/produce?topic=bounded", content=BODY).is_success

    with ExitStack() as stack:
        for _ in range(CONNECTIONS):
            stack.enter_context(socket.create_connection(("127.0.0.1", small.port)))

        def is_full() -> bool:
            answer = small.get("/health")
            return answer.status_code == 503 and "connections are open" in answer.text

        wait_until(is_full, what="one connection too many to be refused")
    wait_until(lambda: small.get("/health").is_success, what="room again")
