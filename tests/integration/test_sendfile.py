"""Large plaintext fetches leave the broker by sendfile: the records never enter its memory."""

from __future__ import annotations

from pathlib import Path

from support.broker import BrokerProcess
from support.confluent import read, send
from support.tracing import results, traced

VALUE = b"r" * 10_000
COUNT = 200


def test_large_fetches_use_sendfile(own_broker: BrokerProcess, tmp_path: Path, name: str) -> None:
    send(own_broker.bootstrap, name, [VALUE] * COUNT, **{"linger.ms": 20})
    with traced(own_broker.pid, tmp_path / "strace", "-e", "trace=sendfile") as log:
        found = read(own_broker.bootstrap, name, COUNT)
    assert [message.value() for message in found] == [VALUE] * COUNT
    sent = sum(size for size in results(log, "sendfile") if size > 0)
    assert sent >= COUNT * len(VALUE) * 0.9, log.read_text()[-2000:]
