"""From a file to a real broker: every row, in order within a GPU, and what is none said why."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from nexus.queue.partitioners import murmur2
from support.broker import BrokerProcess
from support.confluent import admin_of
from support.fixtures import MakeTopic
from support.streamers import (
    HEADER,
    StreamerProcess,
    acknowledged,
    header,
    long_rows,
    messages_in,
    queue_of,
    readings_in,
    write_csv,
)
from support.waiting import wait_until

ROWS = 20_000


@pytest.fixture
def streamer(tmp_path: Path, broker: BrokerProcess, name: str) -> Callable[..., StreamerProcess]:
    def make(source: Path | str, *flags: str, **environ: str) -> StreamerProcess:
        url = source if isinstance(source, str) else f"csv://{source}"
        return StreamerProcess(tmp_path / "streamer", queue_of(broker, name), url, flags, environ)

    return make


Make = Callable[..., StreamerProcess]


def test_a_file_arrives_whole_and_in_order_within_a_gpu(
    streamer: Make, broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    run = streamer(write_csv(tmp_path / "a.csv", ROWS))
    assert run.run() == 0, run.stderr
    assert f"{ROWS:,} readings acknowledged" in run.stdout
    topics = admin_of(broker.bootstrap).list_topics(timeout=5).topics
    assert len(topics[name].partitions) == 12
    assert f"{name}.dlq" in topics
    table = readings_in(broker.bootstrap, name)
    assert table.num_rows == ROWS
    by_gpu: dict[str, list[float]] = {}
    for uuid, value in zip(
        table.column("uuid").to_pylist(), table.column("source_value").to_pylist(), strict=True
    ):
        by_gpu.setdefault(uuid, []).append(value)
    assert len(by_gpu) == 16
    assert all(values == sorted(values) for values in by_gpu.values())
    assert sorted(v for values in by_gpu.values() for v in values) == list(range(ROWS))
    assert set(table.column("cluster").to_pylist()) == {"local-cluster"}


def test_a_second_run_sends_nothing_and_from_start_sends_all_again(
    streamer: Make, broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    path = write_csv(tmp_path / "a.csv", 500)
    assert streamer(path).run() == 0
    again = streamer(path)
    assert again.run() == 0
    assert "nothing new" in again.stdout
    assert readings_in(broker.bootstrap, name).num_rows == 500
    with path.open("a") as file:
        file.writelines(long_rows(500, 40))
    assert streamer(path).run() == 0
    assert readings_in(broker.bootstrap, name).num_rows == 540
    assert streamer(path, "--from-start").run() == 0
    assert readings_in(broker.bootstrap, name).num_rows == 1080


def test_json_is_one_reading_a_message_where_its_key_belongs(
    streamer: Make, broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    path = write_csv(tmp_path / "a.csv", 2000)
    run = streamer(path, "--encoding", "json", "--cluster", "c9")
    assert run.run() == 0, run.stderr
    messages = messages_in(broker.bootstrap, name, 12)
    assert len(messages) == 2000
    for message in messages[::100]:
        key = message.key()
        assert isinstance(key, bytes)
        assert message.partition() == murmur2(key) % 12
        assert header(message, "content-type") == "application/json"
    table = readings_in(broker.bootstrap, name)
    assert sorted(table.column("source_value").to_pylist()) == list(range(2000))
    assert set(table.column("cluster").to_pylist()) == {"c9"}


def test_bad_rows_are_dead_letters_with_reason_and_place(
    streamer: Make, broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    path = tmp_path / "bad.csv"
    good = list(long_rows(0, 10))
    bad = [good[0].replace('"0","DCGM_FI_DRIVER', '"warm","DCGM_FI_DRIVER'), '"too","few"\n']
    path.write_text(HEADER + "".join([*good, *bad, *long_rows(10, 5)]))
    run = streamer(path)
    assert run.run() == 0, run.stderr
    assert "2 rows were no readings" in run.stdout
    assert readings_in(broker.bootstrap, name).num_rows == 15
    dead = messages_in(broker.bootstrap, f"{name}.dlq", 1)
    assert {header(m, "kind") for m in dead} == {"row"}
    assert sorted(str(header(m, "where")) for m in dead) == [f"{path}:12", f"{path}:13"]
    assert all(header(m, "reason") for m in dead)
    assert b'"too","few"' in [(m.value() or b"").strip() for m in dead]


def test_a_file_that_is_no_such_csv_is_one_clear_error(streamer: Make, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,2\n")
    run = streamer(path)
    assert run.run() != 0
    last = run.stderr.strip().splitlines()[-1]
    assert last.startswith("nexus: ")
    assert "Traceback" not in run.stderr


def test_the_environment_alone_drives_a_loop(
    broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    path = write_csv(tmp_path / "snapshot.csv", 64)
    run = StreamerProcess(
        tmp_path / "streamer",
        queue="",
        source="",
        environ={
            "CSV_FILE": str(path),
            "MSG_QUEUE_URL": queue_of(broker, name),
            "BATCH_SIZE": "32",
            "STREAM_INTERVAL": "20ms",
            "LOOP_MODE": "true",
            "CLUSTER_ID": "from-env",
        },
    ).start()
    try:
        wait_until(lambda: acknowledged(run) >= 192, what="three passes")
        assert run.stop(signal.SIGTERM) == 0, run.stderr
    finally:
        run.kill()
    table = readings_in(broker.bootstrap, name)
    stamps = list(
        zip(table.column("uuid").to_pylist(), table.column("timestamp").to_pylist(), strict=True)
    )
    assert len(set(stamps)) == len(stamps), "every pass has times of its own"
    assert all("source_timestamp" in labels for labels in table.column("labels").to_pylist())
    assert set(table.column("cluster").to_pylist()) == {"from-env"}


def test_shards_split_hosts_and_files_without_overlap(
    broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    for n in range(4):
        path = files / f"{n}.csv"
        path.write_text(HEADER + "".join(long_rows(n * 100, 100)))
    for index in range(2):
        run = StreamerProcess(
            tmp_path / f"s{index}",
            queue_of(broker, name),
            f"csv://{files}",
            ("--shard", f"{index}/2"),
        )
        assert run.run() == 0, run.stderr
    values = readings_in(broker.bootstrap, name).column("source_value").to_pylist()
    assert sorted(values) == list(range(400))


def test_a_topic_that_is_there_keeps_its_partitions(
    streamer: Make, broker: BrokerProcess, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(3)
    run = streamer(write_csv(tmp_path / "a.csv", 300))
    assert run.run() == 0, run.stderr
    assert readings_in(broker.bootstrap, topic, 3).num_rows == 300
