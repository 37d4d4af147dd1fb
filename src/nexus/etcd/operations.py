"""What a transaction does, and what the single calls do: Put, Get, Delete, and Txn itself."""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

from nexus.etcd import schema
from nexus.etcd.compare import Compare
from nexus.etcd.keys import Keys


class Order(Enum):
    """An order other than that of the keys: etcd reads the whole range for it, limit or not."""

    NEWEST_FIRST = (2, 3)
    OLDEST_FIRST = (1, 3)
    LAST_CREATED_FIRST = (2, 2)
    FIRST_CREATED_FIRST = (1, 2)
    LAST_KEY_FIRST = (2, 0)


class Put(NamedTuple):
    """Write one key. `keep_value` and `keep_lease` leave those as they are (KeyMissing if none)."""

    key: bytes
    value: bytes = b""
    lease: int = 0
    want_previous: bool = False
    keep_value: bool = False
    keep_lease: bool = False

    def fill(self, message: Any) -> Any:
        """Say this in a message that is there already: copying one would cost as much again."""
        message.key = self.key
        message.value = self.value
        if self.lease:
            message.lease = self.lease
        if self.want_previous or self.keep_value or self.keep_lease:
            message.prev_kv = self.want_previous
            message.ignore_value = self.keep_value
            message.ignore_lease = self.keep_lease
        return message

    def message(self) -> Any:
        return self.fill(schema.PutRequest())

    def join(self, step: Any) -> None:
        """Be a step of a transaction."""
        self.fill(step.request_put)


class Get(NamedTuple):
    """Read a key or a range, in the order of the keys.

    `limit` bounds what is sent, not what is counted: etcd walks the whole range, so bound its end.
    `serializable` is answered by one member alone, which may be behind.
    """

    keys: Keys
    limit: int = 0
    revision: int = 0
    keys_only: bool = False
    count_only: bool = False
    serializable: bool = False
    mod_from: int = 0
    mod_to: int = 0
    created_from: int = 0
    created_to: int = 0
    order: Order | None = None

    def fill(self, message: Any) -> Any:
        message.key, message.range_end = self.keys
        message.limit = self.limit
        message.revision = self.revision
        message.keys_only = self.keys_only
        message.count_only = self.count_only
        message.serializable = self.serializable
        message.min_mod_revision = self.mod_from
        message.max_mod_revision = self.mod_to
        message.min_create_revision = self.created_from
        message.max_create_revision = self.created_to
        if self.order is not None:
            message.sort_order, message.sort_target = self.order.value
        return message

    def message(self) -> Any:
        return self.fill(schema.RangeRequest())

    def join(self, step: Any) -> None:
        """Be a step of a transaction."""
        self.fill(step.request_range)


class Delete(NamedTuple):
    """Delete a key or a range."""

    keys: Keys
    want_previous: bool = False

    def fill(self, message: Any) -> Any:
        message.key, message.range_end = self.keys
        message.prev_kv = self.want_previous
        return message

    def message(self) -> Any:
        return self.fill(schema.DeleteRequest())

    def join(self, step: Any) -> None:
        """Be a step of a transaction."""
        self.fill(step.request_delete)


class Txn(NamedTuple):
    """If every compare holds, `then`, otherwise `otherwise`: in one revision, or not at all."""

    when: tuple[Compare, ...] = ()
    then: tuple[Operation, ...] = ()
    otherwise: tuple[Operation, ...] = ()

    def fill(self, message: Any) -> Any:
        message.SetInParent()
        message.compare.extend([compare.message() for compare in self.when])
        for branch, operations in ((message.success, self.then), (message.failure, self.otherwise)):
            for operation in operations:
                operation.join(branch.add())
        return message

    def message(self) -> Any:
        return self.fill(schema.TxnRequest())

    def join(self, step: Any) -> None:
        """Be a step of a transaction."""
        self.fill(step.request_txn)

    @property
    def read_only(self) -> bool:
        """Whether nothing can be written, so that it may be repeated."""
        return all(
            isinstance(operation, Get) or (isinstance(operation, Txn) and operation.read_only)
            for operation in (*self.then, *self.otherwise)
        )


Operation = Put | Get | Delete | Txn
