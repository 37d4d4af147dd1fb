"""Reading commands against librdkafka's built-in cluster: no broker process, real protocol."""

import json

import pytest
from confluent_kafka import Producer

from nexus.cli.entry import run

Out = pytest.CaptureFixture[str]


class MockCluster:
    """Four partitions of topic `t`, three messages each; lives as long as its producer."""

    def __init__(self) -> None:
        self.producer = Producer(
            {"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 0}
        )
        for partition in range(4):
            for number in range(3):
                self.send(f"{partition}-{number}".encode(), partition)
        self.producer.flush(10)
        brokers = self.producer.list_topics(timeout=10).brokers.values()
        self.bootstrap = ",".join(f"{b.host}:{b.port}" for b in brokers)

    def send(self, value: bytes | None, partition: int) -> None:
        self.producer.produce(
            "t", value, key=b"k", partition=partition, headers=[("h", b"1")], timestamp=1000
        )


@pytest.fixture(scope="module")
def cluster() -> MockCluster:
    return MockCluster()


def lines(out: Out) -> list[str]:
    return out.readouterr().out.splitlines()


def test_tail_prints_partition_offset_time_key_and_value(cluster: MockCluster, capsys: Out) -> None:
    words = ["topics", "tail", "t", "--from", "beginning", "--until-end", "-p", "2"]
    assert run([*words, "--bootstrap", cluster.bootstrap]) == 0
    assert lines(capsys)[0] == "2:0  1970-01-01T00:00:01.000Z  k  2-0"


def test_tail_from_minus_n_begins_n_before_the_end_of_each(
    cluster: MockCluster, capsys: Out
) -> None:
    words = ["topics", "tail", "t", "--from", "-1", "--until-end"]
    assert run([*words, "--bootstrap", cluster.bootstrap]) == 0
    assert sorted(line.split()[0] for line in lines(capsys)) == ["0:2", "1:2", "2:2", "3:2"]


def test_tail_stops_after_the_most_it_may_print(cluster: MockCluster, capsys: Out) -> None:
    words = ["topics", "tail", "t", "--from", "beginning", "--max", "5"]
    assert run([*words, "--bootstrap", cluster.bootstrap]) == 0
    assert len(lines(capsys)) == 5


def test_tail_as_json_is_one_document_a_line(cluster: MockCluster, capsys: Out) -> None:
    words = ["topics", "tail", "t", "--from", "beginning", "--max", "1", "-p", "0", "--json"]
    assert run([*words, "--bootstrap", cluster.bootstrap]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "topic": "t",
        "partition": 0,
        "offset": 0,
        "timestamp": "1970-01-01T00:00:01.000Z",
        "key": "k",
        "value": "0-0",
        "headers": [["h", "1"]],
    }


def test_tail_shows_headers_when_asked(cluster: MockCluster, capsys: Out) -> None:
    words = ["topics", "tail", "t", "--from", "beginning", "--max", "1", "-p", "0", "-v"]
    assert run([*words, "--bootstrap", cluster.bootstrap]) == 0
    assert lines(capsys)[1] == "    h: 1"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["nope"], "topic nope does not exist (see nexus topics list)"),
        (["t", "-p", "9"], "topic t has no partition 9 (it has 4)"),
    ],
)
def test_tail_of_what_is_not_there_is_one_line(
    cluster: MockCluster, capsys: Out, words: list[str], line: str
) -> None:
    assert run(["topics", "tail", *words, "--bootstrap", cluster.bootstrap]) == 1
    assert capsys.readouterr().err == f"nexus: {line}\n"


def test_verify_reads_every_message(cluster: MockCluster, capsys: Out) -> None:
    assert run(["topics", "verify", "t", "--bootstrap", cluster.bootstrap]) == 0
    assert capsys.readouterr().out == "4 partitions, 12 messages checked: all sound\n"


def test_a_reset_is_a_dry_run_unless_told_to_execute(cluster: MockCluster, capsys: Out) -> None:
    words = ["groups", "reset", "g", "--topic", "t", "--to-offset", "2"]
    assert run([*words, "--bootstrap", cluster.bootstrap]) == 0
    out = lines(capsys)
    assert out[1].split() == ["t", "0", "-", "2"]
    assert out[-1] == "dry run: nothing was changed; add --execute to do it"


def test_a_group_without_offsets_needs_a_topic(cluster: MockCluster, capsys: Out) -> None:
    words = ["groups", "reset", "fresh", "--to-latest", "--bootstrap", cluster.bootstrap]
    assert run(words) == 1
    assert "has committed no offsets; name a topic with --topic" in capsys.readouterr().err
