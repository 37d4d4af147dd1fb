"""Keys, ranges and compares as they go over the wire."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus.etcd import Delete, Get, Keys, Put, Txn, absent, mod_revision, schema, value


def inside(keys: Keys, key: bytes) -> bool:
    """What etcd means by a range."""
    if not keys.end:
        return key == keys.start
    return key >= keys.start and (keys.end == b"\x00" or key < keys.end)


@given(st.binary(max_size=6), st.binary(min_size=1, max_size=8))
def test_a_prefix_holds_exactly_the_keys_that_begin_so(prefix: bytes, key: bytes) -> None:
    assert inside(Keys.prefix(prefix), key) == key.startswith(prefix)


@given(st.binary(min_size=1, max_size=4), st.binary(min_size=1, max_size=6))
def test_what_comes_after_a_key_leaves_out_that_key_alone(last: bytes, key: bytes) -> None:
    assert inside(Keys.since(b"\x00").after(last), key) == (key > last)


def test_a_compare_carries_its_range_and_its_operand() -> None:
    message = mod_revision(Keys(b"a", b"b")).less(7).message()
    assert (message.key, message.range_end, message.mod_revision) == (b"a", b"b", 7)
    assert (message.target, message.result) == (2, 2)
    assert value(b"a").equals(b"x").message().value == b"x"
    assert absent(b"a").message().create_revision == 0


@pytest.mark.parametrize(
    ("operations", "read_only"),
    [
        ((Get(Keys(b"a")),), True),
        ((Txn(then=(Get(Keys(b"a")),)),), True),
        ((Txn(otherwise=(Put(b"a"),)),), False),
        ((Delete(Keys(b"a")),), False),
        ((), True),
    ],
)
def test_a_transaction_knows_whether_it_can_write(
    operations: tuple[Get | Put | Delete | Txn, ...], read_only: bool
) -> None:
    assert Txn(then=operations).read_only is read_only


def test_messages_live_in_a_package_of_our_own() -> None:
    names = {method.request.DESCRIPTOR.full_name for method in (schema.RANGE, schema.WATCH)}
    assert names == {"nexus.etcd.RangeRequest", "nexus.etcd.WatchRequest"}
