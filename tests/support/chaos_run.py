"""Faults that strike a cluster one after the other while acknowledgements flow, and what they cost.

A fault's silence is the longest time for which a partition that it stopped acknowledged nothing:
from the moment it struck, or from its healing where nobody could write before.
"""

from __future__ import annotations

import random
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

from confluent_kafka.admin import NewTopic

from support.chaos_report import Totals
from support.checker import Report, check
from support.cluster import BrokerCluster
from support.faults import Faults, Struck
from support.netns_cluster import NetworkCluster
from support.wirelog import partition_dir, stored_batches
from support.workload import Workload

TOPIC = "chaos"
PARTITIONS = 6
PRODUCERS = 2
ACKS_BETWEEN = 1000
PATIENCE_SECONDS = 110.0  # on a busy machine; less than a message may take

REPORTS = Path(__file__).parents[2] / "build" / "chaos"

Silences = Mapping[str, list[float]]  # seconds, by kind of fault


@dataclass(frozen=True)
class Blow:
    """A fault that struck: whom it stopped, and when. Times are of the monotonic clock."""

    kind: str
    partitions: frozenset[int]
    since: float
    until: float


@dataclass
class ChaosRun:
    """One run: `strike` once, then `check` what is left and look at `silences`."""

    cluster: NetworkCluster
    seed: int
    pace: float
    workload: Workload = field(init=False)
    blows: list[Blow] = field(default_factory=list)

    def strike(self, kinds: Iterable[str]) -> None:
        """Let faults of these kinds strike in this order."""
        faults = Faults(self.cluster, TOPIC, random.Random(self.seed))
        self.cluster.admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(30)
        self.workload = Workload(
            self.cluster.bootstrap,
            TOPIC,
            partitions=PARTITIONS,
            producers=PRODUCERS,
            pace=self.pace,
        )
        with self.workload:
            for kind in kinds:
                self._settle()
                struck_at = time.monotonic()
                self._last(kind, struck_at, faults.kinds[kind]())
            self._settle()

    def _settle(self) -> None:
        """Until all is well, and stays so while acknowledgements flow."""
        before = None
        while before != self.cluster.states(TOPIC):
            self.cluster.wait_in_sync(TOPIC)
            before = self.cluster.states(TOPIC)
            self.workload.wait_acknowledged(ACKS_BETWEEN, within=PATIENCE_SECONDS)
        self.workload.wait_flowing(
            range(PARTITIONS), since=time.monotonic(), within=PATIENCE_SECONDS
        )

    def _last(self, kind: str, struck_at: float, struck: Struck) -> None:
        """Let the fault last, see writes go on, and heal it; in the order in which that goes."""
        time.sleep(struck.hold_s)
        since = struck_at
        if struck.waits:
            struck.heal()
            since = time.monotonic()
        self.workload.wait_flowing(
            struck.partitions, since=time.monotonic(), within=PATIENCE_SECONDS
        )
        # Else it was no fault: whoever was struck would have gone on as before.
        assert struck.deposed not in self._leaders(struck.partitions), kind
        blow = Blow(kind, frozenset(struck.partitions), since, time.monotonic())
        self.blows.append(blow)
        print(
            f"{len(self.blows)}: {kind}, writes after {blow.until - blow.since:.2f} s", flush=True
        )
        if not struck.waits:
            struck.heal()

    def _leaders(self, partitions: Collection[int]) -> set[int]:
        states = self.cluster.states(TOPIC)
        return {int(states[one]["leader"]) for one in partitions}

    def check(self, *, min_acked: int) -> Report:
        """The checker's report, once every promise that needs no history has been looked at too."""
        report = check(
            self.workload.history, self.workload.read_back(), min_acked=min_acked, min_ack_rate=0.95
        )
        for broker in self.cluster.brokers.values():
            assert broker.faults() == []
            assert broker.stop() == 0
        for partition in range(PARTITIONS):
            assert len(contents(self.cluster, partition)) == 1, f"replicas of {partition} differ"
            epochs = leader_epochs(self.cluster, partition)
            assert epochs == sorted(epochs), f"{partition} was written under an epoch that was over"
        return report

    def silences(self) -> Silences:
        """How long writes stood still, by kind."""
        acked = {one: self.workload.history.acked_at_us(one) for one in range(PARTITIONS)}
        found: dict[str, list[float]] = defaultdict(list)
        for blow in self.blows:
            stood_still = [silence(acked[one], blow) for one in blow.partitions]
            found[blow.kind].append(max(stood_still, default=0.0))
        return dict(found)


def judge(run: ChaosRun, name: str, *, min_acked: int) -> None:
    """Fail on any broken promise; note what was found, and say what all runs add up to."""
    report = run.check(min_acked=min_acked)
    found = Totals.of(report, run.silences())
    found.save(REPORTS / f"{name}.json")
    together = Totals.sum(map(Totals.load, sorted(REPORTS.glob("*.json"))))
    print(found, "all runs so far:", together, sep="\n")
    report.assert_passed()


def silence(acked_at_us: list[int], blow: Blow) -> float:
    """The longest time without an acknowledgement that began while the blow was felt."""
    since, until = int(blow.since * 1e6), int(blow.until * 1e6)
    first, end = bisect_right(acked_at_us, since), bisect_right(acked_at_us, until)
    times = [since, *acked_at_us[first : end + 1]]
    return max((b - a for a, b in pairwise(times)), default=0) / 1e6


def leader_epochs(cluster: BrokerCluster, partition: int) -> list[int]:
    """Under which epoch each batch of a partition was written, in the order of the log."""
    data_dir = cluster.brokers[1].data_dir
    return [batch.leader_epoch for batch in stored_batches(data_dir, TOPIC, partition)]


def contents(cluster: BrokerCluster, partition: int) -> set[str]:
    """What the replicas of a partition hold, byte by byte."""
    found = set()
    for broker in cluster.brokers.values():
        place = partition_dir(broker.data_dir, TOPIC, partition)
        logs = [file.read_bytes() for file in sorted(place.glob("*.log"))]
        found.add(sha256(b"".join(logs)).hexdigest())
    return found
