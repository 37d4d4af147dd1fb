"""Queues over HTTP: each message to one client at a time, acknowledged at any instance."""

from __future__ import annotations

import json
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx
import pytest

from nexus.client import Client
from support.broker import BrokerProcess
from support.needs import need_program
from support.proxies import HTTP, Proxies, ProxyProcess
from support.waiting import wait_until

pytestmark = pytest.mark.timeout(300)


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


def test_an_event_says_all_of_a_message(proxies: Proxies) -> None:
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
    proxies: Proxies,
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
    proxies: Proxies,
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
    proxies: Proxies,
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
    proxies: Proxies,
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
    proxies: Proxies,
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
    proxies: Proxies,
) -> None:
    one, two = proxies
    one.produce("poison", "x")
    (message,) = wait_until(lambda: poll(one, "poison", "g"), within=20, what="the message")
    answer = settle(two, "/nack", "poison", "g", id=message["id"], dead=True, reason="no good")
    assert answer.is_success, answer.text
    (dead,) = wait_until(lambda: poll(one, "poison.dlq", "d"), within=20, what="the dead letter")
    assert dead["headers"]["dlq-reason"] == "no good"


def test_an_idle_stream_shows_that_it_lives_and_brings_a_message_at_once(
    proxies: Proxies,
) -> None:
    one, two = proxies
    with events(one, "idle", "g", heartbeats=True) as stream:
        assert [next(stream), next(stream)] == [None, None]
        two.produce("idle", "news")
        assert next(one for one in stream if one is not None)["payload"] == "news"


def test_bytes_come_back_as_base64(proxies: Proxies) -> None:
    one, _ = proxies
    one.post("/produce?topic=bytes", content=b"\x00\x01", headers={"content-type": "a/b"})
    (message,) = wait_until(lambda: poll(one, "bytes", "g"), within=20, what="the message")
    assert (message["payload_base64"], "payload" in message) == ("AAE=", False)


def test_curl_reads_events_at_once(proxies: Proxies) -> None:
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


def test_counts_are_told(proxies: Proxies) -> None:
    one, _ = proxies
    with events(one, "counted", "g"):
        assert one.get("/status").json()["consumers"] >= 1
    stats = one.get("/stats").json()
    assert Counter(stats["requests"]["/produce/batch"])["200"] > 0
    assert stats["brokers"]["1"]["requests"] > 0
