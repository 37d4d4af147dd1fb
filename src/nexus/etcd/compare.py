"""What a transaction can be made to depend on.

`create_revision(owner).equals(token)` holds for one key; over a range it must hold for every key
in it. A key that is not there, and an empty range, compare as zeros; a value never compares.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

from nexus.etcd import schema
from nexus.etcd.keys import Keys, keys_of


class _Target(IntEnum):
    VERSION = 0
    CREATE_REVISION = 1
    MOD_REVISION = 2
    VALUE = 3
    LEASE = 4


class _Result(IntEnum):
    EQUAL = 0
    GREATER = 1
    LESS = 2
    NOT_EQUAL = 3


class Compare(NamedTuple):
    """One condition of a transaction."""

    target: _Target
    keys: Keys
    result: _Result
    operand: int | bytes

    def message(self) -> Any:
        known = {self.target.name.lower(): self.operand}
        return schema.Compare(
            result=self.result,
            target=self.target,
            key=self.keys.start,
            range_end=self.keys.end,
            **known,
        )


class Number(NamedTuple):
    """A number that keys have, waiting to be compared."""

    target: _Target
    keys: Keys

    def equals(self, number: int) -> Compare:
        return Compare(self.target, self.keys, _Result.EQUAL, number)

    def differs(self, number: int) -> Compare:
        return Compare(self.target, self.keys, _Result.NOT_EQUAL, number)

    def less(self, number: int) -> Compare:
        return Compare(self.target, self.keys, _Result.LESS, number)

    def greater(self, number: int) -> Compare:
        return Compare(self.target, self.keys, _Result.GREATER, number)


class Value(NamedTuple):
    """The value that keys have, waiting to be compared, byte by byte."""

    keys: Keys

    def equals(self, value: bytes) -> Compare:
        return Compare(_Target.VALUE, self.keys, _Result.EQUAL, value)

    def differs(self, value: bytes) -> Compare:
        return Compare(_Target.VALUE, self.keys, _Result.NOT_EQUAL, value)

    def less(self, value: bytes) -> Compare:
        return Compare(_Target.VALUE, self.keys, _Result.LESS, value)

    def greater(self, value: bytes) -> Compare:
        return Compare(_Target.VALUE, self.keys, _Result.GREATER, value)


def value(keys: bytes | Keys) -> Value:
    return Value(keys_of(keys))


def version(keys: bytes | Keys) -> Number:
    """How often the key was put since it was created."""
    return Number(_Target.VERSION, keys_of(keys))


def create_revision(keys: bytes | Keys) -> Number:
    return Number(_Target.CREATE_REVISION, keys_of(keys))


def mod_revision(keys: bytes | Keys) -> Number:
    return Number(_Target.MOD_REVISION, keys_of(keys))


def lease(keys: bytes | Keys) -> Number:
    """The id of the lease that the key hangs on."""
    return Number(_Target.LEASE, keys_of(keys))


def absent(keys: bytes | Keys) -> Compare:
    """No such key is there."""
    return create_revision(keys).equals(0)


def present(key: bytes) -> Compare:
    return create_revision(key).greater(0)
