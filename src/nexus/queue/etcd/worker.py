"""A worker of a queue in etcd, for programs without an event loop.

    with Worker("etcd://localhost:2379") as worker:
        claims = worker.claim(128, wait_s=5)
        worker.ack(claims, [Put(b"/results/%d" % each.revision, each.value) for each in claims])

Acknowledging and storing are one atomic step: a message that was stored is gone from the queue,
and one that is gone was stored. `work` does it all for a function that handles one message.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Final, Self

from nexus.etcd import (
    Closed,
    DuplicateKey,
    KeyMissing,
    Put,
    RequestTooLarge,
    TooManyOperations,
)
from nexus.etcd.blocking import BlockingClient
from nexus.queue.errors import QueueAway, QueueError
from nexus.queue.etcd.claims import ClaimOptions, joined
from nexus.queue.etcd.faults import as_queue_errors
from nexus.queue.etcd.hands import Claimed, ClaimLost
from nexus.queue.etcd.layout import Slot
from nexus.queue.url import EtcdUrl, parse_queue_url
from nexus.settings.collector import CollectorSettings

BATCH: Final = 128
_WAIT_S: Final = 1.0
_HANDLERS_FAULT: Final = (RequestTooLarge, TooManyOperations, DuplicateKey, KeyMissing)
_log: Final = logging.getLogger(__name__)

# What a message leads to, to be stored in the step that acknowledges it. Raises if it fails.
Handler = Callable[[Claimed], Iterable[Put]]


class Worker:
    """One worker; its calls may come from any thread. Several share the queue evenly.

    A worker that dies gives its messages back when its lease ends. Errors are QueueAway when the
    same call may work later, and ClaimLost when messages went to another worker.
    """

    def __init__(self, url: str | EtcdUrl, options: ClaimOptions | None = None) -> None:
        self._url = _etcd_url(url)
        self._options = options or ClaimOptions()
        self._stopping = threading.Event()
        with as_queue_errors(self._url):
            self._etcd = BlockingClient(self._url.address.config())
            try:
                layout, told = self._url.layout, self._options
                self._claims = self._etcd.run(lambda client: joined(client, layout, told))
            except BaseException:
                self._etcd.close()
                raise

    @property
    def name(self) -> str:
        return self._claims.name

    @property
    def slots(self) -> tuple[Slot, ...]:
        """What this worker owns now."""
        return self._claims.slots

    @property
    def conflicts(self) -> int:
        """How often messages came between those in hand, and had to be stepped over."""
        return self._claims.conflicts

    @property
    def buried(self) -> int:
        """How many messages became dead letters here."""
        return self._claims.buried

    def claim(self, n: int = BATCH, *, wait_s: float = 0.0) -> list[Claimed]:
        """Messages of one slot, up to `n` readings; one message at least, if there is any.

        Waits at most so long for the first; then the list is empty.
        """
        with as_queue_errors(self._url):
            return self._etcd.run(lambda _: self._claims.claim(n, wait_s))

    def ack(self, claims: Sequence[Claimed], puts: Iterable[Put] = ()) -> None:
        """All of these are done and `puts` are stored, in one atomic step; or ClaimLost."""
        with as_queue_errors(self._url):
            self._etcd.run(lambda _: self._claims.ack(claims, puts))

    def ack_each(self, done: Iterable[tuple[Claimed, Iterable[Put]]]) -> None:
        """Each message is done, and what it led to is stored with it; or ClaimLost.

        As many share a transaction as etcd takes. Of a message that led to more than one holds,
        the first puts go ahead: if the worker dies before the last, they are put again.
        """
        with as_queue_errors(self._url):
            self._etcd.run(lambda _: self._claims.ack_each(done))

    def nack(self, claims: Sequence[Claimed], reason: str) -> None:
        """These failed: tried again later and singly, or dead letters after the last attempt."""
        with as_queue_errors(self._url):
            self._etcd.run(lambda _: self._claims.nack(claims, reason))

    def work(self, handler: Handler, *, batch: int = BATCH) -> None:
        """Claim, handle and acknowledge in the threads that the options ask for, until `stop`.

        What the handler raises is the message's failure. Goes on when the queue is away; ends
        with QueueError when the queue cannot be used as asked.
        """
        count = self._options.workers
        with ThreadPoolExecutor(count, thread_name_prefix="worker") as threads:
            loops = [threads.submit(self._loop, handler, batch) for _ in range(count)]
            done, _ = wait(loops, return_when=FIRST_EXCEPTION)
            self._stopping.set()
        for loop in done:
            loop.result()

    def stop(self) -> None:
        """Let `work` return when what is in hand is settled."""
        self._stopping.set()

    def close(self) -> None:
        """Give back what is in hand, uncounted, and leave; safe to call twice."""
        self._stopping.set()
        with suppress(Closed):
            self._etcd.run(lambda _: self._claims.close())
        self._etcd.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _loop(self, handler: Handler, batch: int) -> None:
        while not self._stopping.is_set():
            try:
                self._handle(handler, self.claim(batch, wait_s=_WAIT_S))
            except (QueueAway, ClaimLost) as error:
                _log.warning("%s", error)
                self._stopping.wait(_WAIT_S)

    def _handle(self, handler: Handler, claims: Sequence[Claimed]) -> None:
        done: list[tuple[Claimed, Iterable[Put]]] = []
        failed: list[tuple[Claimed, str]] = []
        for claimed in claims:
            try:
                done.append((claimed, tuple(handler(claimed))))
            except Exception as error:  # noqa: BLE001 - whatever it is, the message failed
                failed.append((claimed, f"{type(error).__name__}: {error}"))
        while not self._settled(done, failed):
            self._stopping.wait(_WAIT_S)

    def _settled(
        self, done: Sequence[tuple[Claimed, Iterable[Put]]], failed: Sequence[tuple[Claimed, str]]
    ) -> bool:
        """Whether all is settled; what is not stays in hand while the queue is away."""
        try:
            for claimed, reason in failed:
                if claimed.in_hand:
                    self.nack([claimed], reason)
            self._ack_or_nack([pair for pair in done if pair[0].in_hand])
        except QueueAway as error:
            if self._stopping.is_set():
                raise
            _log.warning("%s", error)
            return False
        return True

    def _ack_or_nack(self, done: Sequence[tuple[Claimed, Iterable[Put]]]) -> None:
        """A message that led to what etcd cannot take has failed, and no other with it."""
        try:
            self.ack_each(done)
        except QueueError as error:
            if not isinstance(error.__cause__, _HANDLERS_FAULT):
                raise
            if len(done) == 1:
                self.nack([done[0][0]], str(error))
                return
            for pair in done:
                if pair[0].in_hand:
                    self._ack_or_nack([pair])


def options_of(settings: CollectorSettings) -> ClaimOptions:
    """What COLLECTOR_ID, COLLECTOR_RANGE_START and _END, WORKERS and POLL_TIMEOUT ask for."""
    own = settings.collector
    options = ClaimOptions(own.name, partitions=own.partitions, workers=own.workers or 1)
    if settings.is_given("collector.poll_timeout"):
        options = replace(options, poll_s=own.poll_timeout_ms / 1000)
    return options


def _etcd_url(url: str | EtcdUrl) -> EtcdUrl:
    parsed = parse_queue_url(url) if isinstance(url, str) else url
    if not isinstance(parsed, EtcdUrl):
        raise QueueError(
            f"queue {url}: messages are claimed from etcd:// only; a Kafka consumer group does"
            " this for kafka://"
        )
    return parsed
