"""Consumer groups and their offsets, as a state machine that does no I/O and has no clock.

One `Coordinator` serves the groups of one partition of `__consumer_offsets`. Whoever runs it feeds
it requests, time and the outcome of stores, and carries out the effects that each call returns:

    coordinator = Coordinator(GroupConfig(), new_id=lambda: str(uuid4()))
    for batch in offsets_partition:
        coordinator.load((record.key, record.value) for record in batch)
    run(coordinator.loaded(now_ms()))

    run(coordinator.join(token, JoinRequest(...), now_ms()))   # token: opaque, comes back in Reply

    def run(effects):
        for effect in effects:
            match effect:
                case Reply(token, result):
                    answer(token, result)
                case Store(records, tag):
                    append(records, tag)         # in this order; when durable, or failed, it calls
                                                 # run(coordinator.stored(tag, error, now_ms()))
        wake_at(coordinator.next_deadline_ms(), lambda: run(coordinator.tick(now_ms())))

Stores are appended, and reported by `stored`, in the order in which they were returned. A token is
answered exactly once, at the latest when time has passed or `close` is called. `fetch_offsets`,
`list_groups` and `describe_group` are reads and return their result. A group's partition is
`partition_for(group_id, count)`; topics that do not exist are refused before they come here.
"""

from nexus.groups.config import GroupConfig
from nexus.groups.coordinator import Coordinator, partition_for
from nexus.groups.effects import Effect, Effects, Reply, Store, StoredRecord
from nexus.groups.requests import (
    CommitRequest,
    DeleteOffsetsRequest,
    FetchOffsetsRequest,
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    LeavingMember,
    MemberProtocol,
    OffsetToCommit,
    SyncRequest,
    TopicPartition,
)
from nexus.groups.results import (
    CommitResult,
    DeleteGroupResult,
    DeleteOffsetsResult,
    FetchedOffset,
    FetchOffsetsResult,
    GroupDescription,
    GroupListing,
    HeartbeatResult,
    JoinMember,
    JoinResult,
    LeaveResult,
    LeftMember,
    MemberDescription,
    Result,
    SyncResult,
)

__all__ = [
    "CommitRequest",
    "CommitResult",
    "Coordinator",
    "DeleteGroupResult",
    "DeleteOffsetsRequest",
    "DeleteOffsetsResult",
    "Effect",
    "Effects",
    "FetchOffsetsRequest",
    "FetchOffsetsResult",
    "FetchedOffset",
    "GroupConfig",
    "GroupDescription",
    "GroupListing",
    "HeartbeatRequest",
    "HeartbeatResult",
    "JoinMember",
    "JoinRequest",
    "JoinResult",
    "LeaveRequest",
    "LeaveResult",
    "LeavingMember",
    "LeftMember",
    "MemberDescription",
    "MemberProtocol",
    "OffsetToCommit",
    "Reply",
    "Result",
    "Store",
    "StoredRecord",
    "SyncRequest",
    "SyncResult",
    "TopicPartition",
    "partition_for",
]
