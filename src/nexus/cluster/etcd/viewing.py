"""Keeps a view as etcd has it: keys in, changes of the view out. No I/O."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from nexus.cluster.controlling import PartitionKey
from nexus.cluster.etcd import keys
from nexus.cluster.etcd.keys import Places
from nexus.cluster.partition_state import NOBODY
from nexus.cluster.port import View
from nexus.etcd import Event, KeyValue

_log: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class Viewing:
    """One view, and what of it changed since somebody asked."""

    places: Places
    view: View = field(default_factory=View)
    changed_keys: set[PartitionKey] = field(default_factory=set)
    changed_topics: set[str] = field(default_factory=set)
    leases: dict[int, int] = field(default_factory=dict)  # of the members

    def list(self, items: Iterable[KeyValue], revision: int) -> None:
        """Everything, anew."""
        view = self.view
        self.changed_topics |= set(view.topics)
        self.changed_keys |= set(view.partitions)
        view.members.clear()
        view.leaving.clear()
        view.reports.clear()
        view.topics.clear()
        view.partitions.clear()
        view.controller = NOBODY
        for item in items:
            self._put(item)
        view.revision = revision

    def follow(self, events: Iterable[Event], revision: int) -> None:
        """What happened since."""
        for event in events:
            if event.deleted:
                self._delete(event.key)
            else:
                self._put(event.item)
        self.view.revision = revision

    def take_changes(self) -> tuple[set[PartitionKey], set[str]]:
        """What changed since the last call."""
        changes = self.changed_keys, self.changed_topics
        self.changed_keys, self.changed_topics = set(), set()
        return changes

    def _put(self, item: KeyValue) -> None:
        kind, rest = self.places.parsed(item.key)
        try:
            self._known(kind, rest, item)
        except (ValueError, KeyError, TypeError) as error:
            _log.error("etcd %r cannot be understood and is left out: %s", item.key, error)

    def _known(self, kind: str, rest: str, item: KeyValue) -> None:
        view = self.view
        if kind == "partitions":
            if (key := keys.partition_key(rest)) is not None:
                view.partitions[key] = keys.state_of(item)
                self.changed_keys.add(key)
        elif kind == "topics":
            view.topics[rest] = keys.topic_of(rest, item)
            view.deleted.discard(rest)
            self.changed_topics.add(rest)
        elif kind == "brokers":
            view.members[int(rest)] = keys.member_of(int(rest), item)
            self.leases[int(rest)] = item.lease
        elif kind == "leaving":
            view.leaving.add(int(rest))
        elif kind == "reports":
            view.reports[int(rest)] = keys.report_of(item)
        elif kind == "controller":
            view.controller = int(item.value)

    def _delete(self, key: bytes) -> None:
        view = self.view
        kind, rest = self.places.parsed(key)
        if kind == "partitions":
            if (place := keys.partition_key(rest)) is not None:
                view.partitions.pop(place, None)
                self.changed_keys.add(place)
        elif kind == "topics":
            view.topics.pop(rest, None)
            view.deleted.add(rest)
            self.changed_topics.add(rest)
        elif kind == "brokers" and rest.isdecimal():
            view.members.pop(int(rest), None)
        elif kind == "leaving" and rest.isdecimal():
            view.leaving.discard(int(rest))
        elif kind == "reports" and rest.isdecimal():
            view.reports.pop(int(rest), None)
        elif kind == "controller":
            view.controller = NOBODY
