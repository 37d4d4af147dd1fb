"""What the queue says of itself: topics, partitions, groups and their lag.

Every question has a time limit, and a queue that is away is an answer, not an error.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, Final, Protocol, TypeVar

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from nexus.queue.errors import QueueAway, QueueError
from nexus.queue.kafka_client import admin_of
from nexus.queue.kafka_offsets import trouble
from nexus.queue.port import Bounds
from nexus.queue.url import KafkaUrl, QueueUrl, parse_queue_url

K = TypeVar("K")
V = TypeVar("V")
Place = tuple[str, int]
GROUPS_MAX: Final = 200
TOPICS_MAX: Final = 200
_LEAST_S: Final = 0.05
_INTERNAL: Final = "__"


class QueueView:
    """Any thread may ask; answers are kept for two seconds."""

    def __init__(self, queue_url: str, *, keep_s: float = 2.0, timeout_s: float = 3.0) -> None:
        """QueueError when the address is wrong; connects when it is first asked."""
        self._url = parse_queue_url(queue_url)
        self._keep_s, self._timeout_s = keep_s, timeout_s
        self._lock = threading.Lock()
        self._queue = _queue_of(self._url)
        self._last: dict[str, Any] | None = None
        self._asked_at = 0.0

    def snapshot(self) -> dict[str, Any]:
        """Blocks for up to a few seconds; call it in a thread.

        {"reachable": true, "url", "topic", "time" (ms), "topics": [{"topic", "internal",
        "messages", "partitions": [{"partition", "leader", "start", "end", "messages"}]}],
        "groups": [{"group", "state", "lag", "members": [{"member", "client", "host",
        "partitions": n}], "partitions": [{"topic", "partition", "committed", "end", "lag",
        "member"}]}], "problems": [text]}; or {"reachable": false, "url", "topic", "time",
        "detail", "topics": [], "groups": [], "problems": []}. A queue in etcd has no offsets
        ("start", "end" and "committed" are null), but also "published", "taken" and "expired"
        (keys), and "database": {"bytes", "in_use_bytes", "quota_bytes"}.
        """
        known = self._last
        if known is not None and time.monotonic() - self._asked_at < self._keep_s:
            return known
        # While one asks, the others make do with what was said before.
        if not self._lock.acquire(blocking=known is None):
            return known or self._away("nobody has answered yet")
        try:
            if self._last is known:
                self._last = self._looked_up()
                self._asked_at = time.monotonic()
            return self._last or self._away("")
        finally:
            self._lock.release()

    def close(self) -> None:
        """Give up the connections; safe to call twice."""
        with self._lock:
            self._queue.close()

    def _looked_up(self) -> dict[str, Any]:
        try:
            said = self._queue.everything(self._timeout_s)
            return {"reachable": True, **self._about(), **said}
        except QueueError as error:
            self._queue.close()  # another finds a broker that is back sooner
            return self._away(str(error))

    def _away(self, detail: str) -> dict[str, Any]:
        nothing: dict[str, Any] = {"topics": [], "groups": [], "problems": []}
        return {"reachable": False, **self._about(), "detail": detail, **nothing}

    def _about(self) -> dict[str, Any]:
        now_ms = time.time_ns() // 1_000_000
        return {"url": str(self._url), "topic": self._url.topic, "time": now_ms}


class _Queue(Protocol):
    """A kind of queue; connects when it is first asked, and again after `close`."""

    def everything(self, timeout_s: float) -> dict[str, Any]:
        """What it says of itself; QueueError when it says nothing in time."""

    def close(self) -> None:
        """Give up the connections; safe to call twice."""


def _queue_of(url: QueueUrl) -> _Queue:
    if isinstance(url, KafkaUrl):
        return _KafkaQueue(url)
    from nexus.gateway.etcd_queue import EtcdQueue  # noqa: PLC0415 - loads gRPC

    return EtcdQueue(url)


class _KafkaQueue:
    def __init__(self, url: KafkaUrl) -> None:
        self._url = url
        self._admin: AdminClient | None = None

    def everything(self, timeout_s: float) -> dict[str, Any]:
        if self._admin is None:
            self._admin = admin_of(self._url, {})
        return _Look(self._admin, self._url, timeout_s).everything()

    def close(self) -> None:
        self._admin = None


class _Look:
    """One look at a cluster, all of it within a time limit."""

    def __init__(self, admin: AdminClient, url: KafkaUrl, timeout_s: float) -> None:
        self._admin, self._url = admin, url
        self._deadline = time.monotonic() + timeout_s
        self._problems: list[str] = []

    def everything(self) -> dict[str, Any]:
        leaders = self._leaders()
        groups = self._groups()
        # Offsets after what groups committed: no group is ahead of the end.
        committed = self._committed(list(groups))
        bounds = self._bounds(leaders)
        return {
            "topics": _topics(leaders, bounds),
            "groups": [_group(g, of, committed.get(g, {}), bounds) for g, of in groups.items()],
            "problems": self._problems,
        }

    def _left_s(self) -> float:
        return max(self._deadline - time.monotonic(), _LEAST_S)

    def _leaders(self) -> dict[Place, int]:
        """Every partition and who leads it; QueueAway if nobody answers."""
        try:
            topics = self._admin.list_topics(timeout=self._left_s()).topics
        except KafkaException as failed:
            raise trouble(self._url, failed.args[0]) from failed
        if len(topics) > TOPICS_MAX:
            self._problems.append(f"{len(topics)} topics: {TOPICS_MAX} of them are shown")
        own = self._url.topic
        shown = sorted(topics, key=lambda n: (n != own, n.startswith(_INTERNAL), n))[:TOPICS_MAX]
        return {
            (name, partition): about.leader
            for name in shown
            for partition, about in sorted(topics[name].partitions.items())
        }

    def _bounds(self, leaders: Mapping[Place, int]) -> dict[Place, Bounds]:
        """Where each partition begins and ends, of those that somebody leads."""
        starts = self._offsets(leaders, OffsetSpec.earliest())
        ends = self._offsets(leaders, OffsetSpec.latest())
        return {p: Bounds(starts[p], max(starts[p], ends[p])) for p in ends if p in starts}

    def _offsets(self, places: Mapping[Place, int], when: OffsetSpec) -> dict[Place, int]:
        wanted = {TopicPartition(topic, p): when for (topic, p), at in places.items() if at >= 0}
        if not wanted:
            return {}
        asked = self._admin.list_offsets(wanted, request_timeout=self._left_s())
        found = self._collected(asked, lambda place: f"{place.topic} {place.partition}")
        return {(place.topic, place.partition): said.offset for place, said in found.items()}

    def _groups(self) -> dict[str, Any]:
        try:
            listed = self._admin.list_consumer_groups(request_timeout=self._left_s())
            names = sorted(group.group_id for group in listed.result(self._left_s() + 1).valid)
        except (KafkaException, FutureTimeoutError) as failed:
            self._problems.append(f"groups: {_reason(self._url, failed)}")
            return {}
        if len(names) > GROUPS_MAX:
            self._problems.append(f"{len(names)} groups: the first {GROUPS_MAX} are shown")
        names = names[:GROUPS_MAX]
        if not names:
            return {}
        asked = self._admin.describe_consumer_groups(names, request_timeout=self._left_s())
        return self._collected(asked, lambda name: f"group {name}")

    def _committed(self, groups: Sequence[str]) -> dict[str, dict[Place, int]]:
        asked: dict[str, Future[Any]] = {}
        for name in groups:
            which = [ConsumerGroupTopicPartitions(name)]
            timeout_s = self._left_s()
            asked |= self._admin.list_consumer_group_offsets(which, request_timeout=timeout_s)
        found = self._collected(asked, lambda name: f"offsets of group {name}")
        return {
            name: {
                (p.topic, p.partition): p.offset
                for p in answer.topic_partitions or []
                if p.offset >= 0
            }
            for name, answer in found.items()
        }

    def _collected(self, asked: Mapping[K, Future[V]], name: Callable[[K], str]) -> dict[K, V]:
        """The answers there are; of the others, one says why there is none."""
        found: dict[K, V] = {}
        problem = ""
        for key, future in asked.items():
            try:
                found[key] = future.result(self._left_s() + 1)
            except (KafkaException, FutureTimeoutError) as failed:
                problem = problem or f"{name(key)}: {_reason(self._url, failed)}"
        if problem:
            self._problems.append(problem)
        return found


def _reason(url: KafkaUrl, failed: Exception) -> str:
    if isinstance(failed, KafkaException) and isinstance(failed.args[0], KafkaError):
        return str(trouble(url, failed.args[0]))
    return str(QueueAway(f"queue {url}: no broker answers in time"))


def _topics(leaders: Mapping[Place, int], bounds: Mapping[Place, Bounds]) -> list[dict[str, Any]]:
    topics: dict[str, list[dict[str, Any]]] = {}
    for place, leader in leaders.items():
        found = bounds.get(place)
        row = {
            "partition": place[1],
            "leader": leader if leader >= 0 else None,
            "start": found and found.start,
            "end": found and found.end,
            "messages": found and found.end - found.start,
        }
        topics.setdefault(place[0], []).append(row)
    return [
        {
            "topic": topic,
            "internal": topic.startswith(_INTERNAL),
            "messages": sum(row["messages"] or 0 for row in rows),
            "partitions": rows,
        }
        for topic, rows in topics.items()
    ]


def _group(
    name: str, said: Any, committed: Mapping[Place, int], bounds: Mapping[Place, Bounds]
) -> dict[str, Any]:
    owners = {
        (p.topic, p.partition): member.member_id
        for member in said.members
        if member.assignment is not None
        for p in member.assignment.topic_partitions
    }
    rows = [
        _share(place, committed.get(place), bounds.get(place), owners.get(place))
        for place in sorted(committed.keys() | owners.keys())
    ]
    return {
        "group": name,
        "state": str(said.state.name).replace("_", " ").lower(),
        "lag": sum(row["lag"] or 0 for row in rows),
        "members": [_member(member) for member in said.members],
        "partitions": rows,
    }


def _share(
    place: Place, committed: int | None, bounds: Bounds | None, member: str | None
) -> dict[str, Any]:
    """A group's part of a partition; where nothing is committed, all that is there is left."""
    return {
        "topic": place[0],
        "partition": place[1],
        "committed": committed,
        "end": bounds and bounds.end,
        "lag": bounds and max(0, bounds.end - max(committed or 0, bounds.start)),
        "member": member,
    }


def _member(member: Any) -> dict[str, Any]:
    held = member.assignment.topic_partitions if member.assignment is not None else ()
    return {
        "member": member.member_id,
        "client": member.client_id,
        "host": member.host,
        "partitions": len(held),
    }
