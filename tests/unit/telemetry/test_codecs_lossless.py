"""Any reading survives both codecs, and both decode together."""

import json
from math import inf, nan

import pyarrow as pa
import pytest
from hypothesis import given

from nexus.telemetry.arrow_codec import (
    MAX_BYTES,
    MAX_READINGS,
    decode_arrow,
    encode_arrow,
    split_for_messages,
)
from nexus.telemetry.codec import ARROW_TYPE, JSON_TYPE, decode_messages
from nexus.telemetry.errors import UnencodableReading
from nexus.telemetry.json_codec import decode_json, encode_json
from nexus.telemetry.reading import encoded, plain
from support.readings import any_readings, examples, fleet, message, readings, recording


def same(decoded: pa.Table, table: pa.Table) -> bool:
    """Equal to the last bit: text comparison tells -0.0 from 0.0."""
    bits = [plain(t)["source_value"].combine_chunks().view(pa.int64()) for t in (decoded, table)]
    return bool(plain(decoded).equals(plain(table)) and bits[0].equals(bits[1]))


@examples(80)
@given(any_readings)
def test_any_reading_survives_both_codecs(table: pa.Table) -> None:
    messages = encode_json(table)
    found = decode_json(messages)
    assert found.errors == []
    assert same(found.table, table)
    assert same(decode_arrow(encode_arrow(table)), table)
    for value, row in zip(messages, table.to_pylist(), strict=True):
        assert json.loads(value)["metric_name"] == row["source_metric"]


@examples(30)
@given(any_readings)
def test_any_reading_survives_among_many_of_its_kind(table: pa.Table) -> None:
    many = pa.concat_tables([table] * 130)
    found = decode_json(encode_json(many))
    assert found.errors == []
    assert same(found.table, many)


@examples(50)
@given(any_readings)
def test_any_reading_survives_json_that_is_decoded_one_by_one(table: pa.Table) -> None:
    messages = [b" " + value + b"\n\n" for value in encode_json(table)]
    found = decode_json([*messages, b"not JSON"])
    assert [error.index for error in found.errors] == [table.num_rows]
    assert same(found.table, table)


EXTREME = [5e-324, 1.7976931348623157e308, -0.0, 0.1, 2**53 + 1.0, 118.78, -1e-7, 1e21]
UNUSUAL = ["", '"', "\\", "\n", "\x00", "\u2028", "ü", "😀", "{}", "null", "GPU-1", " x "]


@pytest.mark.parametrize("value", EXTREME)
def test_extreme_doubles_survive(value: float) -> None:
    table = readings({"source_value": value})
    assert same(decode_json(encode_json(table)).table, table)
    assert same(decode_arrow(encode_arrow(table)), table)


@pytest.mark.parametrize("text", UNUSUAL)
def test_unusual_text_survives_everywhere(text: str) -> None:
    everywhere = dict.fromkeys(("uuid", "gpu", "model", "pod", "hostname", "unit", "mig"), text)
    labels = json.dumps({"k": text, "z" + text: "v"}, ensure_ascii=False, separators=(",", ":"))
    table = readings(everywhere | {"labels": labels, "source_metric": "m" + text})
    assert same(decode_json(encode_json(table)).table, table)
    assert same(decode_arrow(encode_arrow(table)), table)


def test_a_model_beside_another_models_label_stays_apart() -> None:
    table = readings(
        {"model": "A", "labels": '{"model_name":"B"}'},
        {"model": "", "labels": '{"model_name":"B"}'},
        {"model": "A", "labels": ""},
        {"model": "A", "labels": '{"a":"model_name"}'},
    )
    assert same(decode_json(encode_json(table)).table, table)


@pytest.mark.parametrize("value", [nan, inf, -inf])
def test_json_refuses_what_is_no_number_and_arrow_carries_it(value: float) -> None:
    table = readings({}, {"source_value": value})
    with pytest.raises(UnencodableReading, match="no number"):
        encode_json(table)
    assert str(decode_arrow(encode_arrow(table))["source_value"][1]) == str(value)


