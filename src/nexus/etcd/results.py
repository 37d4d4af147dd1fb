"""What etcd answers, as plain values."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple


class KeyValue(NamedTuple):
    """A key as it is (or was) at some revision."""

    key: bytes
    value: bytes
    create_revision: int
    mod_revision: int
    version: int
    lease: int


class PutResult(NamedTuple):
    revision: int
    previous: KeyValue | None = None


class DeleteResult(NamedTuple):
    revision: int
    deleted: int
    previous: tuple[KeyValue, ...] = ()


class GetResult(NamedTuple):
    """`total` is how many keys the range holds, whatever the limit and the filters."""

    revision: int
    items: tuple[KeyValue, ...]
    total: int
    more: bool

    @property
    def first(self) -> KeyValue | None:
        return self.items[0] if self.items else None


class TxnResult:
    """What a transaction did. The single results are made when they are asked for."""

    def __init__(self, response: Any, revision: int | None = None) -> None:
        self._response = response
        self.succeeded: bool = response.succeeded
        self.revision: int = response.header.revision if revision is None else revision

    @cached_property
    def results(self) -> tuple[Result, ...]:
        """One result for each operation of the branch that was taken."""
        return tuple(_of_operation(each, self.revision) for each in self._response.responses)

    def got(self, index: int) -> GetResult:
        """The result of the operation at `index`, which is a Get."""
        return get_result(self._response.responses[index].response_range, self.revision)


Result = PutResult | GetResult | DeleteResult | TxnResult


def key_value(message: Any) -> KeyValue:
    return KeyValue(
        message.key,
        message.value,
        message.create_revision,
        message.mod_revision,
        message.version,
        message.lease,
    )


def put_result(message: Any, revision: int | None = None) -> PutResult:
    previous = key_value(message.prev_kv) if message.HasField("prev_kv") else None
    return PutResult(message.header.revision if revision is None else revision, previous)


def get_result(message: Any, revision: int | None = None) -> GetResult:
    return GetResult(
        message.header.revision if revision is None else revision,
        tuple(map(key_value, message.kvs)),
        message.count,
        message.more,
    )


def delete_result(message: Any, revision: int | None = None) -> DeleteResult:
    return DeleteResult(
        message.header.revision if revision is None else revision,
        message.deleted,
        tuple(map(key_value, message.prev_kvs)),
    )


def _of_operation(message: Any, revision: int) -> Result:
    if message.HasField("response_put"):
        return put_result(message.response_put, revision)
    if message.HasField("response_range"):
        return get_result(message.response_range, revision)
    if message.HasField("response_delete"):
        return delete_result(message.response_delete, revision)
    return TxnResult(message.response_txn, revision)
