"""JSON messages of other people: odd ones are understood, bad ones cost only themselves."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus.telemetry.json_codec import decode_json, encode_json
from nexus.telemetry.reading import plain
from support.readings import examples, fleet, message


def decoded(*values: bytes) -> list[dict[str, object]]:
    found = decode_json(values)
    assert found.errors == []
    rows: list[dict[str, object]] = plain(found.table).to_pylist()
    return rows


def test_the_documented_message_is_a_reading() -> None:
    row = decoded(message())[0]
    assert str(row["timestamp"]) == "2025-07-18 20:42:34+00:00"
    assert (row["source_metric"], row["source_value"]) == ("DCGM_FI_DEV_GPU_UTIL", 85.0)
    assert (row["gpu"], row["uuid"]) == ("0", "GPU-5fd4f087")
    assert row["model"] == "NVIDIA H100 80GB HBM3"
    assert row["labels"] == '{"driver_version":"535.129.03"}'
    assert row["ingested"] == row["timestamp"]


@pytest.mark.parametrize("others", [0, 40])
def test_an_index_may_hold_the_uuid(others: int) -> None:
    rows = decoded(message(gpu_id="GPU-1", uuid=None), *[message()] * others)
    assert (rows[0]["uuid"], rows[0]["gpu"]) == ("GPU-1", "")


@pytest.mark.parametrize("others", [0, 40])
def test_unknown_fields_become_labels(others: int) -> None:
    rows = decoded(
        *[message()] * others,
        message(rack="r1", seq=7, ok=True, when="2025-01-01", labels={"driver_version": "1"}),
    )
    assert json.loads(str(rows[-1]["labels"])) == {
        "driver_version": "1",
        "ok": "true",
        "rack": "r1",
        "seq": "7",
        "when": "2025-01-01",
    }
    assert all(row["labels"] == '{"driver_version":"535.129.03"}' for row in rows[:-1])


def test_labels_of_any_kind_are_kept_as_text() -> None:
    row = decoded(message(ratio=1.50, tree={"b": [1, None]}, none=None, labels=["x"]))[0]
    assert json.loads(str(row["labels"])) == {
        "ratio": "1.5",
        "tree": '{"b":[1,null]}',
        "labels": '["x"]',
    }


@pytest.mark.parametrize("labels", [None, {}])
def test_a_message_without_labels_has_none(labels: object) -> None:
    rows = decoded(*[message(labels=labels)] * 20)
    assert {str(row["labels"]) for row in rows} == {""}


@pytest.mark.parametrize("others", [0, 40])
def test_an_index_that_is_a_number_is_text(others: int) -> None:
    assert decoded(message(gpu_id=3), *[message(gpu_id=4)] * others)[0]["gpu"] == "3"


@pytest.mark.parametrize(
    ("said", "micros"),
    [
        ("2025-07-18T20:42:34Z", 0),
        ("2025-07-18T20:42:34.5Z", 500_000),
        ("2025-07-18T20:42:34.000001Z", 1),
        ("2025-07-18T20:42:34.123456789Z", 123_456),
        ("2025-07-18T22:42:34+02:00", 0),
        ("2025-07-18 20:42:34", 0),
        ("2025-07-18T20:42:34z", 0),
        (" 2025-07-18T20:42:34Z ", 0),
        (1752871354, 0),
        (1752871354.25, 250_000),
    ],
)
def test_times_come_in_many_forms(said: object, micros: int) -> None:
    moment = decoded(message(timestamp=said))[0]["timestamp"]
    assert str(moment).startswith("2025-07-18 20:42:34")
    assert getattr(moment, "microsecond") == micros  # noqa: B009


BAD = {
    b"": "no JSON",
    b"   ": "no JSON",
    b"nonsense": "no JSON",
    b'{"timestamp":': "no JSON",
    b"[1]": "no JSON object",
    b"null": "no JSON object",
    b"\xff\xfe": "no JSON",
    b"{}": "timestamp is missing",
    message() + message(): "no JSON",
    message()[:-2]: "no JSON",
    message(timestamp="yesterday"): "timestamp is missing or no time",
    message(timestamp="2025-13-45T00:00:00Z"): "timestamp is missing or no time",
    message(timestamp=1e300): "timestamp is missing or no time",
    message(timestamp="9999-12-31T23:59:59-10:00"): "timestamp is missing or no time",
    message(ingested="soon"): "timestamp is missing or no time",
    message(timestamp=None): "timestamp is missing or no time",
    message(value=None): "value is no number",
    message(value="85"): "value is no number",
    message(value=[]): "value is no number",
    message(value=True): "value is no number",
    message(value=float("nan")): "value is no number",
    message(value=float("inf")): "value is no number",
    message().replace(b"85.0", b"1e999"): "value is no number",
    message(metric_name=None): "metric_name is missing",
    message(metric_name=""): "metric_name is missing",
    message(pod="\ud800"): "surrogate",
    b"[" * 100_000: "no JSON",
}


@pytest.mark.parametrize("bad", BAD, ids=range(len(BAD)))
def test_a_bad_message_is_an_error_with_its_reason(bad: bytes) -> None:
    found = decode_json([bad])
    assert found.table.num_rows == 0
    assert [error.index for error in found.errors] == [0]
    assert BAD[bad] in found.errors[0].reason


def test_bad_messages_cost_only_themselves() -> None:
    values, bad_at = [], []
    for number, bad in enumerate(BAD):
        values += [message(pod=f"pod-{number}-{n}") for n in range(13)]
        bad_at.append(len(values))
        values.append(bad)
    found = decode_json(values)
    assert [error.index for error in found.errors] == bad_at
    assert found.table.num_rows == 13 * len(BAD)
    good = [n for n in range(len(values)) if n not in bad_at]
    assert found.origin.to_pylist() == good
    assert [json.loads(values[n])["pod"] for n in good] == plain(found.table)["pod"].to_pylist()


def test_two_readings_in_one_message_do_not_shift_the_others() -> None:
    values = [message(pod="a"), message(pod="b") + message(pod="x"), b"", message(pod="c")]
    found = decode_json(values)
    assert plain(found.table)["pod"].to_pylist() == ["a", "c"]
    assert [error.index for error in found.errors] == [1, 2]


@examples(50)
@given(st.lists(st.one_of(st.binary(max_size=40), st.just(message())), max_size=20))
def test_no_bytes_raise_and_every_message_is_accounted_for(values: list[bytes]) -> None:
    found = decode_json(values)
    bad = [error.index for error in found.errors]
    assert sorted([*bad, *found.origin.to_pylist()]) == list(range(len(values)))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)
fields = st.sampled_from(["timestamp", "value", "gpu_id", "labels", "model", "other", "uuid"])


@examples(50)
@given(st.lists(st.dictionaries(fields, json_values, max_size=3), min_size=1, max_size=6))
def test_a_message_is_understood_the_same_alone_as_among_others(
    changes: list[dict[str, object]],
) -> None:
    values = [message(**change) for change in changes]
    together = decode_json(values)
    alone = [decode_json([value]) for value in values]
    assert [e.reason for e in together.errors] == [e.reason for one in alone for e in one.errors]
    rows = [row for one in alone for row in plain(one.table).to_pylist()]
    assert [str(row) for row in plain(together.table).to_pylist()] == [str(row) for row in rows]


@pytest.mark.parametrize("spaced", [False, True])
def test_many_messages_of_one_shape_are_understood_like_each_alone(spaced: bool) -> None:
    table = fleet(2000, gpus=16)
    values = encode_json(table)
    if spaced:
        values = [json.dumps(json.loads(value)).encode() for value in values]
    found = decode_json(values)
    assert found.errors == []
    assert plain(found.table).equals(table)
    assert found.origin.to_pylist() == list(range(2000))


# Each looks, to someone who cuts text, a little like something else.
DECEPTIVE = [
    message(labels={"value": "3"}),
    message(labels={"a": 1, "value": 3}),
    message(metric_name='quoted "value":7,'),
    message(metric_name="back\\slash"),
    message(pod='","metric_name":"x"'),
    message().replace(b'"value": 85.0', b'"value": 85.0, "value": 86.0'),
    message().replace(b'"value": 85.0', b'"value": -0'),
    message().replace(b'"value": 85.0', b'"value": 085'),
    message().replace(b"DCGM_FI_DEV_GPU_UTIL", b"tab\there"),
    message().replace(b"DCGM_FI_DEV_GPU_UTIL", b"\xff"),
    message(timestamp="2025-07-18 20:42:34"),
    message(timestamp="never"),
    message(timestamp="2025-07-18T20:42:34.123456789Z"),
    message(ingested="2025-07-18T20:42:35Z"),
    message(value=1e308),
    message().replace(b"85.0", b"1e999"),
    message(labels=None).replace(b'"hostname"', b'"value": 2, "hostname"'),
    b"not JSON",
    b"",
]


def compacted(value: bytes) -> bytes:
    return value.replace(b'": ', b'":').replace(b', "', b',"')


@pytest.mark.parametrize("compact", [False, True])
def test_messages_that_deceive_a_cutter_of_text_are_understood_like_each_alone(
    compact: bool,
) -> None:
    odd = [compacted(value) for value in DECEPTIVE] if compact else DECEPTIVE
    usual = compacted(message()) if compact else message()
    values = [value for bad in odd for value in (*[usual] * 40, bad)]
    found = decode_json(values)
    alone = {value: decode_json([value]) for value in {usual, *odd}}
    assert [(error.index, error.reason) for error in found.errors] == [
        (n, error.reason) for n, value in enumerate(values) for error in alone[value].errors
    ]
    rows = [str(row) for value in values for row in plain(alone[value].table).to_pylist()]
    assert [str(row) for row in plain(found.table).to_pylist()] == rows
