"""The cluster as a broker sees it: who is there, what is agreed on, and how that is changed.

Behind it stand one broker alone (`solo`), a fixed list of peers (`static`), or etcd. A view is
looked at without waiting; a command is awaited, and raises a ProtocolError that a client is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple, Protocol
from uuid import UUID

from nexus.cluster.controlling import PartitionKey
from nexus.cluster.partition_state import NOBODY, PartitionState


class Member(NamedTuple):
    """A broker that lives. `registered` is when its process was admitted, as a version."""

    id: int
    host: str
    port: int
    rack: str = ""
    registered: int = 0
    kept_all: bool = True  # whether it certainly has all that it ever acknowledged


def fit_since(members: Mapping[int, Member]) -> dict[int, int]:
    """The version from which on a partition's state may count on what each broker has told."""
    return {node: 0 if one.kept_all else one.registered for node, one in members.items()}


class Report(NamedTuple):
    """What a broker tells now and then of what it leads and does, for people and planners."""

    # Of each partition led here: bytes in and out, messages in and out, a second; size in bytes.
    loads: Mapping[PartitionKey, tuple[float, ...]] = MappingProxyType({})
    copying: Mapping[PartitionKey, int] = MappingProxyType({})  # what is here of what is copied
    damaged: tuple[str, ...] = ()


class TopicInfo(NamedTuple):
    """A topic that all brokers know."""

    name: str
    topic_id: UUID
    partitions: int
    configs: Mapping[str, str]


class NewTopic(NamedTuple):
    """A topic to make; `assignment` says who holds what where that is not to be decided."""

    name: str
    partitions: int
    replication: int
    configs: Mapping[str, str]
    assignment: tuple[tuple[int, ...], ...] = ()


@dataclass(slots=True)
class View:
    """All that is agreed on, as of a revision. One view changes; keep what you need of it."""

    members: dict[int, Member] = field(default_factory=dict)
    leaving: set[int] = field(default_factory=set)  # they should lead nothing
    controller: int = NOBODY
    topics: dict[str, TopicInfo] = field(default_factory=dict)
    partitions: dict[PartitionKey, PartitionState] = field(default_factory=dict)
    reports: dict[int, Report] = field(default_factory=dict)  # by broker
    # Topics that were seen to be deleted; one that is merely not there may be there again.
    deleted: set[str] = field(default_factory=set)
    revision: int = 0
    is_fixed: bool = False  # partitions are where they are: no log is made elsewhere, or removed

    def state(self, topic: str, number: int) -> PartitionState | None:
        return self.partitions.get((topic, number))

    @property
    def loads(self) -> dict[PartitionKey, float]:
        """Bytes in and out a second of every partition, as its leader measured them.

        Empty while nothing is carried: then no partition is more load than another.
        """
        found = {
            key: row[0] + row[1]
            for node, report in self.reports.items()
            for key, row in report.loads.items()
            if (state := self.partitions.get(key)) is not None and state.leader == node
        }
        return found if any(found.values()) else {}

    def known(self) -> set[int]:
        """Every broker that lives or holds something: one that restarts is away for a moment."""
        return set(self.members).union(*(state.replicas for state in self.partitions.values()))


class Listener(Protocol):
    """Who is told of changes, on the event loop."""

    def registered(self, version: int) -> None:
        """This process was admitted: whatever it led before is over."""

    def unregistered(self) -> None:
        """This process may be counted as dead: it leads nothing from now on."""

    def changed(self, keys: set[PartitionKey], topics: set[str]) -> None:
        """These partitions and topics of the view are others than before."""


class Coordination(Protocol):
    """One way to be a cluster."""

    view: View

    async def start(self, me: Member, listener: Listener) -> None:
        """Join. Returns when this broker is admitted and has seen what is agreed on."""

    async def leave(self) -> None:
        """Lead nothing any more, if another can; while still serving."""

    async def stop(self) -> None:
        """Be a member no more; safe to call twice."""

    async def create_topic(self, wanted: NewTopic) -> TopicInfo:
        """Make a topic. TopicAlreadyExists, InvalidReplicationFactor."""

    async def delete_topic(self, name: str) -> None: ...

    async def add_partitions(
        self, name: str, count: int, assignment: tuple[tuple[int, ...], ...] = ()
    ) -> None:
        """Let a topic have `count` partitions."""

    async def set_configs(self, name: str, configs: Mapping[str, str]) -> None:
        """Replace a topic's own settings."""

    async def propose(self, key: PartitionKey, state: PartitionState) -> bool:
        """Replace a partition's state, if it still has that version; as its leader."""

    async def reserve_producer_ids(self, count: int) -> range:
        """Producer ids that nobody had before."""

    async def report(self, report: Report) -> None:
        """Tell the others; nobody waits for it, and where nobody listens it is dropped."""

    def set_peers(self, peers: Mapping[int, tuple[str, int]]) -> None:
        """The list of peers is another one; for those who have one."""