def test_a_message_in_json_has_the_documented_form() -> None:
    row = {
        "timestamp": 1_752_871_354_000_000,
        "ingested": 1_752_871_355_250_000,
        "source_metric": "DCGM_FI_DEV_GPU_UTIL",
        "source_value": 85.0,
        "gpu": "0",
        "uuid": "GPU-5fd4",
        "device": "nvidia0",
        "hostname": "mtv5-dgx1-hgpu-031",
        "model": "NVIDIA H100 80GB HBM3",
        "labels": '{"driver_version":"535.129.03"}',
    }
    assert encode_json(readings(row)) == [
        b'{"timestamp":"2025-07-18T20:42:34Z","metric_name":"DCGM_FI_DEV_GPU_UTIL","gpu_id":"0",'
        b'"uuid":"GPU-5fd4","device":"nvidia0","hostname":"mtv5-dgx1-hgpu-031","value":85,'
        b'"ingested":"2025-07-18T20:42:35.250000Z","labels":{"model_name":'
        b'"NVIDIA H100 80GB HBM3","driver_version":"535.129.03"}}'
    ]


def test_labels_with_line_ends_are_not_canonical_and_not_encoded() -> None:
    with pytest.raises(UnencodableReading, match="line ends"):
        encode_json(readings({"labels": '{\n"a":"b"}'}))


def test_a_fleet_fits_in_few_bytes_labels_included() -> None:
    for table in (fleet(20_000), recording()):
        sizes = [(len(value), count) for value, count in split_for_messages(table)]
        assert sum(count for _, count in sizes) == table.num_rows
        assert sum(size for size, _ in sizes) / table.num_rows < 30


def test_messages_keep_to_their_limits() -> None:
    table = fleet(2 * MAX_READINGS + 1)
    counts = [count for _, count in split_for_messages(table)]
    assert counts == [MAX_READINGS, MAX_READINGS, 1]
    with pytest.raises(UnencodableReading, match="more than 10000"):
        encode_arrow(table)


def test_what_is_too_large_for_a_message_is_halved_until_it_fits() -> None:
    table = readings(*({"pod": f"{n:05d}" + "x" * 300} for n in range(4000)))
    found = list(split_for_messages(table, compression=None))
    assert len(found) > 1
    assert all(len(value) <= MAX_BYTES for value, _ in found)
    decoded = pa.concat_tables([decode_arrow(value) for value, _ in found]).unify_dictionaries()
    assert same(decoded, table)


def test_one_reading_that_is_too_large_is_told_so() -> None:
    with pytest.raises(UnencodableReading, match="one reading"):
        list(split_for_messages(readings({"pod": "x" * MAX_BYTES}), compression=None))


def test_a_slice_carries_only_the_text_that_it_uses() -> None:
    pods = encoded(pa.array([f"pod-{n}-{'x' * 90}" for n in range(5000)]))
    table = readings(*({} for _ in range(5000)))
    table = table.set_column(table.schema.get_field_index("pod"), "pod", pods)
    assert len(encode_arrow(table.slice(10, 5), compression=None)) < 20_000


def test_messages_of_both_kinds_decode_together_in_order() -> None:
    first, second = readings({"pod": "a"}, {"pod": "b"}), readings({"pod": "d"}, {"pod": "e"})
    values = [encode_arrow(first), message(pod="c"), encode_arrow(second), None, b"\x00", b"?"]
    types = [ARROW_TYPE, None, ARROW_TYPE, JSON_TYPE, ARROW_TYPE, "text/plain"]
    found = decode_messages(values, types)
    assert plain(found.table)["pod"].to_pylist() == ["a", "b", "c", "d", "e"]
    assert found.origin.to_pylist() == [0, 0, 1, 2, 2]
    assert [error.index for error in found.errors] == [3, 4, 5]
    assert "'text/plain' is not known" in found.errors[2].reason


def test_no_messages_are_no_readings() -> None:
    found = decode_messages([], [])
    assert (found.table.num_rows, found.errors, len(found.origin)) == (0, [], 0)
    assert encode_json(readings({}).slice(0, 0)) == []
    assert decode_arrow(encode_arrow(readings({}).slice(0, 0))).num_rows == 0
