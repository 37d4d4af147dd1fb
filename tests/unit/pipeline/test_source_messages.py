"""Messages by the group, and the forms that are made of them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle
from pyspark.sql.pandas.types import to_arrow_schema

from nexus.pipeline.source.datasource import NexusSource, StreamReader, Task, spark_schema
from nexus.pipeline.source.fetching import batches
from nexus.pipeline.source.forms import SCHEMAS, Refused, shape
from nexus.pipeline.source.messages import GROUP_BYTES, GROUP_READINGS, Group, grouped, weigh
from nexus.pipeline.source.options import Form, parse_options
from nexus.pipeline.source.planning import Range, Weight
from nexus.queue.port import Batch, Received
from nexus.telemetry.codec import ARROW_TYPE
from support.readings import examples, message

ARROW = ("content-type", ARROW_TYPE.encode())
FORMS: tuple[Form, ...] = ("readings", "narrow")
PICKLE: Any = cloudpickle  # as Spark does it


def received(
    offset: int, value: bytes = b"", count: int | None = None, partition: int = 0
) -> Received:
    headers = (ARROW,) if count is None else (ARROW, ("count", str(count).encode()))
    return Received(partition, offset, 0, None, value, headers)


@examples(100)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 20_000), st.sampled_from([0, 10, 9 << 20])), min_size=1),
        max_size=5,
    )
)
def test_groups_hold_all_messages_in_order_and_none_is_too_large(
    sizes: list[list[tuple[int, int]]],
) -> None:
    numbers = iter(range(10_000))
    given_ = [
        (partition, Batch([received(next(numbers), bytes(size), count) for count, size in batch]))
        for partition, batch in enumerate(sizes)
    ]
    groups = list(grouped(given_))
    expected = [(p, m.offset, len(m.value)) for p, batch in given_ for m in batch]
    found = [
        (partition, offset, len(value))
        for group in groups
        for partition, offset, value in zip(
            group.partitions, group.offsets, group.values, strict=True
        )
    ]
    assert found == expected
    counts = {m.offset: min(max(int(m.headers[1][1]), 1), 10_000) for _, b in given_ for m in b}
    for group in groups:
        assert sum(counts[offset] for offset in group.offsets[:-1]) < GROUP_READINGS
        assert sum(map(len, group.values[:-1])) < GROUP_BYTES
    for before, after in pairwise(groups):  # none ends before it is full
        full = sum(counts[offset] for offset in before.offsets) / GROUP_READINGS
        size = sum(map(len, before.values)) / GROUP_BYTES
        assert full + size >= 0.999
        assert len(after)


@pytest.mark.parametrize(
    ("headers", "readings"),
    [
        ((ARROW, ("count", b"250")), 250),
        ((ARROW, ("count", b"0")), 1),
        ((ARROW, ("count", b"99999999")), 10_000),
        ((ARROW, ("count", b"9" * 40)), 1),
        ((ARROW, ("count", b"-5")), 1),
        ((ARROW, ("count", "٣".encode())), 1),
        ((ARROW,), 1),
        ((), 1),
        ((("content-type", b"application/json"), ("count", b"700")), 1),
    ],
)
def test_what_a_message_holds_is_told_from_its_headers(
    headers: tuple[tuple[str, bytes], ...], readings: int
) -> None:
    assert weigh([Batch([Received(0, 0, 0, None, b"abc", headers)])]) == Weight(readings, 3)


def test_no_messages_weigh_nothing() -> None:
    assert weigh([]) == Weight(0, 0)


@pytest.mark.parametrize("form", FORMS)
def test_every_batch_is_exactly_what_spark_expects(form: Form) -> None:
    schema = SCHEMAS[form]
    assert to_arrow_schema(spark_schema(form), timezone="UTC").equals(schema)
    group = Group([0, 0, 1], [4, 5, 9], [message(), b"none", message(value=3)], [None] * 3)
    made = list(batches(group, shape(form, "t")))
    made.append(shape(form, "t").refused([Refused(3, 7, "gone")]))
    assert all(batch.schema.equals(schema) for batch in made)
    table = pa.Table.from_batches(made, schema)
    table.validate(full=True)
    assert [o for o in table.column("offset").to_pylist() if o is not None] == [4, 9, 5, 7]


def test_workers_import_the_source_rather_than_get_it_sent() -> None:
    options = parse_options({"queue": "kafka://h:1/t"})
    for thing in (NexusSource, StreamReader(options), Task((Range(0, 1, 2),))):
        sent = PICKLE.dumps(thing)
        assert b"nexus.pipeline.source.datasource" in sent
        assert len(sent) < 1_000
    task = PICKLE.loads(PICKLE.dumps(Task((Range(0, 1, 2),), (Range(1, 0, 5),))))
    assert task == Task((Range(0, 1, 2),), (Range(1, 0, 5),))
