"""Messages become keys that rise, name what they are about, and values of a bounded size."""

from __future__ import annotations

from itertools import count

import orjson
from hypothesis import given
from hypothesis import strategies as st

from nexus.queue.etcd.encoding import VALUE_BYTES, VALUE_READINGS, Encoder, Unit
from nexus.queue.etcd.forms import pack, unpack, unpack_or_raw
from nexus.queue.etcd.layout import Layout, Slot, readings_in, timestamp_ns_of
from nexus.queue.port import Message

LAYOUT = Layout("/q")
JSON = (("content-type", b"application/json"),)
START_NS = 1_790_000_000_000_000_000


def encoder(
    *,
    packs_all: bool = False,
    sequence: int = 0,
    clock: object = None,
    value_bytes: int = VALUE_BYTES,
) -> Encoder:
    ticks = count(START_NS)
    return Encoder(
        LAYOUT,
        "c1",
        "node_7/x",
        packs_all=packs_all,
        sequence=sequence,
        clock_ns=clock if callable(clock) else lambda: next(ticks),
        value_bytes=value_bytes,
    )


def reading(n: int, host: str = "h1", gpu: str = "0") -> Message:
    value = orjson.dumps({"hostname": host, "gpu_id": gpu, "value": n})
    return Message(value, b"GPU-1", JSON, partition=3)


def test_a_key_names_the_host_and_the_gpu_of_its_reading() -> None:
    (unit,) = encoder().units(3, [reading(1, "dgx_1/a b", "5")])
    assert unit.key == b"/q/c1/3/1790000000000000001_dgx-1-a-b_5_0000000001"
    assert unit.value == reading(1, "dgx_1/a b", "5").value
    assert LAYOUT.slot_of_key(unit.key) == Slot("c1", 3)


def test_a_message_that_names_nothing_still_has_a_key() -> None:
    values = [b"{}", b"[1, 2", b'{"hostname": 7}', b'"\xff\xfe"']
    units = encoder().units(0, [Message(value) for value in values])
    assert [unit.value for unit in units] == values
    assert all(unit.key.split(b"_")[1:3] == [b"-", b"-"] for unit in units)
    (number,) = encoder().units(0, [Message(b'{"hostname":"h","gpu_id":3}')])
    assert number.key.split(b"_")[1:3] == [b"h", b"3"]


@given(st.lists(st.integers(-(10**10), 10**10), min_size=1, max_size=20))
def test_keys_rise_whatever_the_clock_does(jumps: list[int]) -> None:
    moments = iter(START_NS + jump for jump in jumps)
    made = encoder(clock=lambda: next(moments))
    keys = [unit.key for _ in jumps for unit in made.units(1, [reading(1, "z"), reading(2, "a")])]
    assert keys == sorted(set(keys))


def test_a_sequence_that_is_used_up_begins_again() -> None:
    units = encoder(sequence=10**10 - 1).units(0, [reading(n) for n in range(2)])
    assert [unit.key[-10:] for unit in units] == [b"0000000000", b"0000000001"]


def test_packed_values_are_bounded_in_readings_and_bytes() -> None:
    small = [reading(n) for n in range(VALUE_READINGS * 2 + 1)]
    units = encoder(packs_all=True, value_bytes=1 << 20).units(0, small)
    assert [unit.readings for unit in units] == [VALUE_READINGS, VALUE_READINGS, 1]
    large = [Message(b"x" * 100_000, headers=JSON) for _ in range(7)]
    assert all(len(u.value) <= VALUE_BYTES for u in encoder(packs_all=True).units(0, large))
    huge = [Message(b"x" * (2 * VALUE_BYTES)), reading(1)]
    assert [unit.settles for unit in encoder(packs_all=True).units(0, huge)] == [1, 1]


def test_what_is_not_json_is_packed_and_says_how_many_readings_it_holds() -> None:
    arrow = Message(b"arrow", None, (("content-type", b"application/x"), ("count", b"700")))
    units = encoder().units(0, [reading(1), arrow, arrow._replace(headers=()), reading(2)])
    assert [(u.settles, u.readings, readings_in(u.key)) for u in units] == [
        (1, 1, 1),
        (1, 700, 700),
        (1, 1, 1),  # without a type it is taken for JSON
        (1, 1, 1),
    ]
    assert unpack(units[1].value)[0].headers == arrow.headers


def test_a_value_that_would_be_taken_for_frames_is_packed() -> None:
    for value in (b"", b"\x00abc"):
        (unit,) = encoder().units(0, [Message(value, headers=JSON)])
        assert [frame.value for frame in unpack(unit.value)] == [value]


@given(
    st.lists(
        st.builds(
            Message,
            st.binary(max_size=50),
            st.none() | st.binary(max_size=5),
            st.sampled_from([(), JSON, (("content-type", b"x"), ("count", b"3"))]),
            st.integers(0, 2**40),
        ),
        max_size=30,
    ),
    st.booleans(),
)
def test_no_message_is_lost_or_moved_by_packing(messages: list[Message], packs_all: bool) -> None:
    units = encoder(packs_all=packs_all).units(2, messages)
    frames = [frame for unit in units for frame in unpack(unit.value)]
    assert [frame.value for frame in frames] == [message.value for message in messages]
    assert sum(unit.settles for unit in units) == len(messages)
    assert all(unit.size >= len(unit.key) + len(unit.value) for unit in units)


def test_dead_letters_lie_beside_the_queue() -> None:
    letter = Message(b"row", headers=(("reason", b"r"),), dead=True)
    (unit,) = encoder().dead_units([letter])
    assert unit.key.startswith(b"/q.dlq/c1/0/")
    assert isinstance(unit, Unit)
    assert unit.dead
    assert unpack(unit.value)[0].headers == letter.headers


def test_a_damaged_value_is_one_message_and_a_reason() -> None:
    damaged = pack([reading(1)], 5)[:-1] + b"!"
    frames, why = unpack_or_raw(damaged)
    assert [frame.value for frame in frames] == [damaged]
    assert "checksum" in why
    assert unpack_or_raw(pack([reading(1)], 5))[1] == ""


def test_a_key_tells_when_it_was_published() -> None:
    (unit,) = encoder().units(0, [reading(1)])
    assert timestamp_ns_of(unit.key) == START_NS + 1
    assert timestamp_ns_of(b"/q/c1/0/plain") is None
