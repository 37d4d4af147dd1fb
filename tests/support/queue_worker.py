"""A consumer in a process of its own, to be killed at any moment.

It takes messages at one proxy and says at the other what became of them: most are done, some come
again, some are dead; now and then it leaves with all that it holds. What comes, what
it is about to say and what is confirmed to it is written to a file at once, a line each, so that
its death loses none of it.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import sys
import threading
import time
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any
from urllib.parse import urlencode, urlsplit

SILENCE_S = 5.0  # there are heartbeats: a stream that says nothing for so long is dead
BACK, DEAD, LEAVE = 0.02, 0.025, 0.026  # chances of a message, added up
ACKS_MOST = 120


class Worker:
    """Works at two proxies until it is killed."""

    def __init__(self, path: str, seed: int, topic: str, group: str, urls: list[str]) -> None:
        self._notes = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._chance = random.Random(seed)
        self._params = {"topic": topic, "group": group}
        self._proxies = [str(urlsplit(url).netloc) for url in urls]
        self._talks: dict[str, http.client.HTTPConnection] = {}

    def run(self) -> None:
        while True:
            mine, other = self._chance.sample(self._proxies, 2)
            try:
                self._take(mine, other)
            except (OSError, http.client.HTTPException):
                time.sleep(0.1)

    def _take(self, mine: str, other: str) -> None:
        stream = http.client.HTTPConnection(mine, timeout=SILENCE_S)
        try:
            most = self._chance.randint(ACKS_MOST, 400)
            query = urlencode({**self._params, "max_in_flight": most})
            stream.request("GET", f"/consume?{query}")
            answer = stream.getresponse()
            if answer.status != http.client.OK:
                time.sleep(0.2)
                return
            self._work(answer, other)
        finally:
            stream.close()

    def _work(self, answer: http.client.HTTPResponse, other: str) -> None:
        done: list[dict[str, Any]] = []
        enough = self._chance.randint(1, ACKS_MOST)
        for message in self._arriving(answer):
            if message is not None:
                fate = self._chance.random()
                if fate < BACK:
                    self._say(other, "nack", [message], delay="10ms")
                elif fate < DEAD:
                    self._say(other, "nack", [message], dead=True, reason="by chance")
                elif fate < LEAVE:
                    return
                else:
                    done.append(message)
            if done and (message is None or len(done) >= enough):
                self._say(other, "ack", done)
                done, enough = [], self._chance.randint(1, ACKS_MOST)

    def _arriving(self, answer: http.client.HTTPResponse) -> Iterator[dict[str, Any] | None]:
        """What comes, noted when it comes and not when there is time to work on it."""
        come: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
        ended = object()

        def read() -> None:
            try:
                for message in _messages(answer):
                    if message is not None:
                        self._note("got", [message])
                    come.put(message)
            except (OSError, ValueError, AttributeError, http.client.HTTPException):
                pass  # the stream ended, at either end
            come.put(ended)  # type: ignore[arg-type]

        threading.Thread(target=read, daemon=True).start()
        return iter(come.get, ended)

    def _say(self, proxy: str, word: str, messages: list[dict[str, Any]], **more: Any) -> None:
        self._note(f"ask-{word}", messages)
        body = json.dumps({"ids": [message["id"] for message in messages], **more})
        try:
            status, text = self._ask(proxy, f"/{word}?{urlencode(self._params)}", body)
        except (OSError, http.client.HTTPException):
            self._talks.pop(proxy).close()
            status, text = 0, b""
        if status in (http.client.OK, http.client.CONFLICT):
            settled = set(json.loads(text).get("settled", ()))
            self._note(word, [message for message in messages if message["id"] in settled])
            self._note("refused", [one for one in messages if one["id"] not in settled])

    def _ask(self, proxy: str, path: str, body: str) -> tuple[int, bytes]:
        talk = self._talks.get(proxy)
        if talk is None:
            talk = self._talks[proxy] = http.client.HTTPConnection(proxy, timeout=60)
        talk.request("POST", path, body, {"Content-Type": "application/json"})
        answer = talk.getresponse()
        return answer.status, answer.read()

    def _note(self, what: str, messages: list[dict[str, Any]]) -> None:
        if messages:
            numbers = " ".join(str(message["payload"]) for message in messages)
            os.write(self._notes, f"{what} {time.monotonic():.6f} {numbers}\n".encode())


def _messages(answer: http.client.HTTPResponse) -> Iterator[dict[str, Any] | None]:
    """The messages of a stream, and None for a sign of life."""
    while line := answer.readline():
        if line.startswith(b"data: "):
            yield json.loads(line[6:])
        elif line.startswith(b":"):
            yield None


if __name__ == "__main__":
    notes, seed, topic, group, *urls = sys.argv[1:]
    Worker(notes, int(seed), topic, group, urls).run()
