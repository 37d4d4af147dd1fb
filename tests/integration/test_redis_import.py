"""`nexus queue import` from a real Redis: lists and streams, into the broker and into etcd.

Whoever dies, Redis or the import, and whenever: all that was in Redis is in the queue in the end.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nexus.cli.entry import run
from nexus.etcd.blocking import BlockingClient
from nexus.queue.etcd.forms import unpack
from nexus.queue.port import Received
from nexus.queue.redis.client import RedisClient
from nexus.queue.redis.entries import message_of
from nexus.queue.redis.importing import Import
from nexus.queue.redis.lists import ListSource
from nexus.queue.redis.lock import Taken
from nexus.queue.redis.source import Source
from nexus.queue.redis.streams import StreamSource
from nexus.queue.redis.url import parse_redis_url
from support.broker import BrokerProcess
from support.etcd import EtcdMember
from support.etcd_queue import TestQueue
from support.queues import MemoryQueue
from support.redis import RedisServer, messages_in, queue_command
from support.waiting import wait_until

Out = pytest.CaptureFixture[str]
HOSTILE = [
    b"",
    b"\x00",
    bytes(range(256)) * 3,
    b"\xff\xff\xff\xff\x00not arrow",
    b'{"uuid": "GPU-1", "value": "\xf0\x9f\x92\xa5"}',
    b'{"uuid": 7',
    b"\r\n*1\r\n$4\r\nQUIT\r\n",
    b'{"a": 1}\n{"b": 2}',
    b"x" * 200_000,
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    redis = RedisServer(tmp_path_factory.mktemp("redis")).start()
    yield redis
    redis.kill()


@pytest.fixture
def redis(server: RedisServer) -> Any:
    return server.client()


@pytest.fixture
def queue(etcd: EtcdMember, name: str) -> Iterator[TestQueue]:
    with BlockingClient(etcd.config()) as client:
        yield TestQueue(client, etcd.endpoint, f"/{name}")


def imported(capsys: Out, *words: str, code: int = 0) -> Any:
    capsys.readouterr()
    assert run(["queue", "import", *words, "--json"]) == code, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def payloads(queue: TestQueue) -> Counter[bytes]:
    return Counter(frame.value for item in queue.waiting() for frame in unpack(item.value))


def header(message: Received, name: str) -> bytes | None:
    return dict(message.headers).get(name)


def once_each(messages: list[Received]) -> dict[bytes, bytes]:
    """Payloads by `redis-id`: of those that came twice, both are the same."""
    by_id: dict[bytes, bytes] = {}
    for message in messages:
        found = header(message, "redis-id")
        assert found is not None
        assert by_id.setdefault(found, message.value) == message.value
    return by_id


def source_of(server: RedisServer, kind: str, key: str, **options: Any) -> Source:
    client = RedisClient(parse_redis_url(server.url(kind, key)))
    if kind == "list":
        return ListSource(client)
    return StreamSource(client, idle_ms=options.get("idle_ms", 60_000), make=True)


def started(
    source: Source, queue: MemoryQueue, stop: threading.Event, **options: Any
) -> threading.Thread:
    url = parse_redis_url("redis:///0?list=any")
    whole = Import(source, queue, lambda entry: message_of(entry, url), stop, **options)
    thread = threading.Thread(target=whole.run)
    thread.start()
    return thread


def test_a_list_is_emptied_byte_for_byte_and_in_order_also_when_redis_is_full(
    server: RedisServer, redis: Any, broker: BrokerProcess, name: str, capsys: Out
) -> None:
    readings = [b'{"uuid": "GPU-%d", "value": %d}' % (n % 5, n) for n in range(2500)]
    redis.rpush(name, *readings, *HOSTILE)
    redis.config_set("maxmemory", 1)  # a Redis that takes nothing more can still be emptied
    try:
        address = f"kafka://{broker.bootstrap}/{name}"
        said = imported(capsys, server.url("list", name), "--queue", address, "--partitions", "3")
    finally:
        redis.config_set("maxmemory", 0)
    found = messages_in(address)
    assert said["moved"] == len(found) == len(readings) + len(HOSTILE)
    assert (said["left"], said["refused"], said["recovered"]) == (0, 0, 0)
    assert Counter(m.value for m in found) == Counter([*readings, *HOSTILE])
    assert redis.keys(f"{name}*") == [f"{name}:nexus-import:done".encode()]
    for gpu in range(5):
        of_gpu = [m for m in found if m.key == b"GPU-%d" % gpu and b"\xf0" not in m.value]
        assert [m.value for m in of_gpu] == readings[gpu::5]
        assert {header(m, "content-type") for m in of_gpu} == {b"application/json"}
    raw = next(m for m in found if m.value == HOSTILE[2])
    assert header(raw, "content-type") == b"application/octet-stream"
    assert raw.key == header(raw, "redis-id") == b"2502"


def test_nothing_of_a_list_is_lost_when_imports_are_killed(
    server: RedisServer, redis: Any, broker: BrokerProcess, name: str, capsys: Out
) -> None:
    total, kills, address = 0, 0, f"kafka://{broker.bootstrap}/{name}"
    words = [server.url("list", name), "--queue", address]
    for _ in range(10):  # some may be done before they are killed
        numbers = range(total, total + 8_000)
        redis.rpush(name, *(b'{"uuid": "GPU-%d", "value": %d}' % (n % 64, n) for n in numbers))
        total += 8_000
        before = redis.llen(name)
        with queue_command("import", *words) as killed:
            wait_until(lambda most=before: redis.llen(name) < most, within=60, every=0.001)  # type: ignore[misc]
            os.kill(killed.pid, signal.SIGKILL)
        kills += redis.llen(name) + redis.llen(f"{name}:nexus-import") > 0
        if kills == 2:
            break
    assert kills == 2
    said = imported(capsys, *words)
    assert said["left"] == redis.llen(f"{name}:nexus-import") == 0
    found = messages_in(address)
    by_id = once_each(found)
    assert sorted(json.loads(value)["value"] for value in by_id.values()) == list(range(total))
    assert len(found) - total <= kills * 8_000  # what they had on its way


def test_a_stream_goes_to_etcd_with_what_dead_consumers_held(
    server: RedisServer, redis: Any, queue: TestQueue, name: str, capsys: Out
) -> None:
    total, key = 8_000, f"s:{name}"
    line = redis.pipeline()
    for n in range(total):
        line.xadd(key, {"uuid": f"GPU-{n % 64}", "value": n, "metric_name": "x"}, id=f"{n + 1}-0")
    line.execute()
    redis.xgroup_create(key, "workers", 0)
    dead = redis.xreadgroup("workers", "dead", {key: ">"}, count=100)[0][1]
    redis.xack(key, "workers", *(id_ for id_, _ in dead[:10]))
    words = [server.url("stream", key, "&group=workers"), "--queue", queue.address]
    words += ["--idle", "100ms"]
    with queue_command("import", *words) as killed:
        wait_until(lambda: queue.count(queue.layout.messages) > 1_000, within=60, every=0.001)
        os.kill(killed.pid, signal.SIGKILL)
    said = imported(capsys, *words)
    assert (said["left"], said["gone"]) == (0, 0)
    assert redis.xpending(key, "workers")["pending"] == 0
    assert redis.xlen(key) == total  # for whoever else wants it
    found = payloads(queue)
    assert sorted(json.loads(value)["value"] for value in found) == list(range(10, total))
    assert json.loads(next(iter(found))).keys() == {"uuid", "value", "metric_name"}


@pytest.mark.parametrize("kind", ["list", "stream"])
def test_nothing_is_done_in_redis_before_the_queue_has_confirmed_it(
    server: RedisServer, redis: Any, name: str, kind: str
) -> None:
    for n in range(10):
        redis.rpush(name, n) if kind == "list" else redis.xadd(name, {"n": n})
    queue, stop = MemoryQueue(), threading.Event()
    source = source_of(server, kind, name)
    thread = started(source, queue, stop, follow=True)
    wait_until(lambda: len(queue.held) == 10 and source.left() == 0)
    queue.away = True
    redis.rpush(name, b"late") if kind == "list" else redis.xadd(name, {"n": b"late"})
    wait_until(lambda: queue.waiting)
    rival = source_of(server, kind, name)
    with pytest.raises(Taken, match="imports it now"):
        rival.open()
    assert source.left() == 1
    queue.come_back()
    wait_until(lambda: source.left() == 0)
    stop.set()
    thread.join(20)
    assert [m.value for m in queue.held] == [*(b"%d" % n for n in range(10)), b"late"]
    source_of(server, kind, name).open()  # at once: the lock was given back
    assert not thread.is_alive()


@pytest.mark.parametrize("kind", ["list", "stream"])
def test_what_the_queue_refuses_is_set_aside_and_the_rest_goes_on(
    server: RedisServer, broker: BrokerProcess, name: str, kind: str, capsys: Out
) -> None:
    redis = server.client()
    huge = bytes(2 << 20)
    for value in (b"a", huge, b"b"):
        redis.rpush(name, value) if kind == "list" else redis.xadd(name, {"x": value})
    address = f"kafka://{broker.bootstrap}/{name}"
    said = imported(capsys, server.url(kind, name), "--queue", address, code=1)
    assert (said["moved"], said["refused"], said["left"]) == (2, 1, 0)
    assert {m.value for m in messages_in(address)} == {b"a", b"b"}
    aside = f"{name}:nexus-refused"
    kept = redis.lrange(aside, 0, -1) if kind == "list" else redis.xrange(aside)[0][1].values()
    assert list(kept) == [huge]


def test_it_follows_producers_through_a_crash_of_redis_until_ctrl_c(
    tmp_path: Path, broker: BrokerProcess, name: str
) -> None:
    server = RedisServer(tmp_path).start()
    address = f"kafka://{broker.bootstrap}/{name}"
    try:
        words = ["import", server.url("list", name), "--follow", "--json", "--queue", address]
        with queue_command(*words) as process:
            first, second = range(3_000), range(3_000, 6_000)
            server.client().rpush(name, *first)
            wait_until(lambda: server.client().llen(name) < 3_000, within=60, every=0.001)
            server.kill()
            server.start()
            server.client().rpush(name, *second)
            wait_until(lambda: server.client().exists(name, f"{name}:nexus-import") == 0, within=60)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
        assert process.returncode == 0, err
        assert json.loads(out)["stopped"]
        values = once_each(messages_in(address)).values()
        assert sorted(map(int, values)) == list(range(6_000))
    finally:
        server.kill()


def test_a_redis_that_comes_back_as_it_was_before_loses_nothing(
    server: RedisServer, redis: Any, name: str
) -> None:
    """It forgot that elements were taken, and has others in their place: those are not done."""
    redis.rpush(name, b"a", b"b", b"c")
    source = source_of(server, "list", name)
    source.open()
    taken = source.take(2, 1 << 20)
    assert [entry.fields[0][1] for entry in taken] == [b"a", b"b"]
    redis.delete(f"{name}:nexus-import")
    redis.rpush(f"{name}:nexus-import", b"a")
    redis.lpush(name, b"b")
    source.open(taken)
    assert redis.lrange(f"{name}:nexus-import", 0, -1) == []
    assert [entry.fields[0][1] for entry in source.take(9, 1 << 20)] == [b"b", b"c"]
    source.open([])
    assert source.found.recovered == 2


def test_entries_that_were_trimmed_away_before_they_were_done_are_counted(
    server: RedisServer, redis: Any, name: str
) -> None:
    for number in range(1, 6):
        redis.xadd(name, {"n": number}, id=f"{number}-0")
    redis.xgroup_create(name, "nexus-import", 0)
    for consumer in ("nexus-import", "dead"):
        redis.xreadgroup("nexus-import", consumer, {name: ">"}, count=2)
    redis.xdel(name, "1-0", "3-0")
    queue, source = MemoryQueue(), source_of(server, "stream", name, idle_ms=0)
    started(source, queue, threading.Event()).join(20)
    assert sorted(message.value for message in queue.held) == [b"2", b"4", b"5"]
    assert (source.found.gone, source.found.recovered, source.found.claimed) == (2, 1, 1)
    assert source.left() == 0


def test_what_is_wrong_is_said_in_one_line(
    server: RedisServer, broker: BrokerProcess, name: str, tmp_path: Path, capsys: Out
) -> None:
    redis = server.client()
    redis.set("text", "x")
    redis.rpush("a-list", "x")
    queue = ["--queue", f"kafka://{broker.bootstrap}/{name}"]
    redis.execute_command("ACL", "SETUSER", "bob", "on", ">secret", "~*", "+@all")
    (tmp_path / "wrong").write_text("guess\n")
    (tmp_path / "right").write_text("secret\n")
    as_bob = server.url("list", "none").replace("127", "bob@127")
    for words, code, expected in [
        ([server.url("list", "text"), *queue], 2, "text is a string, not a list"),
        ([server.url("stream", "a-list"), *queue], 2, "did you mean ?list=a-list"),
        ([server.url("stream", "absent"), *queue], 2, "there is no such stream"),
        (["redis://127.0.0.1:1/0?list=x", *queue], 1, "Connection refused"),
        (["redis://h/0?list=x&stream=y", *queue], 2, "names no key, or two"),
        ([f"{as_bob}&password_file={tmp_path}/wrong", *queue], 2, "REDIS_PASSWORD"),
        ([f"{as_bob}&password_file={tmp_path}/no", *queue], 2, "No such file"),
        ([server.url("list", "x"), "--queue", "sqs://x"], 2, "unknown kind sqs://"),
    ]:
        assert run(["queue", "import", *words]) == code, words
        assert expected in capsys.readouterr().err
    assert imported(capsys, f"{as_bob}&password_file={tmp_path}/right", *queue)["moved"] == 0
    socket = f"unix://{server.directory}/socket?list=a-list"
    assert imported(capsys, socket, *queue)["moved"] == 1
