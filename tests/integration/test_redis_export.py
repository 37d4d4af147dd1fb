"""`nexus queue export` to a real Redis: each message once, byte for byte, and back again."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nexus.cli.entry import run
from nexus.etcd.blocking import BlockingClient
from nexus.queue.opening import open_publisher, open_reader
from nexus.queue.port import Message
from nexus.queue.publishing import PublisherOptions
from nexus.telemetry.arrow_codec import encode_arrow
from support.broker import NEXUS, BrokerProcess
from support.etcd import EtcdMember
from support.etcd_queue import TestQueue
from support.needs import need_program
from support.queues import numbered
from support.redis import RedisServer, messages_in, queue_command
from support.waiting import wait_until

Out = pytest.CaptureFixture[str]
PAGE = Path(__file__).parents[2] / "docs" / "migrating-from-redis.md"
HOSTILE = [b"\x00\xff", b"", bytes(range(256)), b'{"uuid": "GPU-1"}', b"\r\n$-1\r\n", b"y" * 99_999]
ARROW = (("content-type", b"application/vnd.apache.arrow.stream"), ("count", b"9"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    redis = RedisServer(tmp_path_factory.mktemp("redis")).start()
    yield redis
    redis.kill()


def published(queue: str, messages: list[Message], partitions: int = 3) -> None:
    publisher = open_publisher(queue, PublisherOptions(partitions=partitions))
    try:
        publisher.publish(messages, lambda _: None)
        assert publisher.flush(30) == 0
    finally:
        publisher.close()


def called(capsys: Out, *words: str, code: int = 0) -> Any:
    capsys.readouterr()
    assert run(["queue", *words, "--json"]) == code, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def test_a_topic_goes_to_a_stream_and_back_byte_for_byte(
    server: RedisServer, broker: BrokerProcess, name: str, capsys: Out
) -> None:
    there, back = (f"kafka://{broker.bootstrap}/{name}-{word}" for word in ("there", "back"))
    table = encode_arrow(numbered(0, 9))
    published(there, [Message(v, b"k%d" % n, (("h", v),)) for n, v in enumerate(HOSTILE)])
    published(there, [Message(table, None, ARROW)])
    reader = open_reader(there)
    total, address = len(HOSTILE) + 1, server.url("stream", name)
    assert called(capsys, "export", address, "--queue", there)["moved"] == total
    assert called(capsys, "export", address, "--queue", there)["moved"] == 0
    assert called(capsys, "import", address, "--queue", back)["moved"] == total
    found = messages_in(back)
    assert Counter(m.value for m in found) == Counter([*HOSTILE, table])
    keyed = {m.key: m for m in found}
    for number, value in enumerate(HOSTILE):
        assert keyed[b"k%d" % number].value == dict(keyed[b"k%d" % number].headers)["h"] == value
    (arrow,) = (m for m in found if m.value == table)
    assert set(ARROW) <= set(arrow.headers)

    # A group that has done all but the readings in Arrow; as consumers in Redis can read them.
    ends = {number: bounds.end for number, bounds in reader.bounds().items()}
    last = next(m for m in messages_in(there) if m.value == table)
    reader.commit("done", {**ends, last.partition: last.offset})
    reader.close()
    other = server.url("stream", f"{name}-2", "&form=fields")
    words = ["--queue", there, "--group", "done", "--readings"]
    left_out = ends[last.partition] - last.offset
    assert called(capsys, "export", other, *words)["moved"] == left_out
    rows = [fields for _, fields in server.client().xrange(f"{name}-2") if b"uuid" in fields]
    assert [row[b"value"] for row in rows if b"metric_name" in row] == [b"%d" % n for n in range(9)]


def test_an_export_that_is_killed_goes_on_and_writes_nothing_twice(
    server: RedisServer, broker: BrokerProcess, name: str, capsys: Out
) -> None:
    redis, queue = server.client(), f"kafka://{broker.bootstrap}/{name}"
    words = ["export", server.url("list", name), "--queue", queue]
    for total in range(10_000, 100_000, 10_000):  # it may be done before it is killed
        published(queue, [Message(b"%d" % n, b"%d" % n) for n in range(total - 10_000, total)])
        before = redis.llen(name)
        with queue_command(*words) as killed:
            wait_until(lambda least=before: redis.llen(name) > least, within=60, every=0.001)  # type: ignore[misc]
            os.kill(killed.pid, signal.SIGKILL)
        written = redis.llen(name)
        if written < total:
            break
    assert called(capsys, *words)["moved"] == total - written > 0
    assert sorted(map(int, redis.lrange(name, 0, -1))) == list(range(total))


def test_a_queue_in_etcd_is_emptied_into_a_list_once_each(
    server: RedisServer, etcd: EtcdMember, name: str, capsys: Out
) -> None:
    redis = server.client()
    with BlockingClient(etcd.config()) as client:
        queue = TestQueue(client, etcd.endpoint, f"/{name}")
        published(queue.address, [Message(b'{"n": %d}' % n, b"%d" % n) for n in range(6_000)])
        published(queue.address, [Message(v, None, (("content-type", b"x"),)) for v in HOSTILE])
        words = ["export", server.url("list", name, "&end=right"), "--queue", queue.address]
        with queue_command(*words) as killed:
            wait_until(lambda: redis.llen(name) > 500, within=60, every=0.001)
            os.kill(killed.pid, signal.SIGKILL)
        client.put(queue.layout.meta("collectors", "all"), b"{}")
        assert run(["queue", *words]) == 2
        assert "a collector reads it; stop it first" in capsys.readouterr().err
        client.delete(queue.layout.metas("collectors"))
        assert called(capsys, *words)["left"] == 0
        assert queue.waiting() == []
        assert queue.totals().expired == 0
    found = Counter(redis.lrange(name, 0, -1))
    assert found == Counter([*HOSTILE, *(b'{"n": %d}' % n for n in range(6_000))])
    assert redis.scard(f"{name}:nexus-export:seen") <= 500  # of the one that was killed


def test_every_command_of_the_page_leads_there_and_back(
    server: RedisServer, broker: BrokerProcess, etcd: EtcdMember, name: str, tmp_path: Path
) -> None:
    """The page's blocks as they stand, in one shell; only ports and the topic differ."""
    page = PAGE.read_text()
    blocks = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    assert sum(block.count("nexus queue ") for block in blocks) >= 6
    script = "\n".join(["set -e", *blocks])
    for documented, own in (
        ("127.0.0.1:6379", f"127.0.0.1:{server.port}"),
        ("127.0.0.1:9092", broker.bootstrap),
        ("127.0.0.1:2379", etcd.endpoint),
        ("gpu-telemetry", name),
        ("redis-cli", f"{need_program('redis-cli')} -p {server.port}"),
    ):
        assert documented in script
        script = script.replace(documented, own)
    path = f"{NEXUS.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    promised = re.findall(r"^[^#\n].*# prints: (.+)$", "\n".join(blocks), re.MULTILINE)
    said = done.stdout.splitlines()
    assert promised
    assert [line for line in promised if line not in said] == [], done.stdout + done.stderr
