"""Collectors on one queue in etcd and one store, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nexus.lake.url import parse_store_url
from support.collectors import CollectorProcess
from support.etcd import EtcdMember
from support.hand_queue import HandQueue
from support.waiting import wait_until


class EtcdShift:
    """Starts them; each is told who it is: c0, c1 …"""

    def __init__(self, folder: Path, queue: HandQueue) -> None:
        self.folder, self.queue = folder, queue
        self.store = parse_store_url(f"delta://{folder}/lake")
        self.made: list[CollectorProcess] = []

    def start(
        self, *flags: str, die: str = "", data: str = "data", store: str = ""
    ) -> CollectorProcess:
        number = len(self.made)
        collector = CollectorProcess(
            self.folder / f"collector-{number}",
            self.queue.url,
            store or str(self.store),
            ("--trigger", "100ms", "--collector-id", f"c{number}", *flags),
            data_dir=self.folder / data,
            die=die,
        )
        self.made.append(collector)
        return collector.start()

    def check_taken(self, copies: int = 0) -> None:
        """Everything that was published was taken out, each once, and nothing expired."""
        wait_until(lambda: not self.queue.waiting(), within=30, what="an empty queue")
        totals = self.queue.totals()
        assert totals.taken == totals.published
        assert totals.expired == copies


@contextmanager
def etcd_shift(folder: Path) -> Iterator[EtcdShift]:
    """A queue in an etcd of its own, and collectors that end with the block."""
    member = EtcdMember(folder / "etcd").start()
    queue = HandQueue(member, "/telemetry/queue")
    shift = EtcdShift(folder, queue)
    try:
        yield shift
    finally:
        for collector in shift.made:
            collector.kill_all()
        queue.close()
        member.kill()
