"""The data source "nexus" on a real broker: planned and read here, and by Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewPartitions
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from nexus.pipeline.narrow import CONTEXT, READING, UNREADABLE, Widener
from nexus.pipeline.source import register
from nexus.pipeline.source.backlog import MessagesGone, QueueShrank, StartMoved
from nexus.pipeline.source.datasource import BatchReader, StreamReader
from nexus.pipeline.source.forms import SCHEMAS
from nexus.pipeline.source.options import parse_options
from nexus.queue.errors import QueueAway
from nexus.telemetry.codec import ARROW_TYPE
from nexus.telemetry.normalise import normalise
from nexus.telemetry.reading import READING_SCHEMA, plain
from support.broker import BrokerProcess
from support.confluent import admin_of, create_topic
from support.fixtures import MakeBroker, MakeTopic
from support.mock_cluster import mock_cluster
from support.published import Sent, arrow_messages, json_messages, publish
from support.readings import fleet, message
from support.spark import spark_session

Row = dict[str, Any]
FLEET = fleet(1_000, gpus=16)
BAD: list[Sent] = [
    (b'{"timestamp": "never"}', [("content-type", b"application/json")]),
    (b"no arrow", [("content-type", ARROW_TYPE.encode())]),
    (b"\x00\x01", [("content-type", b"application/x-protobuf")]),
    (None, [("content-type", b"application/json")]),
    (b"", []),
    (b"\xff{", [("content-type", None), ("count", b"many")]),
]


def options(broker: BrokerProcess, topic: str, **more: object) -> dict[str, str]:
    said = {"queue": f"kafka://{broker.bootstrap}/{topic}", "poll_timeout": "15s", "tasks": "3"}
    return said | {name: str(value) for name, value in more.items()}


@pytest.fixture
def streams() -> Iterator[Any]:
    """Readers of streams, closed at the end."""
    made: list[StreamReader] = []

    def make(said: Mapping[str, str]) -> StreamReader:
        made.append(StreamReader(parse_options(said)))
        return made[-1]

    yield make
    for each in made:
        each.stop()


def table_of(reader: StreamReader | BatchReader, tasks: Any) -> pa.Table:
    batches = [batch for task in tasks for batch in reader.read(task)]
    schema = SCHEMAS[reader.options.form]
    assert all(batch.schema.equals(schema) for batch in batches)
    return pa.Table.from_batches(batches, schema)


def rows_between(
    reader: StreamReader, start: Mapping[str, int], end: Mapping[str, int]
) -> pa.Table:
    return table_of(reader, reader.partitions(start, end))


def whole(said: Mapping[str, str]) -> pa.Table:
    """What a batch read gives, in the order of the queue."""
    reader = BatchReader(parse_options(said))
    table = table_of(reader, reader.partitions())
    return table.sort_by([(name, "ascending") for name in ("partition", "offset", "row")])


def expected(table: pa.Table) -> list[Row]:
    rows: list[Row] = plain(normalise(table)).to_pylist()
    return rows


def readings_in(rows: pa.Table) -> list[Row]:
    good = rows.filter(pa.compute.is_null(rows.column("reason")))
    found: list[Row] = good.select(READING_SCHEMA.names).to_pylist()
    return found


def offsets_in(rows: pa.Table) -> list[int]:
    found: list[int] = rows.column("offset").to_pylist()
    return found


def remove_before(broker: BrokerProcess, topic: str, offset: int, partition: int = 0) -> None:
    below = TopicPartition(topic, partition, offset)
    admin = admin_of(broker.bootstrap)
    admin.delete_records([below])[below].result(10)


def add_partitions(broker: BrokerProcess, topic: str, total: int) -> None:
    admin = admin_of(broker.bootstrap)
    admin.create_partitions([NewPartitions(topic, total)])[topic].result(10)


def test_readings_of_both_kinds_of_messages_arrive_as_they_were(
    broker: BrokerProcess, make_topic: MakeTopic
) -> None:
    topic = make_topic(3)
    publish(broker.bootstrap, topic, arrow_messages(FLEET.slice(0, 700), readings=100), [0])
    publish(broker.bootstrap, topic, json_messages(FLEET.slice(700)), [2])
    rows = whole(options(broker, topic))
    assert readings_in(rows) == expected(FLEET)
    assert rows.column("row").to_pylist() == [*list(range(100)) * 7, *[0] * 300]
    assert offsets_in(rows) == [n // 100 for n in range(700)] + list(range(300))
    assert set(rows.column("topic").to_pylist()) == {topic}
    assert (
        rows.column("content_type").to_pylist() == [ARROW_TYPE] * 700 + ["application/json"] * 300
    )


def test_the_narrow_form_holds_the_same_readings(broker: BrokerProcess, topic: str) -> None:
    publish(broker.bootstrap, topic, arrow_messages(FLEET, readings=300))
    rows = whole(options(broker, topic, form="narrow", tasks=1))
    kind = rows.column("kind")
    contexts, readings = (rows.filter(pa.compute.equal(kind, k)) for k in (CONTEXT, READING))
    told = [pa.ipc.open_stream(blob).read_all() for blob in contexts.column("text").to_pylist()]
    assert sum(map(len, told)) == len(set(readings.column("context").to_pylist()))
    widener = Widener()
    widener.learn(contexts)
    assert plain(widener.readings(readings)).to_pylist() == expected(FLEET)
    assert readings.column("row").to_pylist() == [n % 300 for n in range(1_000)]


def test_messages_that_give_no_reading_say_why_and_cost_no_other(
    broker: BrokerProcess, topic: str
) -> None:
    good = json_messages(FLEET.slice(0, 2))
    publish(broker.bootstrap, topic, [*BAD[:3], good[0], *BAD[3:], good[1]])
    rows = whole(options(broker, topic))
    assert readings_in(rows) == expected(FLEET.slice(0, 2))
    bad = rows.filter(pa.compute.is_valid(rows.column("reason")))
    assert offsets_in(bad) == [0, 1, 2, 4, 5, 6]
    assert bad.column("raw").to_pylist() == [value or b"" for value, _ in BAD]
    reasons = bad.column("reason").to_pylist()
    assert all(reasons)
    assert reasons[2] == "the content type 'application/x-protobuf' is not known"
    assert bad.column("uuid").to_pylist() == [""] * 6
    assert bad.column("timestamp").null_count == 6


def test_the_narrow_form_keeps_what_gave_no_reading(broker: BrokerProcess, topic: str) -> None:
    publish(broker.bootstrap, topic, BAD)
    rows = whole(options(broker, topic, form="narrow"))
    assert set(rows.column("kind").to_pylist()) == {UNREADABLE}
    assert rows.column("text").to_pylist() == [value or b"" for value, _ in BAD]
    assert all(rows.column("fault").to_pylist())


def test_a_message_without_readings_is_no_row(broker: BrokerProcess, topic: str) -> None:
    from nexus.telemetry.arrow_codec import encode_arrow

    nothing: Sent = (encode_arrow(FLEET.slice(0, 0)), [("content-type", ARROW_TYPE.encode())])
    publish(broker.bootstrap, topic, [nothing, *arrow_messages(FLEET.slice(0, 5)), nothing])
    rows = whole(options(broker, topic))
    assert readings_in(rows) == expected(FLEET.slice(0, 5))
    assert offsets_in(rows) == [1] * 5


@pytest.mark.parametrize("as_json", [True, False])
def test_a_backlog_is_worked_off_in_even_batches(
    broker: BrokerProcess, make_topic: MakeTopic, streams: Any, as_json: bool
) -> None:
    topic = make_topic(4)
    sent = json_messages(FLEET) if as_json else arrow_messages(FLEET, readings=10)
    publish(broker.bootstrap, topic, sent, range(4))
    reader = streams(options(broker, topic, max_readings=240))
    place = reader.initialOffset()
    assert place == {"0": 0, "1": 0, "2": 0, "3": 0}
    found: list[Row] = []
    sizes: list[int] = []
    while (end := reader.latestOffset(place, reader.getDefaultReadLimit())) != place:
        rows = rows_between(reader, place, end)
        sizes.append(rows.num_rows)
        found += readings_in(rows)
        place = end
    assert sizes == [240, 240, 240, 240, 40]
    assert sorted(map(str, found)) == sorted(map(str, expected(FLEET)))
    assert reader.reportLatestOffset() == place
    assert rows_between(reader, place, place).num_rows == 0


def test_a_limit_of_sparks_own_is_kept_to(broker: BrokerProcess, topic: str, streams: Any) -> None:
    publish(broker.bootstrap, topic, json_messages(FLEET))
    reader = streams(options(broker, topic, max_readings=10))

    def end(limit: ReadLimit) -> int:
        place: dict[str, int] = reader.latestOffset(reader.initialOffset(), limit)
        return place["0"]

    assert end(reader.getDefaultReadLimit()) == 10
    assert end(ReadMaxRows(70)) == 70
    assert end(ReadAllAvailable()) == 1_000


def test_what_comes_after_available_now_is_left_for_later(
    broker: BrokerProcess, make_topic: MakeTopic, streams: Any
) -> None:
    topic = make_topic(1)
    publish(broker.bootstrap, topic, json_messages(FLEET.slice(0, 30)))
    reader = streams(options(broker, topic))
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    publish(broker.bootstrap, topic, json_messages(FLEET.slice(30, 30)))
    add_partitions(broker, topic, 2)
    publish(broker.bootstrap, topic, json_messages(FLEET.slice(60, 5)), [1])
    assert reader.latestOffset(start, reader.getDefaultReadLimit()) == {"0": 30}
    assert reader.latestOffset({"0": 30}, reader.getDefaultReadLimit()) == {"0": 30}
    assert reader.reportLatestOffset() == {"0": 60, "1": 5}


def test_latest_is_found_once_and_kept(
    broker: BrokerProcess, topic: str, streams: Any, tmp_path: Path
) -> None:
    said = options(broker, topic, start="latest", start_file=tmp_path / "start.json")
    publish(broker.bootstrap, topic, json_messages(FLEET.slice(0, 7)))
    first = streams(said)
    assert first.initialOffset() == {"0": 7}
    publish(broker.bootstrap, topic, json_messages(FLEET.slice(7, 3)))
    assert first.initialOffset() == {"0": 7}
    assert streams(said).initialOffset() == {"0": 7}


def test_a_first_batch_whose_start_was_not_kept_is_not_guessed_at(
    broker: BrokerProcess, topic: str, streams: Any
) -> None:
    publish(broker.bootstrap, topic, json_messages(FLEET.slice(0, 9)))
    reader = streams(options(broker, topic, start="latest"))
    with pytest.raises(StartMoved, match="a start_file to keep it"):
        reader.partitions(reader.initialOffset(), {"0": 5})


def test_times_and_offsets_bound_what_is_read(broker: BrokerProcess, make_topic: MakeTopic) -> None:
    topic = make_topic(1, **{"retention.ms": "-1"})
    for minute in range(4):
        sent = json_messages(FLEET.slice(minute * 10, 10))
        publish(broker.bootstrap, topic, sent, timestamp_ms=1_752_840_000_000 + minute * 60_000)
    between = whole(
        options(broker, topic, start="2025-07-18T12:01:00Z", end="2025-07-18T12:03:00Z")
    )
    assert offsets_in(between) == list(range(10, 30))
    chosen = whole(options(broker, topic, start='{"0": 5}', end='{"0": 12}'))
    assert offsets_in(chosen) == list(range(5, 12))
    backwards = whole(options(broker, topic, start='{"0": 12}', end='{"0": 5}'))
    assert offsets_in(backwards) == []


def test_only_the_partitions_asked_for_are_read(
    broker: BrokerProcess, make_topic: MakeTopic
) -> None:
    topic = make_topic(4)
    publish(broker.bootstrap, topic, json_messages(FLEET.slice(0, 40)), range(4))
    rows = whole(options(broker, topic, partitions="0,2-3"))
    assert set(rows.column("partition").to_pylist()) == {0, 2, 3}
    assert rows.num_rows == 30


def test_a_partition_added_later_is_read_from_its_first_message(
    broker: BrokerProcess, make_topic: MakeTopic, streams: Any
) -> None:
    topic = make_topic(1)
    publish(broker.bootstrap, topic, json_messages(FLEET.slice(0, 5)))
    reader = streams(options(broker, topic, start="latest"))
    place = reader.initialOffset()
    add_partitions(broker, topic, 3)
    assert reader.latestOffset(place, reader.getDefaultReadLimit()) == {"0": 5}
    publish(broker.bootstrap, topic, json_messages(FLEET.slice(5, 4)), [2])
    end = reader.latestOffset(place, reader.getDefaultReadLimit())
    assert end == {"0": 5, "2": 4}
    assert offsets_in(rows_between(reader, place, end)) == [0, 1, 2, 3]


def test_removed_messages_are_an_error_that_says_what_to_do(
    broker: BrokerProcess, topic: str, streams: Any
) -> None:
    publish(broker.bootstrap, topic, json_messages(FLEET.slice(0, 40)))
    remove_before(broker, topic, 26)
    reader = streams(options(broker, topic))
    told = r"partition 0: offsets 10 to 25 were removed by retention .* on_gone=skip"
    with pytest.raises(MessagesGone, match=told):
        reader.latestOffset({"0": 10}, reader.getDefaultReadLimit())
    with pytest.raises(MessagesGone, match=told):
        reader.partitions({"0": 10}, {"0": 40})


@pytest.mark.parametrize("form", ["readings", "narrow"])
def test_skipped_messages_leave_a_row(
    broker: BrokerProcess, topic: str, streams: Any, form: str
) -> None:
    publish(broker.bootstrap, topic, json_messages(FLEET.slice(0, 40)))
    remove_before(broker, topic, 26)
    reader = streams(options(broker, topic, on_gone="skip", form=form))
    end = reader.latestOffset({"0": 10}, reader.getDefaultReadLimit())
    assert end == {"0": 40}
    rows = rows_between(reader, {"0": 10}, end)
    reason = "reason" if form == "readings" else "fault"
    gone = rows.filter(pa.compute.is_valid(rows.column(reason))).to_pylist()
    assert [(row["partition"], row["offset"]) for row in gone] == [(0, 10)]
    assert gone[0][reason] == "offsets 10 to 25 were removed by retention before they were read"
    assert set(offsets_in(rows)) - {None} == {10, *range(26, 40)}
    all_gone = rows_between(reader, {"0": 3}, {"0": 9})
    assert offsets_in(all_gone) == [3]


def test_where_nothing_is_left_the_gap_is_still_told(
    broker: BrokerProcess, topic: str, streams: Any
) -> None:
    publish(broker.bootstrap, topic, json_messages(FLEET.slice(0, 40)))
    remove_before(broker, topic, 40)
    reader = streams(options(broker, topic, on_gone="skip"))
    end = reader.latestOffset({"0": 10}, reader.getDefaultReadLimit())
    assert end == {"0": 40}
    rows = rows_between(reader, {"0": 10}, end)
    assert rows.column("reason").to_pylist() == [
        "offsets 10 to 39 were removed by retention before they were read"
    ]
    assert reader.latestOffset(end, reader.getDefaultReadLimit()) == end


@pytest.mark.parametrize("on_gone", ["skip", "fail"])
def test_messages_removed_after_planning_are_noticed_by_the_task(
    broker: BrokerProcess, topic: str, streams: Any, on_gone: str
) -> None:
    publish(broker.bootstrap, topic, json_messages(FLEET.slice(0, 40)))
    reader = streams(options(broker, topic, on_gone=on_gone, tasks=1))
    tasks = reader.partitions({"0": 0}, {"0": 40})
    remove_before(broker, topic, 30)
    if on_gone == "fail":
        with pytest.raises(MessagesGone, match="offsets 0 to 29 were removed"):
            table_of(reader, tasks)
        return
    rows = table_of(reader, tasks)
    assert rows.column("reason").to_pylist() == [
        *[None] * 10,
        "offsets 0 to 29 were removed by retention before they were read",
    ]
    assert offsets_in(rows) == [*range(30, 40), 0]


def test_a_topic_made_anew_is_not_taken_for_the_old_one(
    broker: BrokerProcess, topic: str, streams: Any
) -> None:
    publish(broker.bootstrap, topic, json_messages(FLEET.slice(0, 40)))
    admin = admin_of(broker.bootstrap)
    admin.delete_topics([topic])[topic].result(10)
    create_topic(admin, topic)
    publish(broker.bootstrap, topic, json_messages(FLEET.slice(0, 3)))
    reader = streams(options(broker, topic, on_gone="skip"))
    with pytest.raises(QueueShrank, match="partition 0 ends at 3, but reading should go on at 40"):
        reader.latestOffset({"0": 40}, reader.getDefaultReadLimit())


def test_a_worker_reads_again_after_the_broker_was_away(make_broker: MakeBroker) -> None:
    own = make_broker()
    create_topic(admin_of(own.bootstrap), "t")
    publish(own.bootstrap, "t", json_messages(FLEET.slice(0, 20)))
    reader = BatchReader(parse_options(options(own, "t", poll_timeout="1s")))
    tasks = reader.partitions()
    own.stop()
    with pytest.raises(QueueAway):
        table_of(reader, tasks)
    own.start()
    assert offsets_in(table_of(reader, tasks)) == list(range(20))


def test_spark_repeats_a_failed_first_batch_and_goes_on_from_its_checkpoint(
    broker: BrokerProcess, make_topic: MakeTopic, streams: Any, tmp_path: Path
) -> None:
    """What came before the start is never seen; every batch is the same when it is repeated."""
    topic = make_topic(2)
    spark = spark_session()
    register(spark)
    said = options(
        broker, topic, start="latest", start_file=tmp_path / "start.json", max_readings=60
    )
    batches: dict[int, list[list[int]]] = {}

    def run(fail: bool = False) -> Any:
        def store(rows: DataFrame, number: int) -> None:
            found = rows.select("partition", "offset").toArrow().to_pylist()
            batches.setdefault(number, []).append(
                sorted(10_000 * r["partition"] + r["offset"] for r in found)
            )
            if fail:
                raise RuntimeError("not stored")

        stream = spark.readStream.format("nexus").options(**said).load()
        writer = stream.writeStream.foreachBatch(store).trigger(availableNow=True)
        return writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()

    publish(broker.bootstrap, topic, json_messages(FLEET.slice(0, 20)), range(2))
    assert streams(said).initialOffset() == {"0": 10, "1": 10}
    publish(broker.bootstrap, topic, json_messages(FLEET.slice(20, 100)), range(2))
    with pytest.raises(StreamingQueryException, match="not stored"):
        run(fail=True).awaitTermination()
    publish(broker.bootstrap, topic, json_messages(FLEET.slice(120, 40)), range(2))
    query = run()
    query.awaitTermination()
    assert batches[0][0] == batches[0][1]
    assert [len(runs[-1]) for _, runs in sorted(batches.items())] == [60, 60, 20]
    seen = sorted(place for runs in batches.values() for place in runs[-1])
    assert seen == [*range(10, 80), *range(10_010, 10_080)]
    last = query.recentProgress[-1]["sources"][0]
    assert json.loads(str(last["latestOffset"]).replace("'", '"')) == {"0": 80, "1": 80}


@pytest.mark.parametrize("form", ["readings", "narrow"])
def test_spark_reads_any_kafka_cluster(form: str) -> None:
    """On librdkafka's own mock of a cluster with three brokers; the first batch is no reading."""
    spark = spark_session()
    register(spark)
    with mock_cluster(brokers=3) as cluster:
        topic = cluster.create_topic("gpu-telemetry", 4)
        publish(
            cluster.bootstrap, topic, [(b"none", []), *json_messages(FLEET.slice(0, 300))], range(4)
        )
        publish(cluster.bootstrap, topic, arrow_messages(FLEET.slice(300), readings=50), range(4))
        source = spark.read.format("nexus").option("queue", f"kafka://{cluster.bootstrap}/{topic}")
        rows = source.option("form", form).load().toArrow()
    if form == "readings":
        assert sorted(map(str, readings_in(rows))) == sorted(map(str, expected(FLEET)))
        assert rows.num_rows == 1_001
    else:
        kinds = rows.column("kind").to_pylist()
        assert kinds.count(READING) == 1_000
        assert kinds.count(UNREADABLE) == 1


def test_a_wrong_option_is_told_when_spark_loads() -> None:
    spark = spark_session()
    register(spark)
    with pytest.raises(
        Exception, match=r"option form: found .*wide.*, expected readings or narrow"
    ):
        spark.read.format("nexus").option("queue", "h").option("form", "wide").load()


def test_messages_of_any_client_are_read(broker: BrokerProcess, topic: str) -> None:
    publish(broker.bootstrap, topic, [(message(), [])])
    (row,) = readings_in(whole(options(broker, topic)))
    assert (row["uuid"], row["metric"]) == ("GPU-5fd4f087", "gpu_util")
