"""Clients that write through proxies without a pause, and what they were answered."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise

import httpx

from support.proxies import Proxies

PATIENCE_SECONDS = 90.0  # more than a proxy's own deadline: it is to answer, whatever happens


class Load:
    """Numbers, each sent once: what was written, when, and what was refused."""

    def __init__(self, proxies: Proxies, topic: str) -> None:
        self._proxies = proxies
        self._topic = topic
        self._stopping = threading.Event()
        self.written: dict[int, float] = {}
        self.refused: list[str] = []

    @contextmanager
    def running(self, clients: int) -> Iterator[None]:
        with ThreadPoolExecutor(clients) as pool:
            sending = [pool.submit(self._send, number) for number in range(clients)]
            try:
                yield
            finally:
                self._stopping.set()
            for one in sending:
                one.result()

    def silence(self, since: float) -> float:
        """The longest time without an answer that ended after a moment."""
        times = sorted(self.written.values())
        return max((b - a for a, b in pairwise(times) if b > since), default=0.0)

    def _send(self, client_number: int) -> None:
        url = self._proxies[client_number % 2].url
        number = client_number * 1_000_000
        with httpx.Client(base_url=url, timeout=PATIENCE_SECONDS) as client:
            while not self._stopping.is_set():
                path = f"/produce?topic={self._topic}&key=k{number}"
                answer = client.post(path, json={"payload": number})
                if answer.status_code == httpx.codes.OK:
                    self.written[number] = time.monotonic()
                else:
                    self.refused.append(answer.text)
                number += 1
