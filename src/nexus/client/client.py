"""Publishes to, and takes messages from, any of several proxies.

Publishing is safe to repeat (each call has an Idempotency-Key of its own), so it is repeated, at
the next proxy, until one answers or the time is up.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any, Final
from uuid import uuid4

import httpx

from nexus.client.errors import ProxyAway, ProxyRefused

PAUSE_S: Final = 0.05
PAUSE_MOST_S: Final = 2.0
_AGAIN: Final = frozenset({429, 500, 502, 503, 504})
_READ_S: Final = 60.0  # a stream has heartbeats: one that is silent for so long is dead


@dataclass(frozen=True, slots=True)
class Message:
    """A message to work on; `ack` it when that is done."""

    id: str
    topic: str
    group: str
    partition: int
    offset: int
    payload: Any
    key: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    timestamp_ms: int = 0
    attempt: int = 1


class Client:
    """A program's way to a queue. Safe to use from several threads."""

    def __init__(self, *urls: str, timeout_s: float = 60.0) -> None:
        self._urls = cycle([url.rstrip("/") for url in urls] or ["http://127.0.0.1:8080"])
        self._timeout_s = timeout_s
        self._http = httpx.Client(timeout=timeout_s)
        self._is_closed = False

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up; safe to call twice."""
        self._is_closed = True
        self._http.close()

    def publish(self, topic: str, payload: Any, *, key: str | None = None) -> str:
        """Write one message; its id, once it is safe."""
        message = {"payload": payload} if key is None else {"payload": payload, "key": key}
        return self.publish_many(topic, [message])[0]

    def publish_many(
        self, topic: str, messages: Sequence[Mapping[str, Any]], *, idempotency_key: str = ""
    ) -> list[str]:
        """Write messages such as `{"payload": …, "key": …}`; their ids, once they are safe.

        Who calls again after ProxyAway, with the same key and messages, writes them once.
        """
        headers = {"Idempotency-Key": idempotency_key or uuid4().hex}
        params = {"topic": topic}
        said = self._ask("/produce/batch", params, list(messages), headers)
        ids: list[str] = said["ids"]
        return ids

    def subscribe(self, topic: str, group: str, *, max_in_flight: int = 100) -> Iterator[Message]:
        """Messages without an end, each for this program alone until it is acknowledged.

        A stream that breaks is opened again; what was not acknowledged then comes again.
        """
        params = {"topic": topic, "group": group, "max_in_flight": max_in_flight}
        pause_s = PAUSE_S
        while not self._is_closed:
            with suppress(httpx.HTTPError, ProxyAway):
                for message in self._stream(params):
                    pause_s = PAUSE_S
                    yield message
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, PAUSE_MOST_S)

    def ack(self, *messages: Message) -> None:
        """The messages are done; returns when that is stored. Those held no more are left out."""
        self._settle("/ack", messages, {})

    def nack(self, *messages: Message, delay_s: float = 0.0, dead: bool = False) -> None:
        """The messages are to come again, after a while, or go to the dead letters."""
        more = {"dead": True} if dead else {"delay": f"{int(delay_s * 1000)}ms"}
        self._settle("/nack", messages, more)

    def ensure_topic(self, topic: str, partitions: int) -> int:
        """How many partitions a topic has; it is made if it is not there."""
        with suppress(ProxyRefused):
            self._ask("/topics", {}, {"name": topic, "partitions": partitions}, {})
        known = self._answer("GET", "/topics").json()["topics"]
        found = [one["partitions"] for one in known if one["name"] == topic]
        if not found:
            raise ProxyAway(f"topic {topic} is not there yet")
        return int(found[0])

    def _settle(self, path: str, messages: Sequence[Message], more: Mapping[str, Any]) -> None:
        by_place: dict[tuple[str, str], list[str]] = {}
        for message in messages:
            by_place.setdefault((message.topic, message.group), []).append(message.id)
        for (topic, group), ids in by_place.items():
            try:
                self._ask(path, {"topic": topic, "group": group}, {"ids": ids, **more}, {})
            except ProxyRefused as error:
                if error.status != httpx.codes.CONFLICT:
                    raise

    def _stream(self, params: Mapping[str, Any]) -> Iterator[Message]:
        timeout = httpx.Timeout(self._timeout_s, read=_READ_S)
        url = next(self._urls) + "/consume"
        with self._http.stream("GET", url, params=dict(params), timeout=timeout) as answer:
            if answer.status_code != httpx.codes.OK:
                answer.read()
                _check(answer)
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    yield _message(json.loads(line[6:]), params["group"])

    def _ask(
        self, path: str, params: Mapping[str, str], body: Any, headers: Mapping[str, str]
    ) -> Any:
        """What a proxy answers; asks again, elsewhere, while that may help and there is time."""
        deadline = time.monotonic() + self._timeout_s
        pause_s = PAUSE_S
        while True:
            try:
                return self._answer(
                    "POST", path, params=dict(params), json=body, headers=dict(headers)
                ).json()
            except ProxyAway:
                if time.monotonic() + pause_s >= deadline or self._is_closed:
                    raise
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, PAUSE_MOST_S)

    def _answer(self, method: str, path: str, **more: Any) -> httpx.Response:
        try:
            answer = self._http.request(method, next(self._urls) + path, **more)
        except httpx.HTTPError as error:
            raise ProxyAway(str(error) or type(error).__name__) from None
        _check(answer)
        return answer


def _check(answer: httpx.Response) -> None:
    if answer.is_success:
        return
    try:
        detail = answer.json()["detail"]
    except (ValueError, KeyError, TypeError):
        detail = f"status {answer.status_code}"
    if answer.status_code in _AGAIN:
        raise ProxyAway(detail)
    raise ProxyRefused(answer.status_code, detail)


def _message(said: Mapping[str, Any], group: str) -> Message:
    return Message(
        id=said["id"],
        topic=said["topic"],
        group=group,
        partition=said["partition"],
        offset=said["offset"],
        payload=said.get("payload", said.get("payload_base64")),
        key=said["key"],
        headers=said["headers"],
        timestamp_ms=said["timestamp"],
        attempt=said["attempt"],
    )
