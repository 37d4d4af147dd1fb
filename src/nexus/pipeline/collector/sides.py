"""The collector's side of its queue, of whatever kind that is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from nexus.pipeline.collector.progress import Progress
from nexus.pipeline.collector.queue_side import QueueSide
from nexus.queue.opening import open_reader
from nexus.queue.url import EtcdUrl, QueueUrl
from nexus.settings.collector import CollectorSection

if TYPE_CHECKING:
    from nexus.etcd import Fence

_QUEUE_TIMEOUT_S: Final = 5.0


class Side(Protocol):
    """What the collector asks of it; `queue_side` and `etcd_side` say more."""

    def hold(
        self,
        stopped: Callable[[], bool],
        standing: Callable[[str], None],
        waiting: Callable[[str], None],
    ) -> bool:
        """Until this collector may collect; False when told to stop before."""

    def check(self) -> None:
        """Raise what ends the collector."""

    def token(self) -> Fence | None:
        """By which this collector leads; None while it does not, or where nobody has to."""

    def guard(self) -> None:
        """Raise unless a batch may be stored now."""

    def wait(self, stopped: Callable[[], bool], waiting: Callable[[str], None]) -> bool:
        """Until the queue answers; False when told to stop before it does."""

    def start(self) -> None: ...
    def done(self) -> None: ...
    def stop(self) -> None: ...


def open_side(own: CollectorSection, queue: QueueUrl, progress: Progress) -> Side:
    """The side for a queue's kind; it connects when it is first asked."""
    if isinstance(queue, EtcdUrl):
        from nexus.pipeline.collector.etcd_side import EtcdSide  # noqa: PLC0415 - gRPC is dear

        return EtcdSide(queue, own, progress)
    timeout_s = min(own.poll_timeout_ms / 1000, _QUEUE_TIMEOUT_S)
    reader = open_reader(own.queue, timeout_s=timeout_s)
    return QueueSide(reader, own.group, own.partitions, progress)
