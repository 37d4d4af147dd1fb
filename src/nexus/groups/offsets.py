"""Committed offsets: who may commit, what is told, what may be forgotten and when.

A commit is visible once it is stored, not before; what is forgotten is written as a tombstone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from nexus.groups.config import GroupConfig
from nexus.groups.context import Context, Then, told_to_clients
from nexus.groups.effects import StoredRecord
from nexus.groups.group import CONSUMER, Group, GroupState
from nexus.groups.membership import Membership
from nexus.groups.reader import STRING_BYTES_MAX
from nexus.groups.records import (
    OffsetValue,
    encode_group_key,
    encode_offset_key,
    encode_offset_value,
)
from nexus.groups.requests import (
    CommitRequest,
    DeleteOffsetsRequest,
    OffsetToCommit,
    TopicPartition,
)
from nexus.groups.results import (
    CommitResult,
    DeleteGroupResult,
    DeleteOffsetsResult,
    FetchedOffset,
)
from nexus.wire.errors import ErrorCode

_TOPIC_CHARS_MAX = 249
_INT64_MAX = 2**63 - 1
Errors = dict[TopicPartition, ErrorCode]
Values = dict[TopicPartition, OffsetValue]


class Offsets:
    """The rules for offsets of a group that exists."""

    def __init__(self, context: Context, membership: Membership) -> None:
        self._context = context
        self._membership = membership

    # -- commit

    def commit(self, group: Group, token: object, request: CommitRequest, now_ms: int) -> None:
        error = self._commit_refusal(group, request)
        if error is not ErrorCode.NONE:
            self._context.reply(token, refused(request, error))
            return
        member = group.members.get(request.member_id)
        if member is not None:
            self._membership.is_alive(group, member, now_ms)
        errors, values = self._sort_out(request, now_ms)
        if values:
            self._store_commit(group, token, errors, values)
        else:
            self._context.reply(token, CommitResult(errors))

    def _commit_refusal(self, group: Group, request: CommitRequest) -> ErrorCode:
        empty = group.state is GroupState.EMPTY
        if request.generation_id < 0 and empty:
            return ErrorCode.NONE
        member_named = request.member_id != "" or request.group_instance_id is not None
        if request.generation_id < 0 and not member_named and group.state is not GroupState.DEAD:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = self._membership.check_generation(
            group, request.member_id, request.group_instance_id, request.generation_id
        )
        if error is ErrorCode.NONE and group.state is GroupState.COMPLETING:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return error

    def _sort_out(self, request: CommitRequest, now_ms: int) -> tuple[Errors, Values]:
        """What is wrong with each offset, and the values of those with which nothing is."""
        errors: Errors = {}
        values: Values = {}
        expire_ms = -1
        if request.retention_ms >= 0:
            expire_ms = min(now_ms + request.retention_ms, _INT64_MAX)
        for wanted in request.offsets:
            key = (wanted.topic, wanted.partition)
            errors[key] = _offset_error(wanted, self._context.config)
            if errors[key] is ErrorCode.NONE:
                metadata = wanted.metadata or ""
                values[key] = OffsetValue(
                    wanted.offset, wanted.leader_epoch, metadata, now_ms, expire_ms
                )
        return errors, values

    def _store_commit(self, group: Group, token: object, errors: Errors, values: Values) -> None:
        def then(error: ErrorCode, _now_ms: int) -> None:
            group.offsets.settle(ticket, values, ok=error is ErrorCode.NONE)
            told = told_to_clients(error, ErrorCode.INVALID_COMMIT_OFFSET_SIZE)
            self._context.reply(token, CommitResult(errors | dict.fromkeys(values, told)))

        def refusal(error: ErrorCode) -> CommitResult:
            return CommitResult(errors | dict.fromkeys(values, error))

        ticket = group.offsets.begin(values)
        records = tuple(
            (encode_offset_key(group.group_id, *key), encode_offset_value(value))
            for key, value in values.items()
        )
        self._context.store(records, then, token, refusal)

    # -- fetch

    def fetch(
        self, group: Group | None, partitions: Collection[TopicPartition] | None
    ) -> dict[TopicPartition, FetchedOffset]:
        committed = {} if group is None else group.offsets.committed
        keys = sorted(committed) if partitions is None else partitions
        return {key: _fetched(committed.get(key)) for key in keys}

    # -- delete

    def delete(self, group: Group, token: object, request: DeleteOffsetsRequest) -> None:
        if group.state is GroupState.DEAD:
            self._context.reply(token, DeleteOffsetsResult(ErrorCode.GROUP_ID_NOT_FOUND))
            return
        if group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER:
            self._context.reply(token, DeleteOffsetsResult(ErrorCode.NON_EMPTY_GROUP))
            return
        errors = {key: self._delete_error(group, key[0]) for key in request.partitions}
        known = group.offsets.known()
        keys = [k for k, error in errors.items() if error is ErrorCode.NONE and k in known]
        if not keys:
            self._context.reply(token, DeleteOffsetsResult(ErrorCode.NONE, errors))
            return
        self._store_delete(group, token, keys, errors)

    def _delete_error(self, group: Group, topic: str) -> ErrorCode:
        if group.state is GroupState.EMPTY or not group.is_subscribed_to(topic):
            return ErrorCode.NONE
        return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC

    def _store_delete(
        self, group: Group, token: object, keys: list[TopicPartition], errors: Errors
    ) -> None:
        def then(error: ErrorCode, _now_ms: int) -> None:
            if error is not ErrorCode.NONE:
                told = told_to_clients(error, ErrorCode.UNKNOWN_SERVER_ERROR)
                self._context.reply(token, DeleteOffsetsResult(told))
                return
            group.offsets.forget(keys)
            self._context.reply(token, DeleteOffsetsResult(ErrorCode.NONE, errors))

        self._context.store(tombstones(group, keys), then, token, DeleteOffsetsResult)

    def delete_group(self, group: Group, token: object, gone: Then) -> None:
        """Tombstones for all of an empty group, which is dead meanwhile; `gone` ends it."""
        if group.state is not GroupState.EMPTY:
            error = ErrorCode.NON_EMPTY_GROUP
            if group.state is GroupState.DEAD:
                error = ErrorCode.GROUP_ID_NOT_FOUND
            self._context.reply(token, DeleteGroupResult(error))
            return
        group.state = GroupState.DEAD

        def then(error: ErrorCode, now_ms: int) -> None:
            if error is ErrorCode.NONE:
                gone(error, now_ms)
            else:
                group.state = GroupState.EMPTY
            told = told_to_clients(error, ErrorCode.UNKNOWN_SERVER_ERROR)
            self._context.reply(token, DeleteGroupResult(told))

        records = (*tombstones(group, group.offsets.known()), group_tombstone(group))
        self._context.store(records, then, token, DeleteGroupResult)

    # -- time and topics

    def expire(self, group: Group, now_ms: int, then_bury: Callable[[], None]) -> None:
        """Forget what nobody came back for, and the group itself if that was all it had."""
        keys = [k for k, value in group.offsets.idle() if self._expired(group, k[0], value, now_ms)]
        if not keys:
            then_bury()
            return

        def then(error: ErrorCode, _now_ms: int) -> None:
            if error is ErrorCode.NONE:
                group.offsets.forget(keys)
                then_bury()

        self._context.store(tombstones(group, keys), then)

    def _expired(self, group: Group, topic: str, value: OffsetValue, now_ms: int) -> bool:
        since = value.commit_ms
        if group.state is GroupState.EMPTY:
            if group.protocol_type is not None:
                # Offsets that an operator set after the group became empty have their full time.
                since = max(since, group.state_ms)
        elif not self._is_abandoned(group, topic):
            return False
        if value.expire_ms >= 0:
            return now_ms >= value.expire_ms
        return now_ms - since >= self._context.config.offsets_retention_ms

    def _is_abandoned(self, group: Group, topic: str) -> bool:
        """Whether a live group no longer reads a topic."""
        stable = group.state is GroupState.STABLE and group.protocol_type == CONSUMER
        return stable and not group.is_subscribed_to(topic)

    def drop_topics(self, group: Group, topics: Collection[str]) -> None:
        """Topics are gone, and their offsets at once: a new topic of that name starts afresh."""
        keys = [key for key in group.offsets.known() if key[0] in topics]
        if keys:
            group.offsets.drop(keys)
            self._context.store(tombstones(group, keys), lambda _error, _now_ms: None)


def refused(request: CommitRequest, error: ErrorCode) -> CommitResult:
    """The same error for every offset of a request."""
    return CommitResult({(o.topic, o.partition): error for o in request.offsets})


def tombstones(group: Group, keys: Iterable[TopicPartition]) -> tuple[StoredRecord, ...]:
    return tuple((encode_offset_key(group.group_id, *key), None) for key in keys)


def group_tombstone(group: Group) -> StoredRecord:
    return encode_group_key(group.group_id), None


def _offset_error(wanted: OffsetToCommit, config: GroupConfig) -> ErrorCode:
    size = len((wanted.metadata or "").encode())
    if size > min(config.offset_metadata_bytes_max, STRING_BYTES_MAX):
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    if len(wanted.topic) > _TOPIC_CHARS_MAX:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return ErrorCode.NONE


def _fetched(value: OffsetValue | None) -> FetchedOffset:
    if value is None:
        return FetchedOffset()
    return FetchedOffset(value.offset, value.leader_epoch, value.metadata)
