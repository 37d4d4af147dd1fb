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
from nexus.cluster.port import Member, TopicInfo
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
