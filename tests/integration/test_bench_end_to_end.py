"""`nexus bench e2e`'s measurement on a real broker, and the progress that it tells of."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from nexus.bench.clients import Load
from nexus.bench.end_to_end import measure
from nexus.bench.local_broker import LocalBroker

MESSAGES = 20_000


def test_every_message_goes_through_and_progress_is_told(tmp_path: Path) -> None:
    heard: list[int] = []
    with LocalBroker(tmp_path / "data") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("through", 2, 1)])["through"].result(30)
        load = Load(broker.bootstrap, "through", MESSAGES, 100)
        through = measure(load, partitions=2, producers=2, on_progress=heard.append)
    assert (through.messages, through.failed) == (MESSAGES, 0)
    assert heard == sorted(heard)
    # Counted twice: when it was sent, and when it was read.
    assert heard[-1] == 2 * MESSAGES
