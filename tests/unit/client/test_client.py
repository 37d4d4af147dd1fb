"""The client asks again where that is safe, at the next proxy, and gives up where it is not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import httpx
import pytest

from nexus.client import Client, ProxyAway, ProxyRefused
from nexus.client import client as module


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Client]:
    """A client whose requests a function answers."""

    def made(answer: Callable[[httpx.Request], httpx.Response], **more: float) -> Client:
        client = Client("http://one", "http://two/", **more)
        client._http = httpx.Client(transport=httpx.MockTransport(answer))
        return client

    monkeypatch.setattr(module, "PAUSE_S", 0.001)
    return made


def test_publishing_is_repeated_elsewhere_under_one_key(make: Callable[..., Client]) -> None:
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        if len(asked) == 1:
            raise httpx.ConnectError("refused")
        if len(asked) == 2:
            return httpx.Response(503, json={"detail": "no broker answers"})
        return httpx.Response(200, json={"ids": ["0-1"]})

    assert make(answer).publish("t", {"a": 1}, key="k") == "0-1"
    assert [request.url.host for request in asked] == ["one", "two", "one"]
    assert len({request.headers["idempotency-key"] for request in asked}) == 1
    assert json.loads(asked[0].content) == [{"payload": {"a": 1}, "key": "k"}]


def test_what_is_refused_is_not_sent_again(make: Callable[..., Client]) -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        return httpx.Response(413, json={"detail": "too large"})

    with pytest.raises(ProxyRefused, match="too large"):
        make(answer).publish("t", 1)
    assert len(asked) == 1


def test_when_the_time_is_up_it_says_that_nobody_answers(make: Callable[..., Client]) -> None:
    client = make(lambda _: httpx.Response(503, json={"detail": "away"}), timeout_s=0.05)
    with pytest.raises(ProxyAway, match="away"):
        client.publish("t", 1)


def test_a_stream_that_breaks_is_opened_again(make: Callable[..., Client]) -> None:
    opened: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        opened.append(str(request.url))
        number = len(opened)
        said = {
            "id": f"0-{number}-m",
            "topic": "t",
            "partition": 0,
            "offset": number,
            "key": None,
            "headers": {},
            "timestamp": 1,
            "attempt": 1,
            "payload": number,
        }
        return httpx.Response(200, text=f"retry: 1\n\n: alive\n\ndata: {json.dumps(said)}\n\n")

    messages: Iterator[module.Message] = make(answer).subscribe("t", "g", max_in_flight=5)
    assert [next(messages).payload for _ in range(3)] == [1, 2, 3]
    assert "max_in_flight=5" in opened[0]


def test_acknowledgements_go_out_together_and_those_too_late_are_left_out(
    make: Callable[..., Client],
) -> None:
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(409, json={"detail": "not held"})

    messages = [module.Message(f"0-{n}-m", "t", "g", 0, n, None) for n in range(3)]
    make(answer).ack(*messages)
    assert json.loads(asked[0].content) == {"ids": ["0-0-m", "0-1-m", "0-2-m"]}
    assert asked[0].url.params["group"] == "g"
