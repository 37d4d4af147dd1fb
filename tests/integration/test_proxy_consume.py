"""Queues over HTTP: each message to one client at a time, acknowledged at any instance."""

from __future__ import annotations

import json
import random
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import httpx
import pytest

from nexus.client import Client
from support.broker import BrokerProcess
from support.needs import need_program
from support.proxies import HTTP, ProxyProcess
from support.waiting import wait_until

pytestmark = pytest.mark.timeout(300)
QUIET_SECONDS = 8.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    made = BrokerProcess(tmp_path_factory.mktemp("queue-broker"))
    made.start()
    yield made
    assert made.faults() == []
    made.kill()


@pytest.fixture(scope="module")
def proxies(
    broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ProxyProcess, ProxyProcess]]:
    folder = tmp_path_factory.mktemp("queue-proxies")
    often = {"NEXUS_PROXY_HEARTBEAT": "500ms"}
    made = [ProxyProcess(folder / name, broker.bootstrap, environ=often) for name in ("one", "two")]
    try:
        for proxy in made:
            proxy.start()
        yield made[0], made[1]
        for proxy in made:
            assert "Traceback" not in proxy.said
    finally:
        for proxy in made:
            proxy.stop()


def fill(proxy: ProxyProcess, topic: str, count: int) -> None:
    items = [{"payload": n, "key": f"k{n % 7}"} for n in range(count)]
    answer = proxy.post("/produce/batch", params={"topic": topic}, json=items)
    assert answer.status_code == 200, answer.text


@contextmanager
def events(
    proxy: ProxyProcess, topic: str, group: str, most: int = 100, *, heartbeats: bool = False
) -> Iterator[Any]:
    """The messages of a stream, and None for each sign of life where those are wanted."""
    params: dict[str, Any] = {"topic": topic, "group": group, "max_in_flight": most}
    with HTTP.stream("GET", f"{proxy.url}/consume", params=params) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield _messages(answer, heartbeats=heartbeats)


def _messages(answer: httpx.Response, *, heartbeats: bool) -> Iterator[Any]:
    for line in answer.iter_lines():
        if line.startswith("data: "):
            yield json.loads(line[6:])
        elif heartbeats and line.startswith(":"):
            yield None


def settle(proxy: ProxyProcess, path: str, topic: str, group: str, **said: Any) -> httpx.Response:
    return proxy.post(path, params={"topic": topic, "group": group}, json=said)


def poll(proxy: ProxyProcess, topic: str, group: str, **more: Any) -> list[dict[str, Any]]:
    answer = proxy.get("/poll", params={"topic": topic, "group": group, "wait": "1s", **more})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["messages"]
    return found


def test_an_event_says_all_of_a_message(proxies: tuple[ProxyProcess, ProxyProcess]) -> None:
    one, two = proxies
    one.post(
        "/produce?topic=told&key=k", json={"payload": {"a": "line\nline"}, "headers": {"x": "y"}}
    )
    with events(one, "told", "g") as stream:
        message = next(stream)
        assert message["payload"] == {"a": "line\nline"}
        assert (message["key"], message["attempt"]) == ("k", 1)
        assert message["headers"] == {"content-type": "application/json", "x": "y"}
        assert message["timestamp"] > 0
        answer = settle(two, "/ack", "told", "g", id=message["id"])
        assert answer.json() == {"settled": [message["id"]], "not_held": []}
    assert settle(one, "/ack", "told", "g", id=message["id"]).status_code == 409
    assert poll(two, "told", "g") == []


def test_two_clients_of_a_group_share_and_two_groups_do_not(
    proxies: tuple[ProxyProcess, ProxyProcess],
) -> None:
    one, two = proxies
    fill(one, "shared", 300)
    seen: dict[str, list[int]] = {"a": [], "b": [], "other": []}

    def take(name: str, proxy: ProxyProcess, group: str) -> None:
        with Client(proxy.url) as client:
            for message in client.subscribe("shared", group, max_in_flight=10):
                seen[name].append(message.payload)
                client.ack(message)
                if len(seen["a"]) + len(seen["b"]) >= 300 and len(seen["other"]) >= 300:
                    return

    def is_done() -> bool:
        return len(seen["a"]) + len(seen["b"]) >= 300 and len(seen["other"]) >= 300

    for name, proxy, group in (("a", one, "g"), ("b", two, "g"), ("other", one, "h")):
        threading.Thread(target=take, args=(name, proxy, group), daemon=True).start()
    wait_until(is_done, within=60, what="all to be taken")
    assert sorted(seen["a"] + seen["b"]) == list(range(300))
    assert sorted(seen["other"]) == list(range(300))


