"""Brokers that restart in turn in the background while clients are at work."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle

from support.broker import BrokerProcess
from support.cluster import START_SECONDS, BrokerCluster
from support.waiting import wait_until


class RollingRestart:
    """Stops one broker cleanly, starts it, waits until all is in sync, and goes on to the next."""

    def __init__(self, cluster: BrokerCluster) -> None:
        self._cluster = cluster
        self._wanted = threading.Event()
        self._ended = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._guarded, name="rolling", daemon=True)
        self._thread.start()
        self.begun = 0

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Restart all the time; at least one broker stops before this ends."""
        begun = self.begun
        self._wanted.set()
        try:
            yield
            self.wait_for(begun + 1)
        finally:
            self._wanted.clear()

    def wait_for(self, begun: int) -> None:
        """Until so many restarts have begun."""
        wait_until(
            lambda: self.begun >= begun or self._failure is not None,
            within=START_SECONDS,
            what="a restart",
        )
        assert self._failure is None, self._failure

    def stop(self) -> None:
        """End after the restart that is under way."""
        self._ended.set()
        self._wanted.set()
        self._thread.join(2 * START_SECONDS)
        assert self._failure is None, self._failure

    def _guarded(self) -> None:
        try:
            self._run()
        except BaseException as error:  # noqa: BLE001 - told to whoever waits
            self._failure = error

    def _run(self) -> None:
        for broker in cycle(self._cluster.brokers.values()):
            self._wanted.wait()
            if self._ended.is_set():
                return
            self.begun += 1
            self._restart(broker)

    def _restart(self, broker: BrokerProcess) -> None:
        assert broker.stop() == 0, broker.stderr
        broker.spawn()
        broker.wait_ready(within=START_SECONDS)
        wait_until(self._is_whole, within=START_SECONDS, what="all replicas in sync")

    def _is_whole(self) -> bool:
        seen = [broker.health()["cluster"] for broker in self._cluster.brokers.values()]
        everyone = sorted(self._cluster.brokers)
        return all(
            one["brokers"] == everyone and not one["under_replicated"] and not one["offline"]
            for one in seen
        )
