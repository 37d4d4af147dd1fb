"""Where things are in etcd, and in which form: JSON, so that a person can read it.

All below `/nexus/clusters/{cluster id}/`. A registration's version is the revision at which its
key was put, a partition's that at which its state was.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import UUID

from nexus.cluster.controlling import PartitionKey
from nexus.cluster.partition_state import PartitionState
from nexus.cluster.port import Member, Report, TopicInfo
from nexus.etcd import KeyValue


class Places(NamedTuple):
    """The keys of one cluster."""

    root: bytes

    @classmethod
    def of(cls, cluster_id: str) -> Places:
        return cls(f"/nexus/clusters/{cluster_id}/".encode())

    def broker(self, node: int) -> bytes:
        return self.root + b"brokers/%d" % node

    def leaving(self, node: int) -> bytes:
        return self.root + b"leaving/%d" % node

    def report(self, node: int) -> bytes:
        return self.root + b"reports/%d" % node

    @property
    def controller(self) -> bytes:
        return self.root + b"controller"

    @property
    def producer_ids(self) -> bytes:
        return self.root + b"producer_ids"

    def topic(self, name: str) -> bytes:
        return self.root + b"topics/" + name.encode()

    def partitions(self, name: str) -> bytes:
        """What the keys of a topic's partitions begin with."""
        return self.root + b"partitions/" + name.encode() + b"/"

    def partition(self, key: PartitionKey) -> bytes:
        return self.partitions(key[0]) + b"%d" % key[1]

    def parsed(self, key: bytes) -> tuple[str, str]:
        """What kind of key it is, and the rest of it."""
        kind, _, rest = key.removeprefix(self.root).decode(errors="replace").partition("/")
        return kind, rest


def partition_key(rest: str) -> PartitionKey | None:
    topic, _, number = rest.rpartition("/")
    return (topic, int(number)) if topic and number.isdecimal() else None


def state_value(state: PartitionState) -> bytes:
    record: dict[str, object] = {
        "replicas": state.replicas,
        "leader": state.leader,
        "epoch": state.epoch,
        "in_sync": state.in_sync,
    }
    if state.target:
        record["target"] = state.target
    return _json(record)


def state_of(item: KeyValue) -> PartitionState:
    record = json.loads(item.value)
    return PartitionState(
        tuple(record["replicas"]),
        record["leader"],
        record["epoch"],
        tuple(record["in_sync"]),
        tuple(record.get("target", ())),
        item.mod_revision,
    )


def member_value(me: Member, directory: str) -> bytes:
    return _json(
        {
            "host": me.host,
            "port": me.port,
            "rack": me.rack,
            "kept_all": me.kept_all,
            "directory": directory,
        }
    )


def member_of(node: int, item: KeyValue) -> Member:
    record = json.loads(item.value)
    return Member(
        node,
        record["host"],
        record["port"],
        record.get("rack", ""),
        item.mod_revision,
        record.get("kept_all", True),
    )


def report_value(report: Report) -> bytes:
    """By topic, so that a name is there once: a thousand partitions take some 30 KB."""
    loads: dict[str, dict[str, object]] = {}
    for (topic, number), row in sorted(report.loads.items()):
        loads.setdefault(topic, {})[str(number)] = [float(f"{value:.3g}") for value in row]
    copying: dict[str, dict[str, int]] = {}
    for (topic, number), size in sorted(report.copying.items()):
        copying.setdefault(topic, {})[str(number)] = size
    return _json({"loads": loads, "copying": copying, "damaged": report.damaged})


def report_of(item: KeyValue) -> Report:
    record = json.loads(item.value)
    return Report(
        {(t, int(n)): tuple(row) for t, rows in record["loads"].items() for n, row in rows.items()},
        {(t, int(n)): size for t, rows in record["copying"].items() for n, size in rows.items()},
        tuple(record["damaged"]),
    )


def directory_of(item: KeyValue) -> str:
    """Which data directory a registered broker holds."""
    record: dict[str, Any] = json.loads(item.value)
    return str(record.get("directory", ""))


def topic_value(info: TopicInfo) -> bytes:
    return _json(
        {"id": str(info.topic_id), "partitions": info.partitions, "configs": dict(info.configs)}
    )


def topic_of(name: str, item: KeyValue) -> TopicInfo:
    record = json.loads(item.value)
    return TopicInfo(name, UUID(record["id"]), record["partitions"], record["configs"])


def _json(record: Mapping[str, object]) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode()