def test_a_client_holds_no_more_than_it_asked_for(
    proxies: tuple[ProxyProcess, ProxyProcess],
) -> None:
    one, two = proxies
    fill(one, "few", 50)
    with events(one, "few", "g", most=3) as stream:
        held = [next(stream) for _ in range(3)]
        taken: list[Any] = []
        reading = threading.Thread(target=lambda: taken.append(next(stream)), daemon=True)
        reading.start()
        reading.join(1.0)
        assert not taken
        settle(two, "/ack", "few", "g", ids=[held[0]["id"]])  # at the instance that knows nothing
        reading.join(20.0)
        assert taken
        assert taken[0]["id"] not in {message["id"] for message in held}


def test_what_a_client_held_goes_to_others_when_it_leaves(
    proxies: tuple[ProxyProcess, ProxyProcess],
) -> None:
    one, two = proxies
    fill(one, "left", 5)
    with events(one, "left", "g") as stream:
        held = {next(stream)["offset"] for _ in range(5)}
    assert held
    back: list[dict[str, Any]] = []
    wait_until(
        lambda: _gathered(back, poll(two, "left", "g")) >= 5,
        within=20,
        what="the messages to come back before their time",
    )
    assert {message["attempt"] for message in back} == {2}


def _gathered(back: list[Any], more: list[dict[str, Any]]) -> int:
    back += more
    return len(back)


