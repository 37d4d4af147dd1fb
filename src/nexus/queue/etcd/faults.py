"""What etcd's errors mean to those who use a queue: it is away, or it cannot be used as asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from nexus.etcd.errors import Ambiguous, Closed, EtcdError, LeaseLost
from nexus.queue.errors import QueueAway, QueueError


@contextmanager
def as_queue_errors(queue: object) -> Iterator[None]:
    """Raise QueueAway for what may work later as it stands, QueueError for the rest."""
    try:
        yield
    except EtcdError as error:
        if error.retriable or isinstance(error, Ambiguous | Closed | LeaseLost):
            raise QueueAway(f"queue {queue}: {error}") from error
        raise QueueError(f"queue {queue}: {error}") from error
