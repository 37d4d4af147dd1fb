"""`nexus queue dlq`: dead letters are listed, shown, put back and thrown away."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from nexus.wire.messages.share_fetch import AcknowledgeType
from support.broker import NEXUS, BrokerProcess
from support.confluent import admin_of, create_topic, deliver, producer_of
from support.sharing import Member
from support.waiting import wait_until

pytestmark = pytest.mark.timeout(120)


def dlq(broker: BrokerProcess, *arguments: str) -> Any:
    command = [str(NEXUS), "queue", "dlq", *arguments, "--json"]
    command += ["--queue", f"kafka://{broker.bootstrap}/jobs"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def reject_all(broker: BrokerProcess, count: int) -> None:
    with Member(broker.port, "workers", "jobs") as member:
        offsets = [one.offset for one in member.take_all(count)]
        assert member.settle(offsets, AcknowledgeType.REJECT, reason="no such host") == 0


def test_dead_letters_from_their_death_to_their_end(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    broker.start()
    try:
        create_topic(admin_of(broker.bootstrap), "jobs")
        assert dlq(broker, "list") == []
        producer = producer_of(broker.bootstrap)
        deliver(producer, "jobs", [b"a", b"b", b"c"], key=b"k", headers={"h": b"x"})
        reject_all(broker, 3)
        wait_until(lambda: len(dlq(broker, "list")) == 3, within=40)
        listed = dlq(broker, "list")
        assert listed[1] == {
            "letter": "0:1",
            "reason": "no such host",
            "topic": "jobs",
            "partition": "0",
            "offset": "1",
            "attempts": "1",
            "group": "workers",
        }
        shown = dlq(broker, "show", "0:1")
        assert (shown["key"], shown["value"], shown["headers"]) == ("k", "b", {"h": "x"})
        assert dlq(broker, "list", "--reason", "other") == []

        assert dlq(broker, "replay", "--max", "2", "--yes") == {"replayed": 2}
        assert [one["letter"] for one in dlq(broker, "list")] == ["0:2"]
        with Member(broker.port, "workers", "jobs") as member:
            back = member.take_all(2)
        assert [(one.record.key, one.record.value) for one in back] == [(b"k", b"a"), (b"k", b"b")]
        assert back[0].record.headers == (("h", b"x"),)

        assert dlq(broker, "purge", "--yes") == {"purged": 1}
        assert dlq(broker, "list") == []
        assert broker.faults() == []
    finally:
        broker.kill()
