"""Messages to live readings: cut to size, and a bad one costs itself and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from nexus.gateway.live import messages as module
from nexus.gateway.live.messages import PIECE_BYTES, PIECE_READINGS, pieces, table_of
from nexus.gateway.live.metrics import LiveMetrics
from nexus.observe.metrics import Registry
from nexus.queue.port import Received
from nexus.telemetry.codec import JSON_TYPE, decode_messages
from nexus.telemetry.errors import SchemaError
from support.live import message, received, shown
from support.readings import message as json_message

HOSTILE = [
    message(b""),
    message(b"no arrow at all"),
    message(b"\xff" * 1000),
    message(b"{torn", kind=JSON_TYPE),
    message(b"[]", kind=JSON_TYPE),
    message(b'{"timestamp": 1e999}', kind=JSON_TYPE),
    message(b"x", kind="image/png"),
    message(b"[" * 100_000, kind=JSON_TYPE),
    Received(0, 0, 0, None, b"", ()),
]


@pytest.fixture
def metrics() -> LiveMetrics:
    return LiveMetrics(Registry())


def test_undecodable_messages_are_counted_and_skipped(metrics: LiveMetrics) -> None:
    good = received({"uuid": "a"}, {"uuid": "b"})
    table = table_of([*HOSTILE, *good, *HOSTILE], metrics)
    assert [row["uuid"] for row in shown(table)] == ["a", "b"]
    assert (metrics.undecodable.value, metrics.readings.value) == (2 * len(HOSTILE), 2)


def test_readings_of_both_kinds_are_shown_in_their_order(metrics: LiveMetrics) -> None:
    plain = message(json_message(uuid="json"), kind=JSON_TYPE)
    table = table_of([*received({"uuid": "one"}), plain, *received({"uuid": "two"})], metrics)
    assert [row["uuid"] for row in shown(table)] == ["one", "json", "two"]


def test_what_the_tables_would_refuse_is_counted(metrics: LiveMetrics) -> None:
    table_of(received({"uuid": "a"}, {"uuid": "b", "source_value": -4000.0}), metrics)
    assert (metrics.readings.value, metrics.refused.value) == (1, 1)


def test_a_message_that_breaks_the_decoder_costs_only_itself(
    metrics: LiveMetrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode = decode_messages

    def breaks(values: Sequence[bytes | None], kinds: Sequence[str | None]) -> object:
        if b"poison" in values:
            raise SchemaError("unheard of")
        return decode(values, kinds)

    monkeypatch.setattr(module, "decode_messages", breaks)
    good = [received({"uuid": str(n)})[0] for n in range(5)]
    table = table_of([*good[:2], message(b"poison"), *good[2:]], metrics)
    assert [row["uuid"] for row in shown(table)] == ["0", "1", "2", "3", "4"]
    assert metrics.undecodable.value == 1


def test_pieces_are_cut_by_readings_and_by_bytes() -> None:
    headers = (("content-type", b"x"), ("count", b"4000"))
    many = [Received(0, n, 0, None, b"", headers) for n in range(5)]
    assert [len(piece) for piece in pieces(many)] == [2, 2, 1]
    large = [message(b"x" * (PIECE_BYTES // 2 + 1), offset=n) for n in range(3)]
    assert [len(piece) for piece in pieces(large)] == [1, 1, 1]
    single = [message(b"{}", offset=n, kind=JSON_TYPE) for n in range(PIECE_READINGS + 1)]
    assert [len(piece) for piece in pieces(single)] == [PIECE_READINGS, 1]
    assert list(pieces(())) == []


@pytest.mark.parametrize("said", [b"", b"-1", b"99999999999999", b"many", b"\xb2"])
def test_a_count_that_is_no_number_is_one(said: bytes) -> None:
    odd = [Received(0, n, 0, None, b"", (("count", said), ("a", b""))) for n in range(3)]
    assert [len(piece) for piece in pieces(odd)] == [3]
