"""The fleet of `sender`, sending to a queue in etcd."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nexus.queue.etcd.layout import Slot
from support.hand_queue import HandQueue
from support.published import Sent
from support.readings import NOON_US
from support.sender import Place, Sender


class _NoProducer:
    def poll(self, timeout: float) -> int:
        return 0


class EtcdSender(Sender):
    """Each message a key, in one of two clusters; what has to be refused knows its revision."""

    def __init__(
        self, queue: HandQueue, partitions: int, seed: int, *, start_us: int = NOON_US
    ) -> None:
        super().__init__("", "", partitions, seed, start_us=start_us)
        self._queue = queue

    def _connected(self, bootstrap: str) -> Any:
        return _NoProducer()

    def flush(self) -> None:
        """Everything that was put is there."""

    def _send(self, messages: Iterable[Sent], refused: dict[int, str] | None = None) -> None:
        first = self._chance.randrange(self._partitions)
        cluster = self._chance.choice(("east", "west"))
        for number, message in enumerate(messages):
            slot = Slot(cluster, (first + number) % self._partitions)
            (put,) = self._queue.put(slot, [message])
            for row, why in (refused or {}).items():
                self.refused[Place(slot.partition, put.mod_revision, row)] = why
            self.messages += 1