def test_what_a_killed_proxy_held_goes_to_others(
    broker: BrokerProcess,
    proxies: tuple[ProxyProcess, ProxyProcess],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    third = ProxyProcess(tmp_path_factory.mktemp("third"), broker.bootstrap).start()
    fill(third, "killed", 5)
    with suppress(httpx.HTTPError), events(third, "killed", "g") as stream:
        for _ in range(5):
            next(stream)
        third.kill()
    back: list[Any] = []
    wait_until(
        lambda: _gathered(back, poll(proxies[0], "killed", "g")) >= 5,
        within=20,
        what="the messages to come back",
    )


def test_a_message_given_back_comes_again_and_later_goes_to_the_dead_letters(
    proxies: tuple[ProxyProcess, ProxyProcess],
) -> None:
    one, two = proxies
    one.produce("again", "bad", key="k")
    attempts = []
    for _ in range(20):
        for message in poll(two, "again", "g"):
            attempts.append(message["attempt"])
            settle(one, "/nack", "again", "g", id=message["id"], delay="10ms")
        if len(attempts) >= 5:
            break
    assert attempts == [1, 2, 3, 4, 5]
    (dead,) = wait_until(lambda: poll(one, "again.dlq", "d"), within=20, what="the dead letter")
    assert dead["payload"] == "bad"
    assert dead["headers"]["dlq-topic"] == "again"


def test_a_message_can_go_straight_to_the_dead_letters(
    proxies: tuple[ProxyProcess, ProxyProcess],
) -> None:
    one, two = proxies
    one.produce("poison", "x")
    (message,) = wait_until(lambda: poll(one, "poison", "g"), within=20, what="the message")
    answer = settle(two, "/nack", "poison", "g", id=message["id"], dead=True, reason="no good")
    assert answer.is_success, answer.text
    (dead,) = wait_until(lambda: poll(one, "poison.dlq", "d"), within=20, what="the dead letter")
    assert dead["headers"]["dlq-reason"] == "no good"


def test_bytes_come_back_as_base64(proxies: tuple[ProxyProcess, ProxyProcess]) -> None:
    one, _ = proxies
    one.post("/produce?topic=bytes", content=b"\x00\x01", headers={"content-type": "a/b"})
    (message,) = wait_until(lambda: poll(one, "bytes", "g"), within=20, what="the message")
    assert (message["payload_base64"], "payload" in message) == ("AAE=", False)


def test_curl_reads_events_at_once(proxies: tuple[ProxyProcess, ProxyProcess]) -> None:
    one, _ = proxies
    one.produce("curl-out", "first")
    url = f"{one.url}/consume?topic=curl-out&group=g"
    with subprocess.Popen(
        [need_program("curl"), "-sN", url], stdout=subprocess.PIPE, text=True
    ) as curl:
        assert curl.stdout is not None
        lines = (curl.stdout.readline() for _ in range(20))
        assert any('"payload":"first"' in line for line in lines)
        curl.kill()


def test_a_client_that_never_reads_costs_little_and_holds_up_nobody(
    proxies: tuple[ProxyProcess, ProxyProcess],
) -> None:
    one, _ = proxies
    items = [{"payload": "x" * 10_000} for _ in range(500)]
    for _ in range(4):
        assert one.post("/produce/batch?topic=slow", json=items).is_success
    before = one.rss_bytes()
    with socket.create_connection(("127.0.0.1", one.port)) as sock:
        path = b"/consume?topic=slow&group=s&max_in_flight=10000"
        sock.sendall(b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % path)
        time.sleep(2)
        one.produce("beside", 1)
        assert one.rss_bytes() - before < 100 << 20
    with events(one, "slow", "other") as stream:
        assert next(stream)["payload"] == "x" * 10_000


def test_through_two_proxies_with_faults_every_message_is_done_or_dead_and_none_comes_after_its_ack(
    proxies: tuple[ProxyProcess, ProxyProcess],
) -> None:
    run_queue(proxies, 400)


def run_queue(proxies: tuple[ProxyProcess, ProxyProcess], count: int, clients: int = 4) -> None:
    """Clients take, acknowledge at the other proxy, give back and leave; then all is accounted."""
    topic = f"faults-{count}"
    for begin in range(0, count, 5_000):
        items = [{"payload": n} for n in range(begin, min(begin + 5_000, count))]
        answer = proxies[0].post("/produce/batch", params={"topic": topic}, json=items)
        assert answer.is_success, answer.text
    book = _Book(count)

    def work(number: int) -> None:
        chance = random.Random(number)
        while not book.is_done:
            mine, other = proxies if chance.random() < 0.5 else reversed(proxies)
            with suppress(httpx.HTTPError):
                book.work_once(mine, other, topic, chance)

    with ThreadPoolExecutor(clients) as pool:
        working = [pool.submit(work, number) for number in range(clients)]
        wait_until(lambda: book.is_done or _failed(working), within=240, what="all to be settled")
        book.stop = True
        for one in working:
            one.result()
    assert book.after_ack == []
    dead = dead_letters(proxies[0], topic)
    assert set(book.acked) | dead >= set(range(count))
    assert not set(book.acked) & dead
    assert len(book.acked) > count * 0.9


def _failed(working: list[Any]) -> bool:
    return any(one.done() and one.exception() for one in working)


class _Book:
    """What was delivered and confirmed."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.acked: dict[int, float] = {}
        self.rejected: set[int] = set()
        self.after_ack: list[int] = []
        self.stop = False
        self.last = time.monotonic()

    @property
    def is_done(self) -> bool:
        """Whether nothing comes any more; what came too often is among the dead letters."""
        return self.stop or time.monotonic() > self.last + QUIET_SECONDS

    def work_once(
        self, mine: ProxyProcess, other: ProxyProcess, topic: str, chance: random.Random
    ) -> None:
        with events(mine, topic, "g", most=50, heartbeats=True) as stream:
            for message in stream:
                if self.is_done:
                    return
                if message is None:
                    continue
                asked = self.last = time.monotonic()
                number = message["payload"]
                if number in self.acked and self.acked[number] < asked - 5:
                    self.after_ack.append(number)
                fate = chance.random()
                if fate < 0.02:
                    self._say(other, "/nack", topic, message, delay="10ms")
                elif fate < 0.03:
                    if self._say(other, "/nack", topic, message, dead=True):
                        self.rejected.add(number)
                elif fate < 0.04:
                    return  # leaves with all that it holds
                elif self._say(other, "/ack", topic, message):
                    self.acked[number] = time.monotonic()

    def _say(
        self, proxy: ProxyProcess, path: str, topic: str, message: dict[str, Any], **more: Any
    ) -> bool:
        answer = settle(proxy, path, topic, "g", id=message["id"], **more)
        assert answer.status_code in (200, 409, 503), answer.text
        return answer.status_code == 200


def dead_letters(proxy: ProxyProcess, topic: str) -> set[int]:
    found: set[int] = set()
    known = [one["name"] for one in proxy.get("/topics").json()["topics"]]
    if f"{topic}.dlq" not in known:
        return found
    while messages := poll(proxy, f"{topic}.dlq", "count", max=10_000):
        found |= {message["payload"] for message in messages}
        ids = [message["id"] for message in messages]
        assert settle(proxy, "/ack", f"{topic}.dlq", "count", ids=ids).is_success
    return found


def test_counts_are_told(proxies: tuple[ProxyProcess, ProxyProcess]) -> None:
    one, _ = proxies
    with events(one, "counted", "g"):
        assert one.get("/status").json()["consumers"] >= 1
    stats = one.get("/stats").json()
    assert Counter(stats["requests"]["/produce/batch"])["200"] > 0
    assert stats["brokers"]["1"]["requests"] > 0
