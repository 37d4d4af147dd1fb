"""Messages through two proxies and a cluster under faults, and the books on what became of them.

Every message is written once, by whichever proxy answers, and worked on by processes that are
killed too. In the end each is done, as a proxy confirmed, or in the dead-letter topic.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from support.chaos_report import Totals
from support.chaos_run import PATIENCE_SECONDS, REPORTS, Blow, silence
from support.cluster import START_SECONDS, BrokerCluster
from support.confluent import values_in, watermarks
from support.proxies import Proxies
from support.waiting import wait_until

TOPIC, GROUP = "work", "workers"
PARTITIONS = 6
BATCH = 200
# A message that was on its way to a client when another one's word for it was confirmed. What a
# leader forgot would come only after an election or a restart, which take longer.
STALE_SECONDS = 2.0
WORKER = Path(__file__).with_name("queue_worker.py")
FAULTS = ("proxy killed", "consumer killed", "leader killed", "all consumers killed")


@dataclass
class Book:
    """What the workers wrote down, read as it grows."""

    folder: Path
    acked: dict[int, float] = field(default_factory=dict)
    unsure: set[int] = field(default_factory=set)  # nobody was told what became of the word
    late: dict[int, float] = field(default_factory=dict)  # seconds after the acknowledgement
    deliveries: int = 0
    given_back: int = 0
    acked_at_us: list[int] = field(default_factory=list)
    _got: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    _read: dict[Path, int] = field(default_factory=lambda: defaultdict(int))
    _asked: dict[Path, set[int]] = field(default_factory=lambda: defaultdict(set))

    def look(self) -> int:
        """Read what is new; how many messages are done."""
        for path in self.folder.glob("*.notes"):
            with path.open("rb") as file:
                file.seek(self._read[path])
                text = file.read()
            whole = text.rpartition(b"\n")[0]
            self._read[path] += len(whole) + 1 if whole else 0
            for line in whole.splitlines():
                what, at, *numbers = line.decode().split()
                self._take(path, what, float(at), set(map(int, numbers)))
        return len(self.acked)

    def _take(self, path: Path, what: str, at: float, numbers: set[int]) -> None:
        if what == "got":
            self.deliveries += len(numbers)
            for number in numbers:
                self._got[number].append(at)
        elif what.startswith("ask-"):
            self.unsure |= self._asked.pop(path, set())
            self._asked[path] = numbers if what == "ask-ack" else set()
        else:
            self._asked[path] -= numbers
            if what == "ack":
                self.acked |= {n: min(at, self.acked.get(n, at)) for n in numbers}
                self.acked_at_us += [int(at * 1e6)] * len(numbers)
            elif what == "nack":
                self.given_back += len(numbers)

    def close(self) -> None:
        """Everything is written: find what came after its acknowledgement."""
        self.look()
        self.unsure = self.unsure.union(*self._asked.values()) - self.acked.keys()
        self.acked_at_us.sort()
        for number, times in self._got.items():
            after = max(times) - self.acked.get(number, float("inf"))
            if after > STALE_SECONDS:
                self.late[number] = after


class QueueRun:
    """One run: `work` under faults, then `check`."""

    def __init__(
        self, cluster: BrokerCluster, proxies: Proxies, folder: Path, count: int, seed: int
    ) -> None:
        self._cluster = cluster
        self._proxies = proxies
        self._folder = folder
        self._count = count
        self._chance = random.Random(seed)
        self._workers: list[subprocess.Popen[bytes]] = []
        self._started = 0
        self._blows: list[Blow] = []
        self.book = Book(folder)
        folder.mkdir(parents=True, exist_ok=True)

    def work(self, faults: Iterable[str], *, workers: int = 6, between: int = 200) -> None:
        """Write and work on everything; faults strike while acknowledgements flow."""
        self._make_topic()
        try:
            for _ in range(workers):
                self._hire()
            with ThreadPoolExecutor(1) as pool:
                writing = pool.submit(self._write_all)
                for kind in faults:
                    self._wait_done(between, writing)
                    self._strike(kind)
                writing.result()
            self._cluster.wait_in_sync(TOPIC, within=START_SECONDS)
            wait_until(
                lambda: self._waiting() == 0, within=300, what="all to be finished", every=0.5
            )
        finally:
            for worker in self._workers:
                worker.kill()
                worker.wait()
        self.book.close()

    def check(self) -> Totals:
        """What was found; the numbers of what went wrong are among the defects."""
        bootstrap, book = self._cluster.bootstrap, self.book
        marks = [watermarks(bootstrap, TOPIC, n) for n in range(PARTITIONS)]
        dead = self._dead_letters()
        everything = set(range(self._count))
        defects = {
            "lost": len(everything - book.acked.keys() - dead - book.unsure),
            "delivered after the acknowledgement": len(book.late),
            "written twice": sum(high - low for low, high in marks) - self._count,
        }
        unknown = len(book.unsure - book.acked.keys() - dead)
        silences: dict[str, list[float]] = defaultdict(list)
        for blow in self._blows:
            silences[blow.kind].append(silence(book.acked_at_us, blow))
        print(
            f"{self._count:,} messages, {book.deliveries:,} deliveries, {book.given_back:,} given"
            f" back, {len(dead):,} dead letters, of them {len(dead & book.acked.keys()):,} done too"
        )
        return Totals(len(book.acked), book.deliveries, unknown, defects, dict(silences))

    # What happens to them -------------------------------------------------------------------

    def _strike(self, kind: str) -> None:
        began, done = time.monotonic(), self.book.look()
        if kind == "proxy killed":
            proxy = self._chance.choice(self._proxies)
            proxy.kill()
            proxy.start()
        elif kind == "leader killed":
            self._kill_leader()
        else:
            for _ in range(len(self._workers) if kind == "all consumers killed" else 1):
                worker = self._workers.pop(0)
                worker.kill()
                worker.wait()
                self._hire()
        self._wait_done(done + 100 - self.book.look())
        self._blows.append(Blow(kind, frozenset(), began, time.monotonic()))
        took = time.monotonic() - began
        print(f"{len(self._blows)}: {kind}, work went on within {took:.1f} s", flush=True)

    def _kill_leader(self) -> None:
        leader = self._cluster.leader(TOPIC, self._chance.randrange(PARTITIONS))
        broker = self._cluster.brokers[leader]
        broker.kill()
        done = self.book.look()
        self._wait_done(done + 50 - self.book.look())  # without it, by those who take over
        broker.spawn()
        broker.wait_ready(within=START_SECONDS)
        self._cluster.wait_in_sync(TOPIC, within=START_SECONDS)

    def _wait_done(self, more: int, writing: Future[None] | None = None) -> None:
        """Until so many more are done, or nothing is left to do."""
        wanted = self.book.look() + more
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            with suppress(AssertionError):
                wait_until(lambda: self.book.look() >= wanted, within=2, every=0.1)
                return
            is_written = writing is None or (writing.done() and writing.result() is None)
            if is_written and self._waiting() == 0:
                return
        raise AssertionError(f"no work was done within {PATIENCE_SECONDS:g} s")

    def _waiting(self) -> int | None:
        """What the brokers count as unfinished; None while a partition's count is not known."""
        labels = {"group": GROUP, "topic": TOPIC}
        depths: dict[str, float] = {}
        for broker in self._cluster.brokers.values():
            try:
                samples = broker.metrics() if broker.alive else []
            except OSError:
                return None
            for one in samples:
                if one.name == "nexus_broker_share_depth" and labels.items() <= one.labels.items():
                    depths[one.labels["partition"]] = one.value
        return int(sum(depths.values())) if len(depths) == PARTITIONS else None

    def _hire(self) -> None:
        self._started += 1
        path = self._folder / f"{self._started}.notes"
        seed = self._chance.randrange(1 << 30)
        words = [sys.executable, str(WORKER), str(path), str(seed), TOPIC, GROUP]
        self._workers.append(subprocess.Popen([*words, *(proxy.url for proxy in self._proxies)]))

    def _make_topic(self) -> None:
        configs = {"queue.visibility.ms": "5000"}
        wanted = {"name": TOPIC, "partitions": PARTITIONS, "replication": 3, "configs": configs}
        answer = self._proxies[0].post("/topics", json=wanted)
        assert answer.status_code == 201, answer.text
        self._cluster.wait_in_sync(TOPIC, within=START_SECONDS)

    def _write_all(self) -> None:
        chance = random.Random(self._count)
        with httpx.Client(timeout=60) as client:
            for begin in range(0, self._count, BATCH):
                numbers = range(begin, min(begin + BATCH, self._count))
                items = [{"payload": n, "key": f"k{n % 97}"} for n in numbers]
                deadline = time.monotonic() + PATIENCE_SECONDS
                while not self._is_written(client, chance.choice(self._proxies).url, begin, items):
                    assert time.monotonic() < deadline, f"{begin} cannot be written"
                    time.sleep(0.1)

    def _is_written(
        self, client: httpx.Client, url: str, begin: int, items: list[dict[str, object]]
    ) -> bool:
        once = {"Idempotency-Key": f"batch-{begin}"}
        try:
            answer = client.post(
                f"{url}/produce/batch", params={"topic": TOPIC}, json=items, headers=once
            )
        except httpx.HTTPError:
            return False
        assert answer.status_code in (200, 503, 504), answer.text
        return answer.status_code == httpx.codes.OK

    def _dead_letters(self) -> set[int]:
        known = self._cluster.admin.list_topics(timeout=10).topics
        graves = known.get(f"{TOPIC}.dlq")
        parts = graves.partitions if graves is not None else ()
        bootstrap = self._cluster.bootstrap
        return {int(v or b"") for n in parts for v in values_in(bootstrap, f"{TOPIC}.dlq", n)}


def judge(run: QueueRun, name: str | None = None) -> None:
    """Fail on any broken promise; note what was found, and say what all runs add up to."""
    found = run.check()
    print(found)
    if name is not None:
        folder = REPORTS / "queue"
        found.save(folder / f"{name}.json")
        print("all runs so far:", Totals.sum(map(Totals.load, sorted(folder.glob("*.json")))))
    assert set(found.defects.values()) == {0}, (found.defects, run.book.late)
